"""padding_mask: which positions hold a token."""

import torch
from torch import Tensor

from attention_course.masks import padding_mask
from attention_labs.lab01_preprocessing.shared import B, S
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    each_of,
    edit,
    good_manners,
    same_whole_numbers,
)


def _lengths(g: torch.Generator, batch: int, size: int) -> Tensor:
    """Draw lengths; one sentence is as long as the batch is wide."""
    lengths = torch.randint(1, size, (batch,), generator=g)
    return lengths.index_fill(0, torch.randint(batch, (1,), generator=g), size)


def _mask_of(lengths: Tensor, size: int, device: str = "cpu") -> Request:
    return Request((lengths, size), device=device, dtype=torch.bool)


PADDING_MASK = Question(
    name="padding_mask",
    reference=padding_mask,
    use=lambda mask, lengths, size: mask(lengths, size),
    properties=(
        Property(
            "True on tokens, False on padding, as (B, 1, S)",
            1,
            lambda g: [
                _mask_of(_lengths(g, batch, size), size)
                for batch, size in ((B, S), (4, 9), (2, 7))
            ],
            each_of(good_manners, same_whole_numbers),
        ),
        Property(
            "batches padded wider, an empty sentence, a single one",
            1,
            lambda g: (
                _mask_of(_lengths(g, B, S), S + 2),
                _mask_of(torch.tensor([3, 0]), 4),
                _mask_of(torch.tensor([2]), 2),
            ),
            each_of(good_manners, same_whole_numbers),
        ),
        Property(
            "of dtype bool, on any device",
            1,
            lambda g: [_mask_of(_lengths(g, B, S), S, "meta")],
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "mask the wrong way around",
            "Here True means a token, which may be attended to; there are libraries in"
            " which it means padding.",
            MASK,
            edit(padding_mask, "<", ">="),
        ),
        Mistake(
            "one position of padding counted as a token",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n"
            " - 1.",
            MASK,
            edit(padding_mask, "<", "<="),
        ),
        Mistake(
            "the first token missed out",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n"
            " - 1.",
            MASK,
            edit(padding_mask, "positions <", "positions + 1 <"),
        ),
        Mistake(
            "the axis of the queries is missing",
            "All queries share the row: the mask is (B, 1, S).",
            MASK,
            edit(padding_mask, ")[:, None]", ")"),
        ),
        Mistake(
            "the width is taken from the longest sentence",
            "A batch may be padded wider than its longest sentence: `size` says how"
            " wide.",
            PADDING,
            edit(padding_mask, "arange(size", "arange(int(lengths.max())"),
        ),
        Mistake(
            "one sentence stands for all",
            "Each sentence has a length of its own: the first axis is B.",
            MASK,
            edit(padding_mask, "lengths[:, None]", "lengths[:1, None]"),
        ),
        Mistake(
            "a row for every query",
            "The same positions are allowed to all queries: their axis is of length"
            " one, and is stretched where it is needed.",
            MASK,
            edit(padding_mask, ")[:, None]", ")[:, None].expand(-1, size, -1)"),
        ),
        Mistake(
            "numbers, where True and False are meant",
            "A comparison gives torch.bool, and `~` and `masked_fill` want it.",
            MASK,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 1
                and reply.outputs[0].dtype != torch.bool
            ),
        ),
        *ANYWHERE,
    ),
)
