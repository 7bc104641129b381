"""self_attention: a sequence asks itself, with one head."""

import math

import torch
from torch import Tensor, nn

from attention_course.attention import attend
from attention_course.masks import causal_mask, padding_mask
from attention_labs.lab05_self_attention.shared import SCALE, TWICE, WEIGHT, B, T
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    edit,
    good_manners,
    manners,
    normal,
    parameters,
    right_in,
    same_gradients,
    some_allowed,
)

ALONE = 11  # the width where there is one head


class _SelfAttention(nn.Module):
    """One head."""

    def __init__(self, dim: int):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)


FORWARD, SCORES = _SelfAttention.forward, "q @ k.mT / math.sqrt(q.size(-1))"


def _sequence(
    g: torch.Generator, mask: Tensor | None, gradients: bool = False
) -> Request:
    weights = parameters(g, lambda: _SelfAttention(ALONE))
    return Request((normal(g, B, T, ALONE), mask), (ALONE,), weights, gradients)


def _masked_sequences(g: torch.Generator) -> list[Request]:
    padding = padding_mask(torch.tensor([T, T - 2]), T)
    return [
        _sequence(g, padding, gradients=True),
        _sequence(g, causal_mask(T), gradients=True),
        _sequence(g, padding & causal_mask(T)),
    ]


SELF_ATTENTION = Question(
    name="self_attention",
    reference=_SelfAttention,
    use=lambda module, x, mask: module(x) if mask is None else module(x, mask),
    properties=(
        Property(
            "contexts, weights and all gradients, without a mask",
            2,
            lambda g: [_sequence(g, None, gradients=True)],
            same_gradients,
        ),
        Property("padding and causal masks", 1, _masked_sequences, same_gradients),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_sequence(g, some_allowed(g, B, 1, T))),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "scale missing",
            SCALE,
            SCORING + "scale",
            edit(FORWARD, " / math.sqrt(q.size(-1))", ""),
        ),
        Mistake(
            "softmax applied twice",
            TWICE,
            SCORING + "softmax",
            edit(FORWARD, SCORES, f"({SCORES}).softmax(-1)"),
        ),
        Mistake(
            "scaled by the length of the sequence",
            SCALE,
            SCORING + "scale",
            edit(FORWARD, "q.size(-1)", "q.size(-2)"),
        ),
        Mistake(
            "divided by the width, not by its root",
            SCALE,
            SCORING + "scale",
            edit(FORWARD, "math.sqrt(q.size(-1))", "q.size(-1)"),
        ),
        Mistake(
            "values not projected",
            "Queries, keys and values are three maps of the same sequence: values have"
            " a map of their own.",
            SCORING + "context",
            edit(FORWARD, "self.value_proj(x)", "x"),
        ),
        Mistake(
            "queries and keys not projected",
            "Queries, keys and values are three maps of the same sequence.",
            SCORING + "context",
            edit(FORWARD, "self.query_proj(x), self.key_proj(x)", "x, x"),
        ),
        Mistake(
            "keys ask queries",
            "Row t holds the scores of query t: queries first, keys turned.",
            SCORING + "dot",
            edit(FORWARD, "q @ k.mT", "k @ q.mT"),
        ),
        WEIGHT,
        *ANYWHERE,
        Mistake(
            "the context is no weighted sum of the values",
            "The weights are right: the context is their product with the projected"
            " values.",
            SCORING + "context",
            sign=right_in(1),
        ),
    ),
)
