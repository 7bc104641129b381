"""Helpers of lab 3, and the requirements that all questions about scores share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course.scores import Score
from attention_labs.pages import SCORING
from attention_labs.rules import EVERYWHERE as EVERYWHERE
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Reply,
    Request,
    Sign,
    close,
    comparable,
    normal,
    parameters,
    same_gradients,
    some_allowed,
    wrong_output,
)

IN_FRONT = (
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`,"
    " or none. Your code must work in all three cases. In one call, the queries, keys,"
    " values and scores have the same axes there."
)
COMPARES = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
NO_NOTHING = {"zero": "the text speaks of sentences, queries and keys that are there"}
# The axes of the letters in the lab. D and DK are the widths of queries and keys.
SENTENCES, QUERIES = Axis("sentences"), Axis("queries", long=70)
KEYS = Axis("keys", long=1100)


def with_an_empty_row(d: Draw, *in_front: int) -> Tensor:
    """Draw a mask; the last query may attend to nothing."""
    mask = some_allowed(d, *in_front, d.T, d.S)
    mask[..., -1, :] = False
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


def weight_where_forbidden(mask: int, more_than: float = 1e-6) -> Sign:
    """Look for weights, the last output, where the mask, an input, forbids them."""
    return comparable(
        lambda request, reply, reference: (
            request.inputs[mask] is not None
            and bool(
                (reply.outputs[-1].abs() * ~request.inputs[mask] > more_than).any()
            )
        )
    )


def _nearly_orthogonal(request: Request) -> Request:
    """Let the halves of each product cancel but for 1 in 100,000, lost in float32."""
    (half, _), (large, small) = (x.chunk(2, dim=-1) for x in request.inputs)
    query = torch.cat([half, half], dim=-1)
    key = torch.cat([1e5 * large + small, -1e5 * large], dim=-1)
    return replace(request, inputs=(query, key), about="products that nearly cancel")


def keys_as_they_came(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the scores are right, but `project_keys` returns the keys as they are."""
    return (
        len(reply.outputs) == 2
        and close(reply.outputs[0], reference.outputs[0])
        and close(reply.outputs[1], request.inputs[1])
    )


def score_question(
    name: str,
    reference: type[Score],
    init: Callable[[Draw], tuple[Any, ...]],
    points: tuple[int, int, int],
    mistakes: tuple[Mistake, ...],
    requirements: Mapping[str, str],
    axes: Mapping[str, Axis] = {},
    projects: bool = False,
    large: tuple[float, ...] = Battery.large,
    gradients: bool = True,
    leaves_out: Mapping[str, str] = {},
    also: Callable[[Request], Iterable[Request]] = lambda request: (),
) -> Question:
    """Declare a score: all have the same properties, and invite some mistakes alike.

    Args:
        name: of the question.
        reference: the right class.
        init: what it is constructed with.
        points: of numbers, edges and manners.
        mistakes: those of this score alone.
        requirements: the sentences of the lab.
        axes: what it is constructed with, beside the width of a query; with DK if keys
            have a width of their own.
        projects: whether `project_keys` does something, which is then looked at, too.
        large: see `Battery`.
        gradients: see `Battery`.
        leaves_out: see `Battery`.
        also: makes rare requests of an ordinary one.
    """
    section = mistakes[-1].section

    def request(d: Draw) -> Request:
        width = d.DK if "DK" in axes else d.D
        inputs = (normal(d, *d.leading, d.T, d.D), normal(d, *d.leading, d.S, width))
        weights = parameters(d, lambda: reference(*init(d)))
        return Request(inputs, init(d), weights)

    def rare(d: Draw) -> list[Request]:
        # A decoder's step, with one query, and heads: training needs gradients there.
        step, heads = battery.sized(d, T=1), battery.sized(d)
        step.leading, heads.leading = (), (2, 3)
        places = {
            "": d,
            "one query, no axes in front": step,
            "two axes in front": heads,
        }
        asked: list[Request] = []
        for about, place in places.items():
            ordinary = replace(request(place), gradients=True, about=about)
            asked += [ordinary, *also(ordinary)] if about else also(ordinary)
        ordinary = replace(request(d), gradients=True)
        query, key = ordinary.inputs
        for inputs in ((1e5 * query, key), (query, 1e5 * key)):
            about = "numbers around 1e+05, and the gradients"
            asked.append(replace(ordinary, inputs=inputs, about=about))
        if reference.project_keys is Score.project_keys:
            as_they_are = request(d)
            inputs = (*as_they_are.inputs, True)
            about = "forward gets the keys themselves"
            asked.append(replace(as_they_are, inputs=inputs, about=about))
            half = replace(request(battery.sized(d, D=4)), dtype=torch.bfloat16)
            inputs = tuple(300 * x for x in half.inputs)  # float16 knows no product
            about = "numbers around 300, in bfloat16"
            asked.append(replace(half, inputs=inputs, about=about))
            asked.append(_nearly_orthogonal(request(battery.sized(d, D=4))))
        return asked

    def use(score: Any, query: Tensor, key: Tensor, direct: bool = False) -> Any:
        projected = key if direct else score.project_keys(key)
        score.project_keys(key.flip(-2))  # the next source, before the first is asked
        scores = score(query, projected)
        score.project_keys(key)  # for whoever keeps what comes last
        return (scores, projected) if projects else scores

    battery = Battery(
        MODULE,
        request,
        {
            "B": SENTENCES,
            "T": QUERIES,
            "S": KEYS,
            "D": Axis("width of a query", long=300, fixed="DK" in axes),
            **axes,
        },
        leading=2,
        leaves_out=NO_NOTHING | dict(leaves_out),
        large=large,
        gradients=gradients,
    )
    return Question(
        name=name,
        reference=reference,
        use=use,
        battery=battery,
        requirements={
            "in front": IN_FRONT,
            **EVERYWHERE,
            **requirements,
        },
        properties=(
            battery.numbers(
                "the scores and their gradients", points[0], checks=tuple(requirements)
            ),
            battery.edges(
                points[1],
                same_gradients,
                checks=("in front", "lengths", *requirements),
                also=rare,
            ),
            battery.manners(points[2], checks=("manners",)),
        ),
        mistakes=(
            *mistakes,
            Mistake(
                "weights instead of scores",
                "A score may be any real number. The softmax comes after it.",
                SCORING + "interface",
                sign=sums_to_one_over(-1),
            ),
            *ANYWHERE,
            Mistake(
                "every query gets the same scores",
                "Each score compares one query with one key: here the query makes no"
                " difference.",
                section,
                sign=_same_along(-2),
            ),
            Mistake(
                "every key gets the same score",
                "Each score compares one query with one key: here the key makes no"
                " difference, or the scores are summed over the source.",
                section,
                sign=_same_along(-1),
            ),
            Mistake(
                "the number of axes does not fit",
                "The axes before the last two may be (B,), (B, H) or none: count axes"
                " from the end, -1 and -2.",
                SCORING + "interface",
                sign=lambda request, reply, reference: reference.outputs[0].dim() != 3,
            ),
        ),
    )
