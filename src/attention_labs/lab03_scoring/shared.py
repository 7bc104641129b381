"""What the questions of this lab share, and what is asked of every score."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    Sign,
    close,
    construct,
    good_manners,
    manners,
    normal,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
    somewhere,
    wrong_output,
)

B, H, T, S, D, A, DK, DV = 2, 6, 3, 5, 7, 11, 13, 4


def with_an_empty_row(g: torch.Generator) -> Tensor:
    """Draw a mask; the first sentence's second query may attend to nothing."""
    mask = some_allowed(g, B, T, S)
    mask[0, 1] = False
    return mask


def sums_to_one_over(axis: int) -> Sign:
    """Look for numbers that sum to one along an axis."""
    return wrong_output(
        lambda given, wanted: (
            given.shape == wanted.shape
            and close(given.sum(axis), torch.ones_like(given.sum(axis)))
        )
    )


def _same_along(axis: int) -> Sign:
    return wrong_output(
        lambda given, wanted: (
            given.shape == wanted.shape
            and given.size(axis) > 1
            and bool((given.diff(dim=axis).abs() < 1e-6).all())
        )
    )


# What the weights of positions that the mask forbids look like.
WEIGHT_WHERE_FORBIDDEN = somewhere(
    -1, lambda given, wanted: (wanted == 0) & (given.abs() > 1e-6)
)


def score_question(
    name: str,
    reference: type[nn.Module],
    init: tuple[int, ...],
    points: tuple[int, int, int],
    mistakes: tuple[Mistake, ...],
    key_dim: int = D,
    make: Callable[..., Any] = construct,
) -> Question:
    """Declare a score: all have the same properties, and invite some mistakes alike."""
    section = mistakes[-1].section

    def request(
        g: torch.Generator, *leading: int, length: int = T, gradients: bool = False
    ) -> Request:
        inputs = (normal(g, *leading, length, D), normal(g, *leading, S, key_dim))
        weights = parameters(g, lambda: make(reference, *init))
        return Request(inputs, init, weights, gradients)

    return Question(
        name=name,
        reference=reference,
        use=lambda score, query, key: score(query, score.project_keys(key)),
        make=make,
        properties=(
            Property(
                "the scores and their gradients",
                points[0],
                lambda g: (request(g, B), request(g, B, gradients=True)),
                same_gradients,
            ),
            Property(
                "one query, one sentence, an axis of heads",
                points[1],
                lambda g: (
                    request(g, B, length=1),
                    request(g, 1, length=S),
                    request(g, B, H),
                ),
                same_numbers,
            ),
            Property(
                "inputs unchanged, dtype kept, works on any device",
                points[2],
                lambda g: manners(request(g, B)),
                good_manners,
            ),
        ),
        mistakes=(
            *mistakes,
            Mistake(
                "weights, where scores are meant",
                "A score may be any real number; the softmax comes after it.",
                SCORING + "interface",
                sign=sums_to_one_over(-1),
            ),
            *ANYWHERE,
            Mistake(
                "every query gets the same scores",
                "Each score compares one query with one key: here the query has no"
                " say.",
                section,
                sign=_same_along(-2),
            ),
            Mistake(
                "every key gets the same score",
                "Each score compares one query with one key: here the key has no say,"
                " or the source is summed over.",
                section,
                sign=_same_along(-1),
            ),
            Mistake(
                "written for one number of axes",
                "The axes before the last two may be (B,), (B, H) or none: count axes"
                " from the end, -1 and -2.",
                SCORING + "interface",
                sign=lambda request, reply, reference: reference.outputs[0].dim() != 3,
            ),
        ),
    )
