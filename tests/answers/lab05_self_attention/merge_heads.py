"""Answers to merge_heads."""

import torch
from answers.core import draw, right, wide, wrong
from answers.lab05_self_attention.shapes import PLACES, sizes
from answers.signs import CUT, EXCHANGED, FITS

from nbjudge.question import Request


@wide("merge_heads")
def any_pieces(g):
    for b, t, h, width, _ in sizes(g):
        yield Request((draw(g, b, h, t, width),), gradients=True)


@right("merge_heads")
def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right("merge_heads")
def permuted_and_reshaped(x):
    return x.permute(0, 2, 1, 3).reshape(x.size(0), x.size(2), -1)


@right("merge_heads")
def side_by_side(x):
    return torch.cat(x.unbind(1), dim=-1)


@right("merge_heads")
def contiguous_and_viewed(x):
    b, h, t, d = x.shape
    return x.swapaxes(1, 2).contiguous().view(b, t, h * d)


@right("merge_heads")
def head_after_head(x):
    merged = x[:, 0]
    for h in range(1, x.size(1)):
        merged = torch.cat([merged, x[:, h]], dim=-1)
    return merged


@right("merge_heads")
def tokens_flattened(x):
    return torch.stack([token.flatten(1) for token in x.unbind(2)], dim=1)


@right("merge_heads")
def sentences_flattened(x):
    return torch.stack([sentence.transpose(0, 1).flatten(1) for sentence in x])


@right("merge_heads")
def turned_and_flattened(x):
    return x.mT.flatten(1, 2).mT


@right("merge_heads")
def into_an_empty_one(x):
    b, h, t, d = x.shape
    merged = x.new_zeros(b, t, h * d)
    for number in range(h):
        merged[..., number * d : (number + 1) * d] = x[:, number]
    return merged


@right("merge_heads")
def by_split(x):
    return torch.cat([head.squeeze(1) for head in x.split(1, dim=1)], dim=2)


@right("merge_heads")
def merged_with_einsum(x):
    return (torch.einsum("bhtd->bthd", x) * 1).flatten(2)


@wrong("merge_heads", "heads merged by view, without transpose")
def viewed_back(x):
    b, h, t, d = x.shape
    return x.contiguous().view(b, t, h * d)


@wrong("merge_heads", "pieces interleaved")
def pieces_mixed(x):
    return torch.stack(x.unbind(1), dim=-1).flatten(2)


@wrong("merge_heads", "heads added up")
def added_up(x):
    return x.sum(dim=1)


@wrong("merge_heads")
def averaged(x):
    return x.mean(dim=1)


@wrong("merge_heads", EXCHANGED, PLACES)
def flattened_without_transpose(x):
    return x.flatten(1, 2)


@wrong("merge_heads", PLACES, EXCHANGED)
def flattened_too_early(x):
    return x.transpose(1, 2).flatten(1, 2)


@wrong("merge_heads", "axes exchanged", PLACES)
def columns(x):
    return x.transpose(2, 3).flatten(1, 2)


@wrong("merge_heads", PLACES)
def last_head_first(x):
    return torch.cat(x.flip(1).unbind(1), dim=-1)


@wrong("merge_heads", FITS)
def view_without_contiguous(x):
    return x.transpose(1, 2).view(x.size(0), x.size(2), x.size(3))


@wrong("merge_heads", CUT)
def merged_without_gradient(x):
    with torch.no_grad():
        return merge_heads(x)


@wrong("merge_heads", "a name that does not exist")
def misspelt(x):
    return x.swap(1, 2).flatten(2)
