"""Answers to multi_head_attention."""

import math

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, with_part, wrong
from answers.lab05_self_attention.merge_heads import merge_heads
from answers.lab05_self_attention.shapes import maps, masks, sizes
from answers.lab05_self_attention.split_heads import (
    chunked,
    split_heads,
    turned_then_cut,
    viewed_and_permuted,
)
from answers.signs import CUT, FITS, NONE, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge.question import Request


@wide("multi_head_attention")
def any_heads(g):
    for b, t, s, h, width in sizes(g):
        for mask in masks(g, b, t, s):
            dim = h * width
            weights = maps(g, dim, "query", "key", "value", "output")
            inputs = (draw(g, b, t, dim), draw(g, b, s, dim), draw(g, b, s, dim), mask)
            yield Request(inputs, (dim, h), weights, gradients=True)


class Heads(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        context, weights = self.look(self.score(q, k), v, self.spread(mask))
        return self.finish(context), weights

    def project(self, query, key, value):
        return self.query_proj(query), self.key_proj(key), self.value_proj(value)

    def split(self, x):
        return split_heads(x, self.num_heads)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.size(-1))

    def spread(self, mask):
        return mask[:, None] if mask is not None and mask.dim() == 3 else mask

    def look(self, scores, v, mask):
        return attend(scores, v, mask)

    def finish(self, context):
        return self.output_proj(merge_heads(context))


right("multi_head_attention")(Heads)
for split in (viewed_and_permuted, chunked, turned_then_cut):
    right("multi_head_attention")(
        type(
            split.__name__,
            (Heads,),
            {"split": lambda self, x, split=split: split(x, self.num_heads)},
        )
    )


@right("multi_head_attention")
@with_part(Heads, "project")
def weights_by_hand(self, query, key, value):
    maps = ((query, self.query_proj), (key, self.key_proj), (value, self.value_proj))
    return [x @ p.weight.T + p.bias for x, p in maps]


@right("multi_head_attention")
@with_part(Heads, "score")
def scores_with_einsum(self, q, k):
    return torch.einsum("bhtd,bhsd->bhts", q, k) / q.size(-1) ** 0.5


@right("multi_head_attention")
@with_part(Heads, "score")
def scores_by_sums(self, q, k):
    return (q[..., :, None, :] * k[..., None, :, :]).sum(-1).div(math.sqrt(k.size(-1)))


@right("multi_head_attention")
@with_part(Heads, "look")
def look_after_a_fill(self, scores, v, mask):
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    weights = scores.log_softmax(dim=-1).exp()
    return weights @ v, weights


@right("multi_head_attention")
@with_part(Heads, "look")
def look_by_contraction(self, scores, v, mask):
    weights = attend(scores, v, mask)[1]
    return torch.einsum("bhts,bhsd->bhtd", weights, v), weights


@right("multi_head_attention")
@with_part(Heads, "finish")
def finished_by_reshape(self, context):
    b, h, t, d = context.shape
    return self.output_proj(context.permute(0, 2, 1, 3).reshape(b, t, h * d))


@right("multi_head_attention")
@with_part(Heads, "finish")
def finished_head_by_head_at_once(self, context):
    weight = self.output_proj.weight.unflatten(1, (self.num_heads, -1))
    return torch.einsum("bhtd,ohd->bto", context, weight) + self.output_proj.bias


@right("multi_head_attention")
@with_part(Heads, "forward")
def mask_always_four_axes(self, query, key, value, mask=None):
    if mask is None:
        mask = torch.ones(
            query.size(1), key.size(1), dtype=torch.bool, device=query.device
        )
    while mask.dim() < 3:
        mask = mask.unsqueeze(0)
    return Heads.forward(self, query, key, value, mask)


@wrong("multi_head_attention", "a loop over the heads")
@with_part(Heads, "forward")
def looped(self, query, key, value, mask=None):
    q, k, v = (x.chunk(self.num_heads, dim=-1) for x in self.project(query, key, value))
    found = [
        attend(a @ b.mT / math.sqrt(a.size(-1)), c, mask) for a, b, c in zip(q, k, v)
    ]
    contexts, weights = zip(*found)
    return self.output_proj(torch.cat(contexts, dim=-1)), torch.stack(weights, dim=1)


@wrong("multi_head_attention", "heads split by view, without transpose")
@with_part(Heads, "split")
def split_by_view(self, x):
    return x.view(x.size(0), self.num_heads, x.size(1), -1)


@wrong(
    "multi_head_attention",
    "heads merged by view, without transpose",
    "the weights are right, the contexts are not",
)
@with_part(Heads, "finish")
def merged_by_view(self, context):
    b, h, t, d = context.shape
    return self.output_proj(context.reshape(b, t, h * d))


@wrong("multi_head_attention", "scaled by the width of the model, not of a head")
@with_part(Heads, "score")
def scaled_by_the_model(self, q, k):
    return q @ k.mT / math.sqrt(self.query_proj.in_features)


@wrong("multi_head_attention", "scale missing")
@with_part(Heads, "score")
def scale_forgotten(self, q, k):
    return torch.einsum("bhtd,bhsd->bhts", q, k)


@wrong("multi_head_attention", FITS)
@with_part(Heads, "spread")
def mask_without_heads(self, mask):
    return mask


@wrong("multi_head_attention", FITS, WEIGHT)
@with_part(Heads, "spread")
def mask_with_heads_first(self, mask):
    return None if mask is None else mask[None]


@wrong("multi_head_attention", WEIGHT)
@with_part(Heads, "spread")
def mask_dropped(self, mask):
    return None


@wrong(
    "multi_head_attention",
    "output map missing",
    "the weights are right, the contexts are not",
)
@with_part(Heads, "finish")
def no_output_map(self, context):
    return merge_heads(context)


@wrong("multi_head_attention", "the weights are right, the contexts are not")
@with_part(Heads, "finish")
def mapped_before_merging(self, context):
    return merge_heads(
        split_heads(self.output_proj(merge_heads(context)), self.num_heads).tanh()
    )


@wrong(
    "multi_head_attention",
    "values taken from the keys",
    "the weights are right, the contexts are not",
)
@with_part(Heads, "project")
def keys_for_values(self, query, key, value):
    return self.query_proj(query), self.key_proj(key), self.value_proj(key)


@wrong("multi_head_attention", "keys and values taken from the query")
@with_part(Heads, "project")
def all_from_the_query(self, query, key, value):
    return self.query_proj(query), self.key_proj(query), self.value_proj(query)


@wrong("multi_head_attention", "the mean over the heads is returned")
@with_part(Heads, "look")
def mean_weights(self, scores, v, mask):
    context, weights = attend(scores, v, mask)
    return context, weights.mean(dim=1)


@wrong("multi_head_attention", NONE)
@with_part(Heads, "spread")
def mask_taken_for_granted(self, mask):
    return mask.unsqueeze(1)


@wrong("multi_head_attention", CUT)
@with_part(Heads, "finish")
def output_map_frozen(self, context):
    return F.linear(
        merge_heads(context),
        self.output_proj.weight.detach(),
        self.output_proj.bias.detach(),
    )


@wrong("multi_head_attention")
@with_part(Heads, "score")
def scores_of_one_head(self, q, k):
    return (q[:, :1] @ k[:, :1].mT / math.sqrt(q.size(-1))).expand(
        -1, q.size(1), -1, -1
    )
