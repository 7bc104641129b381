"""Question `self_attention`: self-attention with a single head.

Several heads are in `multi_head_attention`.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from attention_course.attention import attend, masked_softmax
from attention_course.masks import causal_mask, padding_mask
from attention_labs.lab05_self_attention.shared import (
    EMPTY_ROW,
    EVERYWHERE,
    LEAVES_OUT,
    SCALE,
    TWICE,
    WEIGHT,
    B,
    T,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    normal,
    parameters,
    right_in,
    same_gradients,
    some_allowed,
)


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


NOT_ITSELF = "~torch.eye(x.size(1), dtype=torch.bool, device=x.device)"
FORWARD, SCORES = _SelfAttention.forward, "q @ k.mT / math.sqrt(q.size(-1))"


def _sequence(d: Draw, *masks: Tensor | None) -> list[Request]:
    weights = parameters(d, lambda: _SelfAttention(d.D))
    x = normal(d, d.B, d.T, d.D)
    return [Request((x, mask), (d.D,), weights) for mask in masks]


def _padding(d: Draw) -> Tensor:
    return padding_mask(torch.randint(1, d.T + 1, (d.B,), generator=d), d.T)


def _any_masks(d: Draw) -> list[Request]:
    """Draw masks of all shapes, with empty rows; the last for a single position."""
    shapes = (
        *((d.B, d.T, d.T), (d.B, 1, d.T), (d.B, d.T, 1)),
        *((1, d.T, d.T), (1, 1, d.T), (d.T, d.T), (d.T, 1), (d.T,)),
    )
    masks = [torch.rand(*shape, generator=d) < 0.6 for shape in shapes]
    asked = _sequence(d, *masks, torch.zeros(d.T, d.T, dtype=torch.bool))
    asked += _sequence(d, _padding(d).mT & causal_mask(d.T))
    one = Draw(d.number(0, 10**9), {**d.sizes, "T": 1}, whole=d.whole)
    (single,) = _sequence(one, torch.arange(d.B)[:, None, None] % 2 == 1)
    note = "a single position, which may not attend to itself in some sentences"
    asked.append(replace(single, about=note))
    asked = [replace(request, gradients=True) for request in asked]
    return [*asked, replace(asked[0], gradients=False, dtype=torch.float32)]


BATTERY = Battery(
    MODULE,
    lambda d: _sequence(
        d,
        None,
        _padding(d),
        causal_mask(d.T),
        _padding(d) & causal_mask(d.T),
        some_allowed(d, d.B, d.T, d.T),
    ),
    {"B": B, "T": T, "D": Axis("width", fixed=True)},
    leaves_out=LEAVES_OUT,
    # scores far below what may be put in for minus infinity
    large=(0.0, 1e5, 1e12),
)

QUESTION = Question(
    name="self_attention",
    reference=_SelfAttention,
    use=lambda module, x, mask: module(x) if mask is None else module(x, mask),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "maps": "Each role has its own learned linear map:",
        "names": "In the code, the three maps are called `query_proj`, `key_proj` and"
        " `value_proj`.",
        "asked": "For each position, the mask says which positions it may attend to. A"
        " padding mask forbids padding, and a causal mask forbids all later positions.",
        "empty": "If a position may not attend to anything, all its weights must be 0.",
        "every": "Let every position attend to all positions of the same sequence.",
        "x": "x: (B, T, D).",
        "mask": "mask: True = may attend, broadcastable to (B, T, T); None allows"
        " everything.",
        "returns": "Contexts (B, T, D) and weights (B, T, T).",
    },
    properties=(
        BATTERY.numbers(
            "contexts, weights and all gradients, without a mask and with masks of"
            " every allowed shape",
            2,
            checks=("maps", "names", "asked", "every", "x", "mask", "returns"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            claim="positions that may attend to nothing; edges: length one, equal"
            " lengths, long inputs, large numbers, eval mode, repeated calls, two"
            " instances",
            checks=("lengths", "empty", "mask", "returns"),
            also=_any_masks,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "scale factor missing",
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
            "scaled by the sequence length",
            SCALE,
            SCORING + "scale",
            edit(FORWARD, "q.size(-1)", "q.size(-2)"),
        ),
        Mistake(
            "divided by the width, not by its square root",
            SCALE,
            SCORING + "scale",
            edit(FORWARD, "math.sqrt(q.size(-1))", "q.size(-1)"),
        ),
        Mistake(
            "values not projected",
            "Apply `value_proj` to x. The weights multiply the projected values.",
            SCORING + "context",
            edit(FORWARD, "self.value_proj(x)", "x"),
        ),
        Mistake(
            "queries and keys not projected",
            "Apply `query_proj` and `key_proj` to x before you compare queries with"
            " keys.",
            SCORING + "context",
            edit(FORWARD, "self.query_proj(x), self.key_proj(x)", "x, x"),
        ),
        Mistake(
            "queries and keys swapped in the product",
            "Row t must hold the scores of query t. Put the queries first in the"
            " product, and transpose the keys.",
            SCORING + "dot",
            edit(FORWARD, "q @ k.mT", "k @ q.mT"),
        ),
        Mistake(
            "causal mask added when none is given",
            "If no mask is given, every position attends to all positions, including"
            " later ones.",
            SCORING + "mask",
            edit(
                FORWARD,
                "v, mask)",
                "v, causal_mask(x.size(1)) if mask is None else mask)",
            ),
        ),
        Mistake(
            "softmax over the query axis",
            "The weights of one query sum to one. They are a row, so the softmax is"
            " over the last axis.",
            SCORING + "softmax",
            edit(masked_softmax, " scores.softmax(dim=-1)", " scores.softmax(dim=-2)")
            & edit(
                masked_softmax, "lowest).softmax(dim=-1)", "lowest).softmax(dim=-2)"
            ),
        ),
        Mistake(
            "a position does not attend to itself",
            "Every position attends to itself, too, unless the mask forbids it.",
            SCORING + "mask",
            edit(
                FORWARD,
                "v, mask)",
                f"v, {NOT_ITSELF} if mask is None else mask & {NOT_ITSELF})",
            ),
        ),
        Mistake(
            "the mask is inverted",
            "In this course, True means that a position may be attended to.",
            SCORING + "mask",
            edit(FORWARD, "v, mask)", "v, None if mask is None else ~mask)"),
        ),
        EMPTY_ROW,
        WEIGHT,
        *ANYWHERE,
        Mistake(
            "the context is not a weighted sum of the values",
            "The weights are right. Multiply them by the projected values.",
            SCORING + "context",
            sign=right_in(1),
        ),
    ),
)
