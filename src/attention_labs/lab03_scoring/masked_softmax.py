"""masked_softmax: weights that sum to one over what is allowed."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attention_course import attention
from attention_labs.lab03_scoring.weights import (
    B,
    H,
    S,
    T,
    sums_to_one_over,
    weight_where,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    good_manners,
    manners,
    normal,
    same_gradients,
    same_numbers,
    some_allowed,
    wrong_output,
)


def _use_softmax(
    softmax: Callable[..., Tensor], scores: Tensor, mask: Tensor | None
) -> Tensor:
    return softmax(scores) if mask is None else softmax(scores, mask)


def _ordinary_scores(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, T, S), None))
    yield Request((normal(g, B, T, S), some_allowed(g, B, T, S)), gradients=True)
    yield Request((normal(g, B, T, S), some_allowed(g, B, 1, S)))
    yield Request((normal(g, B, T, S), some_allowed(g, T, S)))
    yield Request((normal(g, B, H, T, S), some_allowed(g, B, 1, 1, S)))
    yield Request((normal(g, T, S), some_allowed(g, T, S)))


def _large_scores(g: torch.Generator) -> Iterator[Request]:
    yield Request((1000 * normal(g, B, T, S), None))
    yield Request((1000 + normal(g, B, T, S), some_allowed(g, B, T, S)))
    yield Request((-1000 + normal(g, B, T, S), some_allowed(g, B, T, S)))
    mask = some_allowed(g, B, T, S)
    yield Request((1000 * ~mask + normal(g, B, T, S), mask))


def _empty_rows(g: torch.Generator) -> Iterator[Request]:
    mask = some_allowed(g, B, T, S)
    mask[0, 1] = False
    yield Request((normal(g, B, T, S), mask), gradients=True)


def _softmax_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((normal(g, B, T, S), some_allowed(g, B, 1, S))))


def _fill(fill: float) -> Callable[..., Tensor]:
    def softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(-1)

    return softmax


def _over(axis: int) -> Callable[..., Tensor]:
    def softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return scores.softmax(axis)
        return (
            scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            .softmax(axis)
            .masked_fill(~mask, 0.0)
        )

    return softmax


def _mask_after(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return (
        scores.softmax(-1)
        if mask is None
        else scores.softmax(-1).masked_fill(~mask, 0.0)
    )


def _mask_inverted(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return attention.masked_softmax(scores, None if mask is None else ~mask)


def _mask_ignored(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return scores.softmax(-1)


@comparable
def _shares_of_less(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether there is a mask, and the weights are the right ones but for a factor in
    each row."""
    given, wanted = reply.outputs[0], reference.outputs[0]
    sums = given.sum(-1, keepdim=True)
    less = bool((sums < 1 + 1e-6).all()) and not close(given, wanted)
    return request.inputs[1] is not None and less and close(given, sums * wanted)


@comparable
def _not_finite_where_large(request: Request, reply: Reply, reference: Reply) -> bool:
    scores = request.inputs[0]
    return (
        scores is not None
        and bool(scores.abs().max() > 100)
        and not bool(reply.outputs[0].isfinite().all())
    )


def _overflowing(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    weights = scores.exp() if mask is None else scores.exp() * mask
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


MASKED_SOFTMAX = Question(
    name="masked_softmax",
    reference=attention.masked_softmax,
    use=_use_softmax,
    properties=(
        Property(
            "the weights, with and without a mask, and their gradients",
            2,
            _ordinary_scores,
            same_gradients,
        ),
        Property(
            "the weights stay right when scores are large",
            1,
            _large_scores,
            same_numbers,
        ),
        Property(
            "a row that may attend to nothing has weight 0 and a finite gradient",
            1,
            _empty_rows,
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _softmax_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "softmax over the queries",
            "Each query spreads its attention over the source: the weights of one row,"
            " over the last axis, sum to one.",
            SCORING + "softmax",
            _over(-2),
            sums_to_one_over(-2),
        ),
        Mistake(
            "softmax over the batch",
            "Sentences of a batch do not compete: the last axis, the source, is the one"
            " that sums to one.",
            SCORING + "softmax",
            _over(0),
            sums_to_one_over(0),
        ),
        Mistake(
            "mask after the softmax",
            "Forbidden positions took their share of the sum before they were set to"
            " zero: mask the scores instead.",
            SCORING + "mask",
            _mask_after,
            _shares_of_less,
        ),
        Mistake(
            "mask inverted",
            "In this course True means: may attend.",
            SCORING + "mask",
            _mask_inverted,
        ),
        Mistake(
            "mask ignored",
            "Padding gets weight as if it were a token.",
            SCORING + "mask",
            _mask_ignored,
        ),
        Mistake(
            "forbidden scores set to zero",
            "A score of zero is a score like any other, and exp(0) is one: a forbidden"
            " score has to be very low.",
            SCORING + "mask",
            _fill(0.0),
        ),
        Mistake(
            "forbidden scores set to minus infinity",
            "That is right until a row is forbidden throughout: then the softmax"
            " divides zero by zero.",
            SCORING + "mask",
            _fill(-math.inf),
        ),
        Mistake(
            "a row that may attend to nothing attends to everything",
            "Where all scores are equally low the softmax is uniform: set forbidden"
            " weights to zero as well.",
            SCORING + "mask",
            _fill(-1e9),
            weight_where(lambda mask: ~mask.any(-1, keepdim=True)),
        ),
        Mistake(
            "exponentials that overflow",
            "exp(1000) is infinite: subtract the row's largest score first, or leave"
            " that to torch's softmax.",
            SCORING + "softmax",
            _overflowing,
            _not_finite_where_large,
        ),
        Mistake(
            "a forbidden position has weight",
            "Its score has to be so low that nothing is left of it, whatever the other"
            " scores of the row are.",
            SCORING + "mask",
            sign=weight_where(torch.logical_not),
        ),
        *ANYWHERE,
        Mistake(
            "the rows do not sum to one",
            "What is divided by has to be the sum over the allowed positions of the"
            " same row.",
            SCORING + "softmax",
            sign=wrong_output(
                lambda given, wanted: not close(given.sum(-1), wanted.sum(-1))
            ),
        ),
    ),
)
