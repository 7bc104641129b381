"""Random words and lengths, and typical mistakes, for all questions of lab 1."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from nbjudge import (
    Draw,
    Mistake,
    error_like,
    unchanged,
)

# Of few letters: some words begin with others, and some, put together, make another.
# The capital comes before all of them, unless upper and lower case are the same.
WORDS = tuple(
    "".join(word) for n in range(1, 6) for word in itertools.product("alnO", repeat=n)
)


def draw_words(d: Draw, count: int) -> list[str]:
    """Draw different words, out of about three times as many."""
    order = torch.randperm(max(30, 3 * count), generator=d).tolist()
    return [WORDS[i] for i in order[:count]]


def some_of(d: Draw, things: Sequence[Any], count: int) -> list[Any]:
    """Draw things, so many, each as often as it happens; none of none."""
    chosen = torch.randint(max(len(things), 1), (count,), generator=d).tolist()
    return [things[i] for i in chosen if things]


def draw_lengths(d: Draw, count: int, longest: int, least: int = 0) -> list[int]:
    """Draw lengths; one of them, not always the first, is the longest."""
    lengths = torch.randint(least, longest + 1, (count,), generator=d)
    lengths[d.number(0, count - 1)] = longest
    return lengths.tolist()


# The mistakes that are made wherever lists of ids become tensors.
OF_ROWS = (
    Mistake(
        "the input rows are changed",
        "append, extend and += change a list in place, and the list belongs to the"
        " caller. Build new lists.",
        sign=lambda request, reply, reference: reply.changed,
        undone=unchanged,
    ),
    Mistake(
        "rows of different lengths in one tensor",
        "A tensor is a rectangle: torch.tensor needs lists of the same length, so"
        " fill up the shorter ones first.",
        sign=error_like(
            "expected sequence of length|at dim 1|stack expects each"
            " tensor|inhomogeneous"
        ),
    ),
    Mistake(
        "lists returned instead of a tensor",
        "torch.tensor turns lists of the same length into a tensor.",
        sign=error_like("wanted tensors"),
    ),
    Mistake(
        "the ids are not of dtype torch.long",
        "An embedding looks its row up by a whole number: the dtype is torch.long.",
        sign=lambda request, reply, reference: (
            "type 'str'" in reply.error
            or any(x.dtype != torch.long for x in reply.outputs)
        ),
    ),
)
