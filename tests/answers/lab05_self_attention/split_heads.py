"""Answers to split_heads."""

import torch
from answers.core import draw, right, wide, wrong
from answers.lab05_self_attention.shapes import PLACES, sizes
from answers.signs import CUT, EXCHANGED, FITS

from nbjudge.question import Request


@wide("split_heads")
def any_whole(g):
    for b, t, h, width, _ in sizes(g):
        yield Request((draw(g, b, t, h * width), h), gradients=True)


@right("split_heads")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@right("split_heads")
def viewed_and_permuted(x, num_heads):
    b, t, d = x.shape
    return x.view(b, t, num_heads, d // num_heads).permute(0, 2, 1, 3)


@right("split_heads")
def chunked(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("split_heads")
def piece_by_piece(x, num_heads):
    width = x.size(-1) // num_heads
    return torch.stack(
        [x[:, :, h * width : (h + 1) * width] for h in range(num_heads)], dim=1
    )


@right("split_heads")
def joined_along_a_new_axis(x, num_heads):
    return torch.cat(
        [piece.unsqueeze(1) for piece in x.split(x.size(-1) // num_heads, dim=2)], dim=1
    )


@right("split_heads")
def unfolded(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).transpose(1, 2).clone()


@right("split_heads")
def turned_then_cut(x, num_heads):
    return x.mT.unflatten(1, (num_heads, -1)).mT


@right("split_heads")
def made_contiguous(x, num_heads):
    return x.reshape(x.size(0), x.size(1), num_heads, -1).transpose(1, 2).contiguous()


@right("split_heads")
def token_after_token(x, num_heads):
    return torch.stack(
        [token.reshape(x.size(0), num_heads, -1) for token in x.unbind(1)], dim=2
    )


@right("split_heads")
def sentence_after_sentence(x, num_heads):
    return torch.stack([s.unflatten(1, (num_heads, -1)).transpose(0, 1) for s in x])


@right("split_heads")
def with_einsum(x, num_heads):
    return torch.einsum("bthd->bhtd", x.unflatten(-1, (num_heads, -1))) * 1


@wrong("split_heads", "heads split by view, without transpose")
def viewed(x, num_heads):
    return x.contiguous().view(x.size(0), num_heads, x.size(1), x.size(2) // num_heads)


@wrong("split_heads", "pieces interleaved")
def interleaved(x, num_heads):
    return x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).permute(0, 3, 1, 2)


@wrong("split_heads", "transpose missing")
def not_transposed(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=2)


@wrong("split_heads", EXCHANGED)
def heads_last(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(2, 3)


@wrong("split_heads", FITS)
def sizes_exchanged(x, num_heads):
    return x.unflatten(-1, (num_heads, num_heads)).transpose(1, 2)


@wrong("split_heads", EXCHANGED)
def width_before_positions(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


@wrong("split_heads", PLACES)
def heads_in_reverse(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flip(1)


@wrong("split_heads", "axes exchanged", PLACES)
def heads_before_sentences(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1))


@wrong("split_heads", CUT)
def detached_pieces(x, num_heads):
    return split_heads(x.detach(), num_heads)


@wrong("split_heads", "nothing returned")
def nothing(x, num_heads):
    x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong("split_heads", CUT)
def through_numpy(x, num_heads):
    pieces = x.detach().numpy().reshape(x.size(0), x.size(1), num_heads, -1)
    return torch.from_numpy(pieces).transpose(1, 2) + 0 * split_heads(x, num_heads)
