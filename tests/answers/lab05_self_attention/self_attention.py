"""Answers to self_attention."""

import math

import torch
import torch.nn.functional as F
from answers.core import draw, right, right_edits, wide, with_part, wrong_edits
from answers.lab05_self_attention.shared import maps, masks, sizes
from answers.signs import CUT, FITS, NAN, NONE, ORDER, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge import Request, edit

CONTEXT = "the context is not a weighted sum of the values"


@wide("self_attention")
def any_sequence(g):
    for b, t, dim, *_ in sizes(g):
        for mask in masks(g, b, t, t):
            weights = maps(g, dim, "query", "key", "value")
            yield Request((draw(g, b, t, dim), mask), (dim,), weights, gradients=True)


class Alone(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.project(x)
        return self.look(self.score(q, k), v, mask)

    def project(self, x):
        return self.query_proj(x), self.key_proj(x), self.value_proj(x)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.size(-1))

    def look(self, scores, v, mask):
        context, weights = attend(scores, v, mask)
        return context, weights


right("self_attention")(Alone)


@right("self_attention")
@with_part(Alone, "project")
def projected_together(self, x):
    weight = torch.cat(
        [self.query_proj.weight, self.key_proj.weight, self.value_proj.weight]
    )
    bias = torch.cat([self.query_proj.bias, self.key_proj.bias, self.value_proj.bias])
    return F.linear(x, weight, bias).chunk(3, dim=-1)


@right("self_attention")
@with_part(Alone, "look")
def look_by_hand(self, scores, v, mask):
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    lowest = torch.finfo(scores.dtype).min
    scores = scores.masked_fill(~mask, lowest)
    e = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    weights = e / e.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights @ v, weights


@right("self_attention")
@with_part(Alone, "look")
def look_with_a_bias(self, scores, v, mask):
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, -1e30)
    weights = F.softmax(scores, dim=2) * (1 if mask is None else mask)
    return torch.bmm(weights, v), weights


PROJECT, SCORE, LOOK = Alone.project, Alone.score, Alone.look
PRODUCT, LOOKED = "q @ k.mT / math.sqrt(q.size(-1))", "attend(scores, v, mask)"
right_edits(
    "self_attention",
    Alone,
    projected_by_hand=edit(
        PROJECT,
        "self.query_proj(x), self.key_proj(x), self.value_proj(x)",
        "(x @ p.weight.T + p.bias for p in self.children())",
    ),
    look_with_einsum=edit(
        LOOK, "return context", "return torch.einsum('bts,bsd->btd', weights, v)"
    ),
    look_by_shares=edit(
        LOOK, "return context", "return (weights[..., None] * v[:, None]).sum(2)"
    ),
    scaled_queries=edit(
        SCORE, PRODUCT, "(q / q.size(-1) ** 0.5) @ k.transpose(-2, -1)"
    ),
    scored_with_einsum=edit(
        SCORE,
        PRODUCT,
        "torch.einsum('btd,bsd->bts', q, k).mul(q.size(-1) ** -0.5)",
    ),
    scored_by_sums=edit(SCORE, "q @ k.mT", "(q.unsqueeze(2) * k.unsqueeze(1)).sum(-1)"),
    query_after_query=edit(
        SCORE, "q @ k.mT", "torch.cat([row @ k.mT for row in q.split(1, dim=1)], dim=1)"
    ),
)
wrong_edits(
    "self_attention",
    Alone,
    scaled_by_eight=(edit(SCORE, "math.sqrt(q.size(-1))", "8"),),
    not_turned=(edit(SCORE, "k.mT", "k"), FITS),
    scores_without_gradient=(edit(SCORE, PRODUCT, f"({PRODUCT}).detach()"), CUT),
    values_through_the_key_map=(edit(PROJECT, "value_proj", "key_proj"), CONTEXT),
    unmasked=(edit(LOOK, LOOKED, "attend(scores, v)"), WEIGHT),
    masked_inside_out=(
        edit(LOOK, LOOKED, "attend(scores, v, None if mask is None else ~mask)"),
        "the mask is inverted",
    ),
    mask_needed=(edit(LOOK, LOOKED, "attend(scores, v, mask.bool())"), NONE),
    weights_first=(
        edit(LOOK, "return context, weights", "return weights, context"),
        ORDER,
    ),
    context_alone=(edit(LOOK, "return context, weights", "return context"), TOO_MUCH),
    residual_added=(edit(LOOK, "return context", "return context + v"), CONTEXT),
    forbidden_by_minus_infinity=(
        edit(
            LOOK,
            LOOKED,
            "(lambda w: (w @ v, w))((scores + (0 if mask is None else"
            " torch.zeros_like(scores).masked_fill(~mask, -math.inf)))"
            ".softmax(-1).nan_to_num(0))",
        ),
        NAN,
    ),
    forbidden_by_a_trillion=(
        edit(
            LOOK,
            LOOKED,
            "attend(scores, v, mask) if mask is None else"
            " (lambda w: (w @ v, w))(scores.masked_fill(~mask, -1e12).softmax(-1) * mask)",
        ),
        "wrong for zeros or large numbers",
    ),
    two_axes_taken_for_causal=(
        edit(
            LOOK,
            LOOKED,
            "attend(scores, v, mask.tril() if mask is not None and mask.dim() == 2"
            " and len(mask) == mask.size(1) else mask)",
        ),
    ),
    padding_taken_for_lengths=(
        edit(
            LOOK,
            LOOKED,
            "attend(scores, v, mask.sort(dim=-1, descending=True).values"
            " if mask is not None and mask.shape[-2:-1] == (1,) else mask)",
        ),
        WEIGHT,
    ),
    mask_viewed_by_sentences=(
        edit(
            LOOK,
            LOOKED,
            "attend(scores, v, mask.reshape(len(v), -1, v.size(1))"
            " if mask is not None and mask.dim() == 3 else mask)",
        ),
    ),
    one_position_attends_to_itself=(
        edit(
            LOOK,
            LOOKED,
            "attend(scores, v, None if v.size(1) == 1 else mask)",
        ),
        WEIGHT,
    ),
)
