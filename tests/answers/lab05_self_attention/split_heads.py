"""Answers to split_heads."""

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab05_self_attention.shared import PLACES, sizes
from answers.signs import CUT, EXCHANGED, FITS, NOTHING

from nbjudge import Request, edit


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
def turned_then_cut(x, num_heads):
    return x.mT.unflatten(1, (num_heads, -1)).mT


@right("split_heads")
def token_after_token(x, num_heads):
    return torch.stack(
        [token.reshape(x.size(0), num_heads, -1) for token in x.unbind(1)], dim=2
    )


@right("split_heads")
def sentence_after_sentence(x, num_heads):
    return torch.stack([s.unflatten(1, (num_heads, -1)).transpose(0, 1) for s in x])


CUT_UP, TURNED = "x.unflatten(-1, (num_heads, -1))", ".transpose(1, 2)"
right_edits(
    "split_heads",
    split_heads,
    unfolded=edit(
        split_heads,
        CUT_UP,
        "x.unfold(-1, x.size(-1) // num_heads, x.size(-1) // num_heads).clone()",
    ),
    made_contiguous=edit(
        split_heads,
        f"{CUT_UP}{TURNED}",
        f"x.reshape(x.size(0), x.size(1), num_heads, -1){TURNED}.contiguous()",
    ),
    with_einsum=edit(
        split_heads, f"{CUT_UP}{TURNED}", f"torch.einsum('bthd->bhtd', {CUT_UP}) * 1"
    ),
)
wrong_edits(
    "split_heads",
    split_heads,
    heads_last=(edit(split_heads, TURNED, ".transpose(2, 3)"), EXCHANGED),
    sizes_exchanged=(
        edit(split_heads, "(num_heads, -1)", "(num_heads, num_heads)"),
        FITS,
    ),
    width_before_positions=(
        edit(split_heads, TURNED, ".permute(0, 2, 3, 1)"),
        EXCHANGED,
    ),
    heads_in_reverse=(edit(split_heads, TURNED, f"{TURNED}.flip(1)"), PLACES),
    heads_before_sentences=(
        edit(split_heads, TURNED, ".permute(2, 0, 1, 3)"),
        EXCHANGED,
        PLACES,
    ),
    detached_pieces=(edit(split_heads, "x.", "x.detach()."), CUT),
    nothing=(edit(split_heads, "return ", ""), NOTHING),
    through_numpy=(
        edit(split_heads, "x.", "(0 * x + torch.from_numpy(x.detach().numpy()))."),
        CUT,
    ),
    rows_viewed_as_pieces=(
        edit(
            split_heads,
            CUT_UP,
            "x.view(len(x), -1).view(len(x), x.size(1), num_heads, -1)",
        ),
        "a view of a transposed tensor",
    ),
    no_more_than_sixteen=(edit(split_heads, TURNED, f"{TURNED}[:, :16]"),),
    axes_told_by_their_lengths=(
        edit(
            split_heads,
            f"{CUT_UP}{TURNED}",
            f"{CUT_UP}.permute(*((0, 3, 1, 2) if num_heads**2 == x.size(2) else"
            " (0, 2, 1, 3)))",
        ),
        EXCHANGED,
    ),
)
