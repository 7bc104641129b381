"""attend: a share of every value, and which."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import attend, masked_softmax
from attention_labs.lab03_scoring.shared import (
    DV,
    WEIGHT_WHERE_FORBIDDEN,
    B,
    H,
    S,
    T,
    with_an_empty_row,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    close,
    comparable,
    edit,
    good_manners,
    manners,
    normal,
    right_in,
    same_gradients,
    same_numbers,
    some_allowed,
)

# What the context is made with.
KEPT = "(weights if dropout is None else dropout(weights))"


class _FixedDropout(nn.Dropout):
    """A dropout that keeps the same weights each time."""

    def __init__(self, keep: Tensor):
        super().__init__()
        self.keep = keep

    def forward(self, input: Tensor) -> Tensor:
        return input * self.keep


def _use_attend(
    attend: Callable[..., Any],
    scores: Tensor,
    value: Tensor,
    mask: Tensor | None,
    keep: Tensor | None,
) -> Any:
    if keep is None:
        return attend(scores, value) if mask is None else attend(scores, value, mask)
    return attend(scores, value, mask, dropout=_FixedDropout(keep))


def _memory(g: torch.Generator, *heads: int) -> tuple[Tensor, Tensor]:
    return normal(g, B, *heads, T, S), normal(g, B, *heads, S, DV)


def _dropped(g: torch.Generator) -> list[Request]:
    empty = with_an_empty_row(g)
    scores, value = _memory(g)
    keep = 2.0 * (torch.rand(B, T, S, generator=g) < 0.5)
    thinned = Request((*_memory(g), some_allowed(g, B, 1, S), keep))
    return [Request((scores, value, empty, None)), thinned]


ATTEND = Question(
    name="attend",
    reference=attend,
    use=_use_attend,
    stand_ins={"masked_softmax": masked_softmax},
    properties=(
        Property(
            "context and weights, in this order, and their gradients",
            2,
            lambda g: (
                Request((*_memory(g), None, None)),
                Request((*_memory(g), some_allowed(g, B, 1, S), None), gradients=True),
                Request((*_memory(g, H), some_allowed(g, B, 1, T, S), None)),
            ),
            same_gradients,
        ),
        Property(
            "a row that may attend to nothing; dropout thins the context, not the"
            " weights returned",
            1,
            _dropped,
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(Request((*_memory(g), some_allowed(g, B, 1, S), None))),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "weights first, context second",
            "The order is: context, weights.",
            SCORING + "context",
            edit(attend, "return context, weights", "return weights, context"),
        ),
        Mistake(
            "scores, where weights are meant",
            "Only after the softmax do the numbers of a row say which share of each"
            " value to take.",
            SCORING + "context",
            edit(attend, KEPT, "scores"),
        ),
        Mistake(
            "scores returned, where weights are meant",
            "What is returned beside the context is what the context was made with: the"
            " weights.",
            SCORING + "context",
            edit(attend, "return context, weights", "return context, scores"),
        ),
        Mistake(
            "mask not passed on",
            "The mask has to reach the softmax.",
            SCORING + "mask",
            edit(attend, "masked_softmax(scores, mask)", "masked_softmax(scores)"),
        ),
        Mistake(
            "hard choice: the value of the highest score",
            "Attention takes a share of every value; a hard choice has no gradient.",
            SCORING + "context",
            edit(
                attend,
                KEPT,
                "F.one_hot(weights.argmax(-1), weights.size(-1)).to(value.dtype)",
            ),
        ),
        Mistake(
            "weights returned after dropout",
            "Dropout is for the context; who looks at the weights wants them whole.",
            SCORING + "context",
            edit(attend, "return context, weights", f"return context, {KEPT}"),
            comparable(
                lambda request, reply, reference: (
                    (keep := request.inputs[3]) is not None
                    and close(reply.outputs[1], keep * reference.outputs[1])
                )
            ),
        ),
        Mistake(
            "dropout not applied",
            "Where a dropout is given, the context is made with the weights that it"
            " leaves.",
            SCORING + "context",
            edit(attend, KEPT, "weights"),
        ),
        *ANYWHERE,
        Mistake(
            "a forbidden position has weight",
            "The mask has to reach the softmax, and nothing may be added to the weights"
            " after it.",
            SCORING + "mask",
            sign=WEIGHT_WHERE_FORBIDDEN,
        ),
        Mistake(
            "the context is no weighted sum of the values",
            "The weights are right: each query's context is the sum over s of its"
            " weight on s times value s.",
            SCORING + "context",
            sign=right_in(1),
        ),
        Mistake(
            "the weights returned are not those that made the context",
            "The context is right: return beside it the weights after the softmax and"
            " before dropout.",
            SCORING + "context",
            sign=right_in(0),
        ),
    ),
)
