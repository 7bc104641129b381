"""Answers to padding_mask."""

import sys

import torch
from answers.core import right, right_edits, wide, wrong_edits
from answers.lab01_preprocessing.shared import draw
from answers.signs import (
    DEVICE,
    EXCHANGED,
    FITS,
    IN_PLACE,
    NOTHING,
    ONE_AXIS,
    TAKEN_OUT,
)

from attention_course.masks import padding_mask
from nbjudge import Request, edit


@wide("padding_mask")
def any_lengths(g):
    for batch, size in ((1, 1), (1, 4), (3, 1), (4, 6), (2, 9)):
        for lowest in (0, 1):
            yield Request((draw(g, batch, low=lowest, high=size + 1), size))


@right("padding_mask")
def unsqueezed(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return torch.lt(positions.view(1, 1, size), lengths.view(-1, 1, 1))


@right("padding_mask")
def expanded(lengths, size):
    positions = torch.arange(size, device=lengths.device).expand(len(lengths), size)
    return torch.stack([positions < lengths.unsqueeze(-1)], dim=1)


@right("padding_mask")
def by_counting(lengths, size):
    ones = torch.ones(len(lengths), 1, size, dtype=torch.long, device=lengths.device)
    return ones.cumsum(-1) <= lengths[:, None, None]


@right("padding_mask")
def by_difference(lengths, size):
    return (
        lengths[:, None, None] - torch.arange(1, size + 1, device=lengths.device)
    ).sign() >= 0


@right("padding_mask")
def by_rows_of_a_triangle(lengths, size):
    triangle = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(
        -1
    )
    return triangle[lengths][:, None]


@right("padding_mask")
def sentence_by_sentence(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return torch.stack([(positions < length)[None] for length in lengths])


@right("padding_mask")
def by_outer(lengths, size):
    places = torch.arange(size, device=lengths.device)
    return (
        torch.cat([torch.less(places, lengths.reshape(-1, 1))])
        .reshape(-1, 1, size)
        .bool()
    )


@right("padding_mask")
def by_where(lengths, size):
    places = torch.arange(size, device=lengths.device)[None]
    yes = torch.ones((), dtype=torch.bool, device=lengths.device)
    return torch.where(places < lengths[:, None], yes, ~yes).unsqueeze(-2)


@right("padding_mask")
def warned(lengths, size):
    print("lengths", tuple(lengths.shape), file=sys.stderr)
    return torch.gt(
        lengths[:, None], torch.arange(size, device=lengths.device)
    ).unsqueeze(1)


COMPARED = "positions < lengths[:, None]"
right_edits(
    "padding_mask",
    compared=edit(padding_mask, "[:, None])[:, None]", ".unsqueeze(1))[:, None]"),
    not_padding=edit(padding_mask, COMPARED, "~(positions >= lengths[:, None])"),
)
wrong_edits(
    "padding_mask",
    own_width=(
        edit(padding_mask, "arange(size", "arange(lengths.max()"),
        "width of the longest sentence instead of size",
    ),
    zeros_and_ones=(
        edit(padding_mask, ")[:, None]", ")[:, None].float()"),
        "numbers instead of True and False",
    ),
    on_the_cpu=(edit(padding_mask, ", device=lengths.device", ""), DEVICE),
    by_loop=(
        edit(
            padding_mask,
            COMPARED,
            "torch.tensor([[s < n for s in range(size)] for n in lengths.tolist()])",
        ),
        DEVICE,
        TAKEN_OUT,
    ),
    no_axis_for_the_batch=(edit(padding_mask, "lengths[:, None]", "lengths"), FITS),
    query_axis_last=(
        edit(padding_mask, ")[:, None]", ")[:, :, None]"),
        EXCHANGED,
        ONE_AXIS,
        FITS,
    ),
    sentences_last=(
        edit(padding_mask, COMPARED, "positions[:, None] < lengths"),
        EXCHANGED,
    ),
    by_shares=(
        edit(
            padding_mask,
            COMPARED,
            "positions * (1 / size) < lengths[:, None] / size",
        ),
    ),
    forgot_to_return=(edit(padding_mask, "return ", ""), NOTHING),
    lengths_counted_down=(
        edit(padding_mask, COMPARED, "positions <= lengths.sub_(1)[:, None]"),
        IN_PLACE,
    ),
)
