"""at_end: the vector at each sentence's own end."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.rnn import at_end
from attention_labs.lab02_bottleneck.shared import RAGGED, D, S, on_the_cpu
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    edit,
    error_like,
    good_manners,
    manners,
    normal,
    same_gradients,
    same_numbers,
)


def _use_at_end(at_end: Callable[..., Any], x: Tensor, lengths: Tensor) -> Any:
    return at_end(x, on_the_cpu(lengths))


def _vectors(
    g: torch.Generator, lengths: Sequence[int], size: int = S, gradients: bool = False
) -> Request:
    x = normal(g, len(lengths), size, D)
    return Request((x, torch.tensor(lengths)), gradients=gradients)


PICKED = "x.gather(1, last)[:, 0]"

AT_END = Question(
    name="at_end",
    reference=at_end,
    use=_use_at_end,
    properties=(
        Property(
            "the vector at each sentence's own end",
            1,
            lambda g: [
                _vectors(g, RAGGED, gradients=True),
                _vectors(g, (2, S, 6, 4, 5), gradients=True),
            ],
            same_gradients,
        ),
        Property(
            "one sentence, one token, a batch padded wider",
            1,
            lambda g: [
                _vectors(g, (4,)),
                _vectors(g, (1, 1)),
                _vectors(g, (3, 2, 3), size=9),
            ],
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_vectors(g, RAGGED)),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "the last column",
            "In the last column stands padding, for all but the longest sentence.",
            PADDING,
            edit(at_end, PICKED, "x[:, -1]"),
        ),
        Mistake(
            "one position too far",
            "Positions count from 0: the last of n tokens stands at n - 1.",
            PADDING,
            edit(at_end, ") - 1)", ") % x.size(1))"),
            sign=error_like("out of bounds|out of range"),
        ),
        Mistake(
            "the first vector",
            "At position 0 nothing but the first token has been read.",
            PADDING,
            edit(at_end, PICKED, "x[:, 0]"),
        ),
        Mistake(
            "every sentence at every end",
            "x[:, ends] takes all the ends of every sentence: each sentence has one of"
            " its own.",
            PADDING,
            edit(at_end, PICKED, "x[:, lengths - 1]"),
        ),
        Mistake(
            "one number of every vector",
            "gather picks as many numbers as its index has: the index needs all D of"
            " the last axis.",
            PADDING,
            edit(at_end, ".expand(-1, 1, x.size(-1))", ""),
        ),
        Mistake(
            "the sum or the mean of a sentence",
            "What is wanted is one of the vectors, not a mixture.",
            PADDING,
            (
                edit(at_end, "x.gather", "x.cumsum(1).gather"),
                edit(
                    at_end, "x.gather", "(x.cumsum(1) / lengths[:, None, None]).gather"
                ),
            ),
        ),
        *ANYWHERE,
    ),
)
