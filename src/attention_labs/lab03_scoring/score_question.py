"""What the five scores share: all kinds are asked for the same properties."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab03_scoring.weights import (
    B,
    D,
    H,
    S,
    T,
    sums_to_one_over,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    construct,
    good_manners,
    manners,
    normal,
    same_gradients,
    same_numbers,
    wrong_output,
)


def _use_score(score: Any, query: Tensor, key: Tensor) -> Tensor:
    return score(query, score.project_keys(key))


Parameters = Callable[[torch.Generator], dict[str, Tensor]]


def no_parameters(g: torch.Generator) -> dict[str, Tensor]:
    """Draw nothing, for a score that has nothing to learn."""
    return {}


def score_question(
    name: str,
    reference: type[nn.Module],
    init: tuple[int, ...],
    parameters: Parameters,
    points: tuple[int, int, int],
    mistakes: tuple[Mistake, ...],
    key_dim: int = D,
    make: Callable[..., Any] = construct,
) -> Question:
    """Declare a score: all kinds are checked for the same three properties, and for
    some mistakes that all invite."""
    section = mistakes[-1].section

    def request(
        g: torch.Generator, *leading: int, length: int = T, gradients: bool = False
    ) -> Request:
        inputs = (normal(g, *leading, length, D), normal(g, *leading, S, key_dim))
        return Request(inputs, init, parameters(g), gradients)

    def ordinary(g: torch.Generator) -> Iterator[Request]:
        yield request(g, B)
        yield request(g, B, gradients=True)

    def other_shapes(g: torch.Generator) -> Iterator[Request]:
        yield request(g, B, length=1)
        yield request(g, 1, length=S)
        yield request(g, B, H)

    def politely(g: torch.Generator) -> Iterator[Request]:
        yield from manners(request(g, B))

    return Question(
        name=name,
        reference=reference,
        use=_use_score,
        make=make,
        properties=(
            Property(
                "the scores and their gradients", points[0], ordinary, same_gradients
            ),
            Property(
                "one query, one sentence, an axis of heads",
                points[1],
                other_shapes,
                same_numbers,
            ),
            Property(
                "inputs unchanged, dtype kept, works on any device",
                points[2],
                politely,
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
                sign=wrong_output(lambda given, wanted: _same_along(given, wanted, -2)),
            ),
            Mistake(
                "every key gets the same score",
                "Each score compares one query with one key: here the key has no say,"
                " or the source is summed over.",
                section,
                sign=wrong_output(lambda given, wanted: _same_along(given, wanted, -1)),
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


def _same_along(given: Tensor, wanted: Tensor, axis: int) -> bool:
    return (
        given.shape == wanted.shape
        and given.size(axis) > 1
        and bool((given.diff(dim=axis).abs() < 1e-6).all())
    )
