"""attend: a share of every value, and which."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention
from attention_labs.lab03_scoring.weights import (
    DV,
    B,
    H,
    S,
    T,
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
    right_in,
    same_gradients,
    same_numbers,
    some_allowed,
)


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


class _FixedDropout(nn.Dropout):
    """A dropout that keeps the same weights each time."""

    def __init__(self, keep: Tensor):
        super().__init__()
        self.keep = keep

    def forward(self, input: Tensor) -> Tensor:
        return input * self.keep


def _ordinary_attention(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, T, S), normal(g, B, S, DV), None, None))
    yield Request(
        (normal(g, B, T, S), normal(g, B, S, DV), some_allowed(g, B, 1, S), None),
        gradients=True,
    )
    yield Request(
        (
            normal(g, B, H, T, S),
            normal(g, B, H, S, DV),
            some_allowed(g, B, 1, T, S),
            None,
        )
    )


def _dropped_attention(g: torch.Generator) -> Iterator[Request]:
    empty = some_allowed(g, B, T, S)
    empty[0, 1] = False
    yield Request((normal(g, B, T, S), normal(g, B, S, DV), empty, None))
    keep = 2.0 * (torch.rand(B, T, S, generator=g) < 0.5)
    yield Request(
        (normal(g, B, T, S), normal(g, B, S, DV), some_allowed(g, B, 1, S), keep)
    )


def _attention_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(
        Request(
            (normal(g, B, T, S), normal(g, B, S, DV), some_allowed(g, B, 1, S), None)
        )
    )


def _without_dropout(
    scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: Any = None
) -> Any:
    return attention.attend(scores, value, mask)


@comparable
def _weights_dropped(request: Request, reply: Reply, reference: Reply) -> bool:
    keep = request.inputs[-1]
    return keep is not None and close(reply.outputs[1], reference.outputs[1] * keep)


def _attend_with(
    finish: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    masked: bool = True,
) -> Callable[..., tuple[Tensor, Tensor]]:
    def attend(
        scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: Any = None
    ) -> Any:
        weights = attention.masked_softmax(scores, mask if masked else None)
        return finish(scores, weights if dropout is None else dropout(weights), value)

    return attend


ATTEND = Question(
    name="attend",
    reference=attention.attend,
    use=_use_attend,
    stand_ins={"masked_softmax": attention.masked_softmax},
    properties=(
        Property(
            "context and weights, in this order, and their gradients",
            2,
            _ordinary_attention,
            same_gradients,
        ),
        Property(
            "a row that may attend to nothing; dropout thins the context, not the"
            " weights returned",
            1,
            _dropped_attention,
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _attention_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "weights first, context second",
            "The order is: context, weights.",
            SCORING + "context",
            _attend_with(lambda scores, weights, value: (weights, weights @ value)),
        ),
        Mistake(
            "scores, where weights are meant",
            "Only after the softmax do the numbers of a row say which share of each"
            " value to take.",
            SCORING + "context",
            _attend_with(lambda scores, weights, value: (scores @ value, weights)),
        ),
        Mistake(
            "scores returned, where weights are meant",
            "What is returned beside the context is what the context was made with: the"
            " weights.",
            SCORING + "context",
            _attend_with(lambda scores, weights, value: (weights @ value, scores)),
        ),
        Mistake(
            "mask not passed on",
            "The mask has to reach the softmax.",
            SCORING + "mask",
            _attend_with(
                lambda scores, weights, value: (weights @ value, weights), masked=False
            ),
        ),
        Mistake(
            "hard choice: the value of the highest score",
            "Attention takes a share of every value; a hard choice has no gradient.",
            SCORING + "context",
            _attend_with(
                lambda scores, weights, value: (
                    nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).to(
                        value.dtype
                    )
                    @ value,
                    weights,
                )
            ),
        ),
        Mistake(
            "weights returned after dropout",
            "Dropout is for the context; who looks at the weights wants them whole.",
            SCORING + "context",
            _attend_with(lambda scores, weights, value: (weights @ value, weights)),
            _weights_dropped,
        ),
        Mistake(
            "dropout not applied",
            "Where a dropout is given, the context is made with the weights that it"
            " leaves.",
            SCORING + "context",
            _without_dropout,
        ),
        *ANYWHERE,
        Mistake(
            "a forbidden position has weight",
            "The mask has to reach the softmax, and nothing may be added to the weights"
            " after it.",
            SCORING + "mask",
            sign=weight_where(torch.logical_not),
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
