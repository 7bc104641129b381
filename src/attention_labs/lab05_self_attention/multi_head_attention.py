"""multi_head_attention: all heads at once."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention
from attention_course.masks import padding_mask
from attention_labs.lab05_self_attention.hints import (
    BACK,
    DH,
    HEADS,
    MIXED,
    SCALE,
    TWICE,
    WEIGHT,
    B,
    H,
    S,
    T,
)
from attention_labs.lab05_self_attention.merge_heads import merge_heads
from attention_labs.lab05_self_attention.split_heads import split_heads
from attention_labs.pages import SCORING
from attention_labs.pieces import with_methods
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    right_in,
    same_gradients,
    same_numbers,
    some_allowed,
)


class _Heads(nn.Module):
    """Multi-head attention in pieces that a mistake can replace."""

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attention.attend(self.score(q, k), v, self.allow(mask))
        return self.finish(self.merge(context)), self.report(weights)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return self.query_proj(query), self.key_proj(key), self.value_proj(value)

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.num_heads)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(q.size(-1))

    def allow(self, mask: Tensor | None) -> Tensor | None:
        return mask

    def merge(self, context: Tensor) -> Tensor:
        return merge_heads(context)

    def finish(self, merged: Tensor) -> Tensor:
        return self.output_proj(merged)

    def report(self, weights: Tensor) -> Tensor:
        return weights


def _use_heads(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Any:
    return (
        module(query, key, value) if mask is None else module(query, key, value, mask)
    )


def _looking(
    g: torch.Generator, mask: Tensor | None, heads: int = H, gradients: bool = False
) -> Request:
    dim = heads * DH
    inputs = (normal(g, B, T, dim), normal(g, B, S, dim), normal(g, B, S, dim), mask)
    return Request(
        inputs, (dim, heads), parameters(g, lambda: _Heads(dim, heads)), gradients
    )


def _unmasked_heads(g: torch.Generator) -> Iterator[Request]:
    yield _looking(g, None)
    yield _looking(g, None, gradients=True)
    yield _looking(g, None, heads=1)


def _masked_heads(g: torch.Generator) -> Iterator[Request]:
    yield _looking(g, some_allowed(g, B, T, S), gradients=True)
    yield _looking(g, padding_mask(torch.tensor([S, S - 3]), S))
    yield _looking(g, some_allowed(g, T, S))


def _many_heads(g: torch.Generator) -> Iterator[Request]:
    request = _looking(g, None, heads=24)
    yield Request(request.inputs, request.init, request.parameters, traced=True)


def _heads_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_looking(g, some_allowed(g, B, 1, S)))


def _no_loop(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """A loop over heads calls some operators once per head."""
    if finding := same_numbers(request, reply, reference):
        return finding
    calls, few = len(reply.operators), 3 * len(reference.operators)
    return (
        Finding(f"{calls} operator calls for many heads", f"at most {few}")
        if calls > few
        else None
    )


MULTI_HEAD_ATTENTION = Question(
    name="multi_head_attention",
    reference=attention.MultiHeadAttention,
    use=_use_heads,
    stand_ins={"split_heads": split_heads, "merge_heads": merge_heads},
    properties=(
        Property(
            "the weights of every head", 1, _unmasked_heads, of_output(1, same_numbers)
        ),
        Property("the contexts, and all gradients", 2, _unmasked_heads, same_gradients),
        Property(
            "masks with and without an axis for sentences",
            1,
            _masked_heads,
            same_gradients,
        ),
        Property("all heads at once, without a loop", 1, _many_heads, _no_loop),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _heads_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "heads split by view, without transpose",
            MIXED,
            HEADS + "split",
            with_methods(
                _Heads,
                split=lambda self, x: x.reshape(
                    x.size(0), self.num_heads, x.size(1), -1
                ),
            ),
        ),
        Mistake(
            "heads merged by view, without transpose",
            BACK,
            HEADS + "split",
            with_methods(
                _Heads,
                merge=lambda self, context: context.reshape(
                    context.size(0), context.size(2), -1
                ),
            ),
        ),
        Mistake(
            "scaled by the width of the model, not of a head",
            SCALE + " Within a head that is Dh.",
            SCORING + "scale",
            with_methods(
                _Heads,
                score=lambda self, q, k: q @ k.mT / math.sqrt(q.size(-1) * q.size(1)),
            ),
        ),
        Mistake(
            "scale missing",
            SCALE + " Within a head that is Dh.",
            SCORING + "scale",
            with_methods(_Heads, score=lambda self, q, k: q @ k.mT),
        ),
        Mistake(
            "softmax applied twice",
            TWICE,
            SCORING + "softmax",
            with_methods(
                _Heads,
                score=lambda self, q, k: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1),
            ),
        ),
        Mistake(
            "output map missing",
            "After the heads stand side by side again, `output_proj` mixes what they"
            " found.",
            HEADS + "equation",
            with_methods(_Heads, finish=lambda self, merged: merged),
        ),
        Mistake(
            "values taken from the keys",
            "`value_proj` maps the values; only in self-attention are keys and values"
            " the same.",
            SCORING + "context",
            with_methods(
                _Heads,
                project=lambda self, query, key, value: (
                    self.query_proj(query),
                    self.key_proj(key),
                    self.value_proj(key),
                ),
            ),
        ),
        Mistake(
            "keys and values taken from the query",
            "Keys and values are maps of `key` and `value`; only in self-attention are"
            " all three the same.",
            SCORING + "context",
            with_methods(
                _Heads,
                project=lambda self, query, key, value: (
                    self.query_proj(query),
                    self.key_proj(query),
                    self.value_proj(query),
                ),
            ),
        ),
        Mistake(
            "the mean over the heads is returned",
            "Each head has weights of its own: (B, H, T, S).",
            HEADS + "equation",
            with_methods(_Heads, report=lambda self, weights: weights.mean(1)),
        ),
        WEIGHT,
        *ANYWHERE,
        Mistake(
            "a loop over the heads",
            "The heads are an axis like the batch: one product of matrices serves all"
            " of them.",
            HEADS + "equation",
            sign=lambda request, reply, reference: (
                request.traced and all(map(close, reply.outputs, reference.outputs))
            ),
        ),
        Mistake(
            "the weights are right, the contexts are not",
            "Values are projected and split like the keys; the contexts are merged, and"
            " `output_proj` comes last.",
            HEADS + "equation",
            sign=right_in(1),
        ),
    ),
)
