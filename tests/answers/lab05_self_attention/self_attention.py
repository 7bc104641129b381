"""Answers to self_attention."""

import math

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, with_part, wrong
from answers.lab05_self_attention.shapes import maps, masks, sizes
from answers.signs import CUT, FITS, NONE, ORDER, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge.question import Request

CONTEXT = "the context is no weighted sum of the values"


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
        return attend(scores, v, mask)


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
@with_part(Alone, "project")
def projected_by_hand(self, x):
    return tuple(
        x @ p.weight.T + p.bias
        for p in (self.query_proj, self.key_proj, self.value_proj)
    )


@right("self_attention")
@with_part(Alone, "score")
def scaled_queries(self, q, k):
    return (q / q.size(-1) ** 0.5) @ k.transpose(-2, -1)


@right("self_attention")
@with_part(Alone, "score")
def scored_with_einsum(self, q, k):
    return torch.einsum("btd,bsd->bts", q, k).mul(q.size(-1) ** -0.5)


@right("self_attention")
@with_part(Alone, "score")
def scored_by_sums(self, q, k):
    return (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / math.sqrt(k.size(-1))


@right("self_attention")
@with_part(Alone, "score")
def query_after_query(self, q, k):
    return torch.cat([row @ k.mT for row in q.split(1, dim=1)], dim=1) * (
        1 / math.sqrt(q.size(-1))
    )


@right("self_attention")
@with_part(Alone, "look")
def look_by_hand(self, scores, v, mask):
    e = torch.exp(scores if mask is None else scores.masked_fill(~mask, -1e30))
    weights = e / e.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights @ v, weights


@right("self_attention")
@with_part(Alone, "look")
def look_with_a_bias(self, scores, v, mask):
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, -1e30)
    weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, v), weights


@right("self_attention")
@with_part(Alone, "look")
def look_with_einsum(self, scores, v, mask):
    _, weights = attend(scores, v, mask)
    return torch.einsum("bts,bsd->btd", weights, v), weights


@right("self_attention")
@with_part(Alone, "look")
def look_by_shares(self, scores, v, mask):
    _, weights = attend(scores, v, mask)
    return (weights[..., None] * v[:, None]).sum(2), weights


@wrong("self_attention", "scale missing")
@with_part(Alone, "score")
def not_scaled(self, q, k):
    return torch.matmul(q, k.transpose(1, 2))


@wrong("self_attention", "scaled by the length of the sequence")
@with_part(Alone, "score")
def scaled_by_length(self, q, k):
    return q @ k.mT / k.size(1) ** 0.5


@wrong("self_attention")
@with_part(Alone, "score")
def scaled_by_eight(self, q, k):
    return q @ k.mT / 8


@wrong("self_attention", FITS)
@with_part(Alone, "score")
def not_turned(self, q, k):
    return q @ k / math.sqrt(q.size(-1))


@wrong("self_attention", "values not projected", CONTEXT)
@with_part(Alone, "project")
def values_as_they_are(self, x):
    return self.query_proj(x), self.key_proj(x), x


@wrong("self_attention", CONTEXT)
@with_part(Alone, "project")
def values_through_the_key_map(self, x):
    return self.query_proj(x), self.key_proj(x), self.key_proj(x)


@wrong("self_attention", "keys ask queries", "axes exchanged")
@with_part(Alone, "project")
def query_and_key_exchanged(self, x):
    return self.key_proj(x), self.query_proj(x), self.value_proj(x)


@wrong("self_attention", WEIGHT)
@with_part(Alone, "look")
def unmasked(self, scores, v, mask):
    return attend(scores, v)


@wrong("self_attention", WEIGHT)
@with_part(Alone, "look")
def masked_inside_out(self, scores, v, mask):
    return attend(scores, v, None if mask is None else ~mask)


@wrong("self_attention", NONE)
@with_part(Alone, "look")
def mask_needed(self, scores, v, mask):
    return attend(scores, v, mask.bool())


@wrong("self_attention", ORDER)
@with_part(Alone, "look")
def weights_first(self, scores, v, mask):
    context, weights = attend(scores, v, mask)
    return weights, context


@wrong("self_attention", CUT)
@with_part(Alone, "score")
def scores_without_gradient(self, q, k):
    return (q @ k.mT / math.sqrt(q.size(-1))).detach()


@wrong("self_attention", "too much or too little is returned")
@with_part(Alone, "look")
def context_alone(self, scores, v, mask):
    return attend(scores, v, mask)[0]


@wrong("self_attention", CONTEXT)
@with_part(Alone, "look")
def residual_added(self, scores, v, mask):
    context, weights = attend(scores, v, mask)
    return context + v, weights
