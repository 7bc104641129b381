"""at_end: the vector at each sentence's own end."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course import rnn
from attention_course.masks import padding_mask
from attention_labs.lab02_bottleneck.sentences import (
    RAGGED,
    D,
    S,
    last_column,
    on_the_cpu,
)
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
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
    return Request(
        (normal(g, len(lengths), size, D), torch.tensor(lengths)), gradients=gradients
    )


def _ragged_vectors(g: torch.Generator) -> Iterator[Request]:
    yield _vectors(g, RAGGED, gradients=True)
    yield _vectors(g, (2, S, 6, 4, 5), gradients=True)


def _other_vectors(g: torch.Generator) -> Iterator[Request]:
    yield _vectors(g, (4,))
    yield _vectors(g, (1, 1))
    yield _vectors(g, (3, 2, 3), size=9)


def _vectors_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_vectors(g, RAGGED))


AT_END = Question(
    name="at_end",
    reference=rnn.at_end,
    use=_use_at_end,
    properties=(
        Property(
            "the vector at each sentence's own end", 1, _ragged_vectors, same_gradients
        ),
        Property(
            "one sentence, one token, a batch padded wider",
            1,
            _other_vectors,
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _vectors_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "the last column",
            "In the last column stands padding, for all but the longest sentence.",
            PADDING,
            last_column,
        ),
        Mistake(
            "one position too far",
            "Positions count from 0: the last of n tokens stands at n - 1.",
            PADDING,
            lambda x, lengths: x[torch.arange(len(x)), lengths % x.size(1)],
            error_like("out of bounds|out of range"),
        ),
        Mistake(
            "the first vector",
            "At position 0 nothing but the first token has been read.",
            PADDING,
            lambda x, lengths: x[:, 0],
        ),
        Mistake(
            "every sentence at every end",
            "x[:, ends] takes all the ends of every sentence: each sentence has one of"
            " its own.",
            PADDING,
            lambda x, lengths: x[:, lengths - 1],
        ),
        Mistake(
            "one number of every vector",
            "gather picks as many numbers as its index has: the index needs all D of"
            " the last axis.",
            PADDING,
            lambda x, lengths: x.gather(1, (lengths.to(x.device) - 1)[:, None, None])[
                :, 0
            ],
        ),
        Mistake(
            "the sum or the mean of a sentence",
            "What is wanted is one of the vectors, not a mixture.",
            PADDING,
            lambda x, lengths: (
                padding_mask(lengths.to(x.device), x.size(1))
                .to(x.dtype)[:, 0, :, None]
                .mul(x)
                .sum(1)
            ),
        ),
        Mistake(
            "the sum or the mean of a sentence",
            "What is wanted is one of the vectors, not a mixture.",
            PADDING,
            lambda x, lengths: (
                (padding_mask(lengths.to(x.device), x.size(1)).to(x.dtype) @ x)[:, 0]
                / lengths.to(x.device, x.dtype)[:, None]
            ),
        ),
        *ANYWHERE,
    ),
)
