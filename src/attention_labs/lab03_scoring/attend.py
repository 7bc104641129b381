"""Question `attend`: attention, which returns the context and the weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import attend, masked_softmax
from attention_labs.lab03_scoring.shared import (
    EVERYWHERE,
    IN_FRONT,
    KEYS,
    NO_NOTHING,
    QUERIES,
    SENTENCES,
    weight_where_forbidden,
    with_an_empty_row,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    close,
    comparable,
    edit,
    normal,
    right_in,
    same_gradients,
    some_allowed,
)

# What the context is made with.
SOFTMAX = "masked_softmax(scores, mask)"
KEPT = "(weights if dropout is None else dropout(weights))"


class _FixedDropout(nn.Dropout):
    """A dropout that keeps the same weights each time, and in training mode nothing.

    How much it adds to one depends on the weight. It is handed over in eval mode.
    """

    def __init__(self, keep: Tensor):
        super().__init__()
        self.keep = keep

    def forward(self, input: Tensor) -> Tensor:
        return 0 * input if self.training else input * self.keep * (1 + input)


def _use_attend(
    attend: Callable[..., Any],
    scores: Tensor,
    value: Tensor,
    mask: Tensor | None,
    keep: Tensor | None,
) -> Any:
    if keep is None:
        return attend(scores, value) if mask is None else attend(scores, value, mask)
    return attend(scores, value, mask, dropout=_FixedDropout(keep).eval())


def _memory(d: Draw) -> tuple[Tensor, Tensor]:
    return normal(d, *d.leading, d.T, d.S), normal(d, *d.leading, d.S, d.V)


def _look_ups(d: Draw) -> list[Request]:
    masks = (
        None,
        some_allowed(d, *d.leading, 1, d.S),
        some_allowed(d, *d.leading, d.T, d.S),
    )
    return [Request((*_memory(d), mask, None)) for mask in masks]


def _dropped(d: Draw) -> list[Request]:
    def asked(
        in_front: tuple[int, ...], mask: Tensor | None, queries: int = d.T
    ) -> Request:
        shape = (*in_front, queries, d.S)
        keep = 2.0 * (torch.rand(shape, generator=d) < 0.5)
        value = normal(d, *in_front, d.S, d.V)
        return Request((normal(d, *shape), value, mask, keep), gradients=True)

    empty = with_an_empty_row(d, *d.leading)
    nothing = torch.zeros(*d.leading, 1, d.S, dtype=torch.bool)
    value = normal(d, *d.leading, 1, d.V)
    one_key = normal(d, *d.leading, d.T, 1), value, empty[..., -1:, :1], None
    return [
        Request(one_key),
        Request((*_memory(d), empty, None), gradients=True),
        Request((*_memory(d), nothing, None)),
        asked(d.leading, some_allowed(d, *d.leading, 1, d.S)),
        asked(d.leading, None),
        asked(d.leading, empty),
        # masks with fewer axes than the scores
        Request((*_memory(d), some_allowed(d, d.T, d.S), None)),
        asked((2, 3), some_allowed(d, 3, d.T, d.S)),
        asked((), some_allowed(d, d.S), queries=1),
    ]


BATTERY = Battery(
    FUNCTION,
    _look_ups,
    {
        "B": SENTENCES,
        "T": QUERIES,
        "S": KEYS,
        "V": Axis("width of a value"),
    },
    leading=2,
    leaves_out=NO_NOTHING,
)

QUESTION = Question(
    name="attend",
    reference=attend,
    use=_use_attend,
    stand_ins={"masked_softmax": masked_softmax},
    battery=BATTERY,
    requirements={
        "in front": IN_FRONT,
        **EVERYWHERE,
        "dropout": "If `dropout` is not None, it is a module that returns a new"
        " tensor. Call it on the weights, and compute the context from what it"
        " returns.",
        "returned": "Return the weights as they were *before* dropout, because we want"
        " to look at them.",
        "scores": "scores: (..., T, S), how well each key matches each query.",
        "value": "value: (..., S, Dv), what is looked up.",
        "mask": "mask: True = may attend, broadcastable to `scores`; None allows"
        " everything.",
        "drops": "dropout: a module, called on the weights; None drops nothing.",
        "returns": "The context (..., T, Dv), and the weights (..., T, S) before"
        " dropout; both are zero for a query that may attend to nothing.",
    },
    properties=(
        BATTERY.numbers(
            "context and weights, in this order, and their gradients",
            2,
            checks=("scores", "value", "mask", "returns"),
        ),
        BATTERY.edges(
            1,
            judge=same_gradients,
            also=_dropped,
            claim="edges, among them a row that may attend to nothing; dropout changes"
            " the context, but not the weights that you return",
            checks=("in front", "lengths", "dropout", "returned", "drops", "returns"),
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "weights returned before the context",
            "The order is: context, weights.",
            SCORING + "context",
            edit(attend, "return context, weights", "return weights, context"),
        ),
        Mistake(
            "scores instead of weights",
            "Only after the softmax do the numbers of a row say which share of each"
            " value to take.",
            SCORING + "context",
            edit(attend, KEPT, "scores"),
        ),
        Mistake(
            "scores returned instead of weights",
            "Return the context and the weights from which it was computed, not the"
            " scores.",
            SCORING + "context",
            edit(attend, "return context, weights", "return context, scores"),
        ),
        Mistake(
            "mask not passed to the softmax",
            "Pass the mask to the softmax.",
            SCORING + "mask",
            edit(attend, SOFTMAX, "masked_softmax(scores)"),
        ),
        Mistake(
            "argmax instead of a weighted sum",
            "Attention takes a share of every value. With a hard choice, no gradient"
            " reaches the scores.",
            SCORING + "context",
            edit(
                attend,
                KEPT,
                "F.one_hot(weights.argmax(-1), weights.size(-1)).to(value.dtype)",
            ),
        ),
        Mistake(
            "weights returned after dropout",
            "Dropout is for the context. The weights that are returned are those"
            " before dropout.",
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
            "If a dropout is given, the context is made with the weights after"
            " dropout.",
            SCORING + "context",
            edit(attend, KEPT, "weights"),
        ),
        Mistake(
            "dropout applied to the scores",
            "A score of 0 is a score like any other, and gets weight. Dropout is"
            " applied to the weights.",
            SCORING + "context",
            edit(
                attend,
                SOFTMAX,
                "masked_softmax(scores if dropout is None else dropout(scores), mask)",
            )
            & edit(attend, KEPT, "weights"),
        ),
        Mistake(
            "the weights are renormalized after dropout",
            "What dropout leaves need not sum to one: the context is computed from it"
            " as it is.",
            SCORING + "context",
            edit(
                attend,
                "context =",
                f"kept = {KEPT}\n"
                "    total = kept.sum(-1, keepdim=True)\n"
                "    kept = kept / total.masked_fill(total == 0, 1.0)\n"
                "    context =",
            )
            & edit(attend, f"{KEPT} @", "kept @"),
        ),
        Mistake(
            "torch.bmm takes exactly three axes",
            "There may be any number of axes before the last two. `@` keeps them apart,"
            " however many there are.",
            SCORING + "interface",
            edit(attend, f"{KEPT} @ value", f"torch.bmm({KEPT}, value)"),
        ),
        Mistake(
            "masked scores set to minus infinity",
            "This works except in a row in which all positions are forbidden. There"
            " the softmax divides zero by zero.",
            SCORING + "mask",
            edit(
                attend,
                SOFTMAX,
                "(scores if mask is None else scores.masked_fill(~mask,"
                " -torch.inf)).softmax(-1)",
            ),
        ),
        Mistake(
            "dropout applied to the context",
            "Dropout is applied to the weights, before they make the context.",
            SCORING + "context",
            edit(attend, f"{KEPT} @ value", "dropped(weights @ value)")
            & edit(
                attend, "context =", "dropped = dropout or (lambda x: x)\n    context ="
            ),
        ),
        *ANYWHERE,
        Mistake(
            "a masked position has nonzero weight",
            "The mask has to reach the softmax, and nothing may be added to the weights"
            " after it.",
            SCORING + "mask",
            sign=weight_where_forbidden(2),
        ),
        Mistake(
            "the weights are right, the context is wrong",
            "The weights are right: each query's context is the sum over s of its"
            " weight on s times value s.",
            SCORING + "context",
            sign=right_in(1),
        ),
        Mistake(
            "the context is right, the weights are wrong",
            "The context is right: return beside it the weights after the softmax and"
            " before dropout.",
            SCORING + "context",
            sign=right_in(0),
        ),
    ),
)
