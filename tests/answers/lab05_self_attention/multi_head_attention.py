"""Answers to multi_head_attention."""

import math

import torch
from answers.core import draw, right, right_edits, wide, with_part, wrong, wrong_edits
from answers.lab05_self_attention.merge_heads import merge_heads
from answers.lab05_self_attention.shared import maps, masks, sizes
from answers.lab05_self_attention.split_heads import (
    chunked,
    split_heads,
    turned_then_cut,
    viewed_and_permuted,
)
from answers.signs import CUT, FITS, NAN, NONE, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge import Request, edit


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
        context, weights = attend(scores, v, mask)
        return context, weights

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
@with_part(Heads, "look")
def look_after_a_fill(self, scores, v, mask):
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    weights = scores.log_softmax(dim=-1).exp()
    weights = weights if mask is None else weights * mask
    return weights @ v, weights


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


@wrong("multi_head_attention", "too many operator calls for many heads")
@with_part(Heads, "forward")
def looped(self, query, key, value, mask=None):
    q, k, v = (x.chunk(self.num_heads, dim=-1) for x in self.project(query, key, value))
    found = [
        attend(a @ b.mT / math.sqrt(a.size(-1)), c, mask) for a, b, c in zip(q, k, v)
    ]
    contexts, weights = zip(*found)
    return self.output_proj(torch.cat(contexts, dim=-1)), torch.stack(weights, dim=1)


SCORE, SPREAD, FINISH = Heads.score, Heads.spread, Heads.finish
PRODUCT, FINISHED = "q @ k.mT", "self.output_proj(merge_heads(context))"
MASK = "mask[:, None] if mask is not None and mask.dim() == 3 else mask"
right_edits(
    "multi_head_attention",
    Heads,
    weights_by_hand=edit(
        Heads.project,
        "self.query_proj(query), self.key_proj(key), self.value_proj(value)",
        "[x @ p.weight.T + p.bias"
        " for x, p in zip((query, key, value), self.children())]",
    ),
    look_by_contraction=edit(
        Heads.look,
        "return context",
        "return torch.einsum('bhts,bhsd->bhtd', weights, v)",
    ),
    finished_by_reshape=edit(
        FINISH,
        "merge_heads(context)",
        "context.permute(0, 2, 1, 3).reshape(len(context), context.size(2), -1)",
    ),
    scores_with_einsum=edit(SCORE, PRODUCT, "torch.einsum('bhtd,bhsd->bhts', q, k)"),
    scores_by_sums=edit(
        SCORE, PRODUCT, "(q[..., :, None, :] * k[..., None, :, :]).sum(-1)"
    ),
)
wrong_edits(
    "multi_head_attention",
    Heads,
    mask_without_heads=(
        edit(SPREAD, MASK, "mask"),
        "no axis for the heads in the mask",
    ),
    mask_with_heads_first=(
        edit(SPREAD, MASK, "None if mask is None else mask[None]"),
        FITS,
        WEIGHT,
    ),
    mask_dropped=(edit(SPREAD, MASK, "None"), WEIGHT),
    mask_taken_for_granted=(edit(SPREAD, MASK, "mask.unsqueeze(1)"), NONE),
    mapped_before_merging=(
        edit(
            FINISH,
            FINISHED,
            f"merge_heads(split_heads({FINISHED}, self.num_heads).tanh())",
        ),
        "the weights are right, the contexts are wrong",
    ),
    output_map_frozen=(
        edit(
            FINISH,
            FINISHED,
            "nn.functional.linear(merge_heads(context),"
            " *(x.detach() for x in self.output_proj.parameters()))",
        ),
        CUT,
    ),
    scores_of_one_head=(
        edit(SCORE, PRODUCT, "(q[:, :1] @ k[:, :1].mT).expand(-1, q.size(1), -1, -1)"),
    ),
    values_are_the_keys_of_one_tensor=(
        edit(
            Heads.project,
            "return self.query_proj(query), self.key_proj(key), self.value_proj(value)",
            "k = self.key_proj(key)\n"
            "    return self.query_proj(query), k,"
            " k if value is key else self.value_proj(value)",
        ),
        "the weights are right, the contexts are wrong",
    ),
    one_key_has_all_the_weight=(
        edit(
            Heads.look,
            "attend(scores, v, mask)",
            "attend(scores, v, None if v.size(2) == 1 else mask)",
        ),
        WEIGHT,
    ),
    forbidden_by_minus_infinity=(
        edit(
            Heads.look,
            "attend(scores, v, mask)",
            "(lambda w: (w @ v, w))((scores + (0 if mask is None else"
            " torch.zeros_like(scores).masked_fill(~mask, -math.inf)))"
            ".softmax(-1).nan_to_num(0))",
        ),
        NAN,
    ),
    loop_over_scores_alone=(
        edit(
            SCORE,
            PRODUCT,
            "torch.stack([a @ b.mT for a, b in zip(q.unbind(1), k.unbind(1))], 1)",
        ),
        "too many operator calls for many heads",
    ),
    keys_kept_while_writing=(
        edit(
            Heads.project,
            "return self.query_proj(query), self.key_proj(key), self.value_proj(value)",
            "if query.size(1) > 1 or self.training or not hasattr(self, 'kept'):\n"
            "        self.kept = self.key_proj(key), self.value_proj(value)\n"
            "    return self.query_proj(query), *self.kept",
        ),
    ),
)
