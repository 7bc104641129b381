"""self_attention: a sequence asks itself, with one head."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention
from attention_course.masks import causal_mask, padding_mask
from attention_labs.lab05_self_attention.hints import (
    SCALE,
    TWICE,
    WEIGHT,
    B,
    T,
)
from attention_labs.pages import SCORING
from attention_labs.pieces import with_methods
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
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
    """One head, in pieces that a mistake can replace."""

    def __init__(self, dim: int):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.project(x)
        return attention.attend(self.score(q, k), v, self.allow(mask))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.query_proj(x), self.key_proj(x), self.value_proj(x)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(q.size(-1))

    def allow(self, mask: Tensor | None) -> Tensor | None:
        return mask


def _use_self(module: Any, x: Tensor, mask: Tensor | None) -> Any:
    return module(x) if mask is None else module(x, mask)


def _sequence(
    g: torch.Generator, mask: Tensor | None, gradients: bool = False
) -> Request:
    weights = parameters(g, lambda: _SelfAttention(ALONE))
    return Request((normal(g, B, T, ALONE), mask), (ALONE,), weights, gradients)


def _unmasked_sequences(g: torch.Generator) -> Iterator[Request]:
    yield _sequence(g, None, gradients=True)


def _masked_sequences(g: torch.Generator) -> Iterator[Request]:
    padding = padding_mask(torch.tensor([T, T - 2]), T)
    yield _sequence(g, padding, gradients=True)
    yield _sequence(g, causal_mask(T), gradients=True)
    yield _sequence(g, padding & causal_mask(T))


def _sequence_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_sequence(g, some_allowed(g, B, 1, T)))


SELF_ATTENTION = Question(
    name="self_attention",
    reference=_SelfAttention,
    use=_use_self,
    properties=(
        Property(
            "contexts, weights and all gradients, without a mask",
            2,
            _unmasked_sequences,
            same_gradients,
        ),
        Property("padding and causal masks", 1, _masked_sequences, same_gradients),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _sequence_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "scale missing",
            SCALE,
            SCORING + "scale",
            with_methods(_SelfAttention, score=lambda self, q, k: q @ k.mT),
        ),
        Mistake(
            "softmax applied twice",
            TWICE,
            SCORING + "softmax",
            with_methods(
                _SelfAttention,
                score=lambda self, q, k: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1),
            ),
        ),
        Mistake(
            "scaled by the length of the sequence",
            SCALE,
            SCORING + "scale",
            with_methods(
                _SelfAttention,
                score=lambda self, q, k: q @ k.mT / math.sqrt(q.size(-2)),
            ),
        ),
        Mistake(
            "divided by the width, not by its root",
            SCALE,
            SCORING + "scale",
            with_methods(
                _SelfAttention, score=lambda self, q, k: q @ k.mT / q.size(-1)
            ),
        ),
        Mistake(
            "values not projected",
            "Queries, keys and values are three maps of the same sequence: values have"
            " a map of their own.",
            SCORING + "context",
            with_methods(
                _SelfAttention,
                project=lambda self, x: (self.query_proj(x), self.key_proj(x), x),
            ),
        ),
        Mistake(
            "queries and keys not projected",
            "Queries, keys and values are three maps of the same sequence.",
            SCORING + "context",
            with_methods(
                _SelfAttention, project=lambda self, x: (x, x, self.value_proj(x))
            ),
        ),
        Mistake(
            "keys ask queries",
            "Row t holds the scores of query t: queries first, keys turned.",
            SCORING + "dot",
            with_methods(
                _SelfAttention,
                score=lambda self, q, k: k @ q.mT / math.sqrt(q.size(-1)),
            ),
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
