"""padding_mask: which positions hold a token."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course import masks
from attention_labs.lab01_preprocessing.batches import B, S
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    good_manners,
    same_whole_numbers,
)


def _use_mask(mask: Callable[..., Any], lengths: Tensor, size: Tensor) -> Any:
    return mask(lengths, size.size(0))


def _lengths(g: torch.Generator, batch: int, size: int, shortest: int = 1) -> Tensor:
    """Draw lengths; one sentence is as long as the batch is wide."""
    lengths = torch.randint(shortest, size, (batch,), generator=g)
    return lengths.index_fill(0, torch.randint(batch, (1,), generator=g), size)


def _full_width(g: torch.Generator) -> Iterator[Request]:
    for batch, size in ((B, S), (4, 9), (2, 7)):
        yield Request((_lengths(g, batch, size), as_length(size)))


def _wider(g: torch.Generator) -> Iterator[Request]:
    yield Request((_lengths(g, B, S), as_length(S + 2)))
    yield Request((torch.tensor([3, 0]), as_length(4)))
    yield Request((torch.tensor([2]), as_length(2)))


def _on_any_device(g: torch.Generator) -> Iterator[Request]:
    yield replace(next(_full_width(g)), device="meta")


def _as_a_mask(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or reply.changed or request.device == "meta":
        return good_manners(replace(request, dtype=torch.bool), reply, reference)
    return same_whole_numbers(request, reply, reference)


def _exclude(
    lengths: Tensor, size: int, holds: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    return holds(torch.arange(size, device=lengths.device), lengths[:, None])[:, None]


PADDING_MASK = Question(
    name="padding_mask",
    reference=masks.padding_mask,
    use=_use_mask,
    properties=(
        Property(
            "True on tokens, False on padding, as (B, 1, S)", 1, _full_width, _as_a_mask
        ),
        Property(
            "batches padded wider, an empty sentence, a single one",
            1,
            _wider,
            _as_a_mask,
        ),
        Property("of dtype bool, on any device", 1, _on_any_device, _as_a_mask),
    ),
    mistakes=(
        Mistake(
            "mask the wrong way around",
            "Here True means a token, which may be attended to; there are libraries in"
            " which it means padding.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s >= n),
        ),
        Mistake(
            "one position of padding counted as a token",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n"
            " - 1.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s <= n),
        ),
        Mistake(
            "the first token missed out",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n"
            " - 1.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s < n - 1),
        ),
        Mistake(
            "the axis of the queries is missing",
            "All queries share the row: the mask is (B, 1, S).",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s < n)[:, 0],
        ),
        Mistake(
            "the width is taken from the longest sentence",
            "A batch may be padded wider than its longest sentence: `size` says how"
            " wide.",
            PADDING,
            lambda lengths, size: _exclude(
                lengths, int(lengths.max()), lambda s, n: s < n
            ),
        ),
        Mistake(
            "one sentence stands for all",
            "Each sentence has a length of its own: the first axis is B.",
            MASK,
            lambda lengths, size: _exclude(lengths[:1], size, lambda s, n: s < n),
        ),
        Mistake(
            "a row for every query",
            "The same positions are allowed to all queries: their axis is of length"
            " one, and is stretched where it is needed.",
            MASK,
            lambda lengths, size: _exclude(lengths, size, lambda s, n: s < n).expand(
                -1, size, -1
            ),
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
