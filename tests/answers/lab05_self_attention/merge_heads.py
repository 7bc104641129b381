"""Answers to merge_heads."""

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab05_self_attention.shared import PLACES, sizes
from answers.signs import CUT, EXCHANGED, FITS, NO_NAME

from nbjudge import Request, edit


@wide("merge_heads")
def any_pieces(g):
    for b, t, h, width, _ in sizes(g):
        yield Request((draw(g, b, h, t, width),), gradients=True)


@right("merge_heads")
def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


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
def into_an_empty_one(x):
    b, h, t, d = x.shape
    merged = x.new_zeros(b, t, h * d)
    for number in range(h):
        merged[..., number * d : (number + 1) * d] = x[:, number]
    return merged


@right("merge_heads")
def by_split(x):
    return torch.cat([head.squeeze(1) for head in x.split(1, dim=1)], dim=2)


MERGED = "x.transpose(1, 2).flatten(2)"
right_edits(
    "merge_heads",
    merge_heads,
    permuted_and_reshaped=edit(
        merge_heads, MERGED, "x.permute(0, 2, 1, 3).reshape(x.size(0), x.size(2), -1)"
    ),
    turned_and_flattened=edit(merge_heads, MERGED, "x.mT.flatten(1, 2).mT"),
    merged_with_einsum=edit(
        merge_heads, "x.transpose(1, 2)", "(torch.einsum('bhtd->bthd', x) * 1)"
    ),
)
wrong_edits(
    "merge_heads",
    merge_heads,
    averaged=(edit(merge_heads, MERGED, "x.mean(dim=1)"),),
    flattened_without_transpose=(
        edit(merge_heads, MERGED, "x.flatten(1, 2)"),
        EXCHANGED,
        "heads concatenated along the tokens",
        PLACES,
    ),
    flattened_too_early=(
        edit(merge_heads, "flatten(2)", "flatten(1, 2)"),
        PLACES,
        EXCHANGED,
    ),
    columns=(
        edit(merge_heads, MERGED, "x.transpose(2, 3).flatten(1, 2)"),
        EXCHANGED,
        PLACES,
    ),
    last_head_first=(edit(merge_heads, "x.", "x.flip(1)."), PLACES),
    view_without_contiguous=(
        edit(merge_heads, "flatten(2)", "view(x.size(0), x.size(2), x.size(3))"),
        FITS,
    ),
    merged_without_gradient=(edit(merge_heads, MERGED, f"{MERGED}.detach()"), CUT),
    misspelt=(edit(merge_heads, "transpose", "swap"), NO_NAME),
    pieces_viewed_as_rows=(
        edit(
            merge_heads,
            "x.transpose",
            "x.view(len(x), -1, x.size(3)).view_as(x).transpose",
        ),
        "a view of a transposed tensor",
    ),
    no_more_than_sixteen=(edit(merge_heads, "x.", "x[:, :16]."),),
    axes_told_by_their_lengths=(
        edit(
            merge_heads,
            "x.transpose(1, 2)",
            "(x if x.size(1) == x.size(2) else x.transpose(1, 2))",
        ),
        "heads merged by view, without transpose",
    ),
)
