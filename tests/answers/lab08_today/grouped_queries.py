"""Answers to grouped_queries."""

import math

import torch
from answers.core import draw, right, right_edits, wide, with_part, wrong, wrong_edits
from answers.signs import DEVICE
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from nbjudge import Request, edit


@wide("grouped_queries")
def any_groups(g):
    for b, t, key_heads, group, width in (
        (1, 1, 1, 1, 2),
        (2, 5, 2, 3, 4),
        (3, 4, 3, 1, 2),
    ):
        heads = key_heads * group
        dim, narrow = heads * width, key_heads * width
        shapes = {"query": (dim, dim), "key": (narrow, dim), "value": (narrow, dim)}
        shapes |= {"output": (dim, dim)}
        maps = {f"{n}_proj.weight": draw(g, *s) / 2 for n, s in shapes.items()}
        for base in (None, 1e4, 30.0):
            for pieces in ([t], [1] * t, [t, 2, 1]):
                x = draw(g, b, sum(pieces), dim)
                for cache in (False, True):
                    init = (dim, heads, key_heads, base)
                    yield Request((x, pieces, cache), init, maps, gradients=True)


class Attention(nn.Module):
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q, new = self.project(x)
        seen = self.join(past, new)
        q, k = self.place(q, seen.key)
        scores = self.score(q, self.share(k))
        weights = self.weigh(scores)
        context = weights @ self.share(seen.value)
        return self.finish(context), weights, seen

    def project(self, x):
        q = self.split(self.query_proj(x), self.num_heads)
        k = self.split(self.key_proj(x), self.num_key_heads)
        v = self.split(self.value_proj(x), self.num_key_heads)
        return q, KeyValue(k, v)

    def split(self, x, heads):
        return x.unflatten(2, (heads, self.head_dim)).permute(0, 2, 1, 3)

    def join(self, past, new):
        return new if past is None else past.extend(new)

    def place(self, q, k):
        if self.positions is None:
            return q, k
        return self.positions(q, k.size(2) - q.size(2)), self.positions(k)

    def share(self, x):
        return x.repeat_interleave(self.num_heads // self.num_key_heads, dim=1)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(self.head_dim)

    def weigh(self, scores):
        t, s = scores.shape[-2:]
        mask = causal_mask(s, scores.device)[s - t :]
        return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)

    def finish(self, context):
        return self.output_proj(context.transpose(1, 2).flatten(2))


right("grouped_queries")(Attention)


@right("grouped_queries")
@with_part(Attention, "forward")
def groups_as_an_axis(self, x, past=None):
    q, new = self.project(x)
    seen = self.join(past, new)
    q, k = self.place(q, seen.key)
    q = q.unflatten(1, (self.num_key_heads, -1))  # (B, G, H/G, T, Dh)
    weights = self.weigh(q @ k[:, :, None].mT / self.head_dim**0.5)
    context = weights @ seen.value[:, :, None]
    return self.finish(context.flatten(1, 2)), weights.flatten(1, 2), seen


@right("grouped_queries")
@with_part(Attention, "forward")
def head_by_head(self, x, past=None):
    q, new = self.project(x)
    seen = self.join(past, new)
    q, k = self.place(q, seen.key)
    weights, contexts = [], []
    for h in range(self.num_heads):
        g = h * self.num_key_heads // self.num_heads
        weights.append(self.weigh(self.score(q[:, h], k[:, g])))
        contexts.append(weights[-1] @ seen.value[:, g])
    return self.output_proj(torch.cat(contexts, -1)), torch.stack(weights, 1), seen


@right("grouped_queries")
@with_part(Attention, "share")
def expanded_and_flattened(self, x):
    group = self.num_heads // self.num_key_heads
    return x[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


@right("grouped_queries")
@with_part(Attention, "share")
def picked_by_index(self, x):
    heads = torch.arange(self.num_heads, device=x.device)
    return x[:, heads * self.num_key_heads // self.num_heads]


@right("grouped_queries")
@with_part(Attention, "weigh")
def masked_by_adding(self, scores):
    t, s = scores.shape[-2:]
    lowest = scores.new_full((t, s), torch.finfo(scores.dtype).min)
    late = lowest.triu(s - t + 1)
    return torch.where(late < 0, late, scores).softmax(-1)


@right("grouped_queries")
@with_part(Attention, "weigh")
def compared_positions(self, scores):
    key = torch.arange(scores.size(-1), device=scores.device)
    query = key[-scores.size(-2) :]
    late = key > query[:, None]
    e = (scores - scores.masked_fill(late, -math.inf).amax(-1, keepdim=True)).clamp(
        max=0
    )
    e = e.exp().masked_fill(late, 0)
    return e / e.sum(-1, keepdim=True)


SPLIT, JOIN, PLACE = Attention.split, Attention.join, Attention.place
SHARE, SCORE, WEIGH = Attention.share, Attention.score, Attention.weigh
FINISH, FORWARD, PROJECT = Attention.finish, Attention.forward, Attention.project
CUT = "x.unflatten(2, (heads, self.head_dim)).permute(0, 2, 1, 3)"
MERGED = "self.output_proj(context.transpose(1, 2).flatten(2))"
TURNED = "self.positions(q, k.size(2) - q.size(2)), self.positions(k)"
REPEATED = "x.repeat_interleave(self.num_heads // self.num_key_heads, dim=1)"
right_edits(
    "grouped_queries",
    Attention,
    split_in_chunks=edit(SPLIT, CUT, "torch.stack(x.chunk(heads, dim=-1), dim=1)"),
    scores_with_einsum=edit(SCORE, "q @ k.mT", "torch.einsum('bhtd,bhsd->bhts', q, k)"),
    query_scaled_first=edit(
        SCORE, "q @ k.mT / math.sqrt(self.head_dim)", "(q * self.head_dim**-0.5) @ k.mT"
    ),
    finished_by_reshape=edit(
        FINISH,
        "transpose(1, 2).flatten(2)",
        "permute(0, 2, 1, 3).reshape(*context.shape[::2], -1)",
    )
    & edit(FINISH, "context.permute", "context.permute")
    & edit(FINISH, "*context.shape[::2]", "len(context), context.size(2)"),
    joined_by_hand=edit(
        JOIN,
        "past.extend(new)",
        "KeyValue(*(torch.cat(pair, dim=2) for pair in zip(past, new)))",
    )
    & edit(SHARE, REPEATED, f"({REPEATED}).contiguous().clone()"),
)

OTHERS = "the result is not contexts, weights and a cache"
CACHE, SECOND = "a wrong cache", "wrong with more than one step"
AHEAD, PLACED = "a later token has nonzero weight", "wrong only with positions"
CONTEXTS = "the weights are right, the contexts are wrong"


@wrong("grouped_queries", CACHE)
@with_part(Attention, "forward")
def keys_kept_turned(self, x, past=None):
    q, new = self.project(x)
    begin = 0 if past is None else past.key.size(2)
    if self.positions is not None:
        q = self.positions(q, begin)
        new = KeyValue(self.positions(new.key, begin), new.value)
    seen = self.join(past, new)
    weights = self.weigh(self.score(q, self.share(seen.key)))
    return self.finish(weights @ self.share(seen.value)), weights, seen


@wrong("grouped_queries", CACHE)
@with_part(Attention, "forward")
def keys_kept_repeated(self, x, past=None):
    q, new = self.project(x)
    seen = self.join(past, KeyValue(*map(self.share, new)))
    q, k = self.place(q, seen.key)
    weights = self.weigh(self.score(q, k))
    return self.finish(weights @ seen.value), weights, seen


@wrong("grouped_queries", SECOND, CACHE)
@with_part(Attention, "forward")
def turned_again_at_each_step(self, x, past=None):
    q, new = self.project(x)
    seen = self.join(past, new)
    q, k = self.place(q, seen.key)
    weights = self.weigh(self.score(q, self.share(k)))
    context = self.finish(weights @ self.share(seen.value))
    return context, weights, KeyValue(k, seen.value)


wrong_edits(
    "grouped_queries",
    Attention,
    groups_of_two=(
        edit(SHARE, REPEATED, "x.repeat_interleave(2, 1)[:, -self.num_heads :]"),
    ),
    groups_by_rounding=(
        edit(
            SHARE,
            REPEATED,
            "x[:, torch.linspace(0, x.size(1) - 1, self.num_heads, device=x.device)"
            ".round().long()]",
        ),
    ),
    mask_of_1024_tokens=(
        edit(
            WEIGH,
            "causal_mask(s, scores.device)",
            "causal_mask(1024, scores.device)[:, :s]",
        )
        & edit(WEIGH, "[s - t :]", "[s - t : s]"),
        "wrong for long inputs",
        "shapes do not match",
    ),
    hidden_by_a_large_number=(edit(WEIGH, "-math.inf", "-1e30"), AHEAD),
    weights_in_single_precision=(
        edit(WEIGH, "scores.masked_fill(", "scores.float().masked_fill(")
        & edit(WEIGH, "softmax(dim=-1)", "softmax(dim=-1).to(scores.dtype)"),
        "NaN in the outputs or gradients",
    ),
    dealt_out_in_turn=(
        edit(
            SHARE, REPEATED, "x.repeat(1, self.num_heads // self.num_key_heads, 1, 1)"
        ),
        "key heads repeated in the wrong order",
    ),
    all_heads_ask_the_first=(
        edit(SHARE, REPEATED, "x[:, :1].expand(-1, self.num_heads, -1, -1)"),
        "all heads use one head of keys",
    ),
    root_of_the_key_width=(
        edit(SCORE, "self.head_dim)", "self.head_dim * self.num_key_heads)"),
    ),
    mask_from_the_left=(edit(WEIGH, "[s - t :]", "[:t]"), SECOND),
    one_position_too_far=(
        edit(WEIGH, "~mask, -math.inf", "~mask.roll(-1, 0), -math.inf"),
        AHEAD,
    ),
    mask_for_many_tokens_alone=(
        edit(WEIGH, "~mask", "~mask if s == t else torch.zeros_like(mask)"),
        AHEAD,
        SECOND,
    ),
    new_before_old=(edit(JOIN, "past.extend(new)", "new.extend(past)"), SECOND, AHEAD),
    queries_after_the_keys=(
        edit(PLACE, "k.size(2) - q.size(2)", "k.size(2)"),
        PLACED,
    ),
    past_is_a_batch=(
        edit(PLACE, "k.size(2) - q.size(2)", "k.size(0) - q.size(0)"),
        "positions start at 0 in every step",
    ),
    keys_from_where_queries_are=(
        edit(PLACE, "self.positions(k)", "self.positions(k, k.size(2) - q.size(2))"),
        SECOND,
    ),
    values_of_the_queries=(
        edit(PROJECT, "self.value_proj(x)", "self.key_proj(x)"),
        CONTEXTS,
    ),
    split_by_view=(edit(SPLIT, CUT, "x.reshape(len(x), heads, -1, self.head_dim)"),),
    merged_by_view=(
        edit(
            FINISH,
            "context.transpose(1, 2).flatten(2)",
            "context.reshape(len(context), context.size(2), -1)",
        ),
        "heads merged by view, without transpose",
    ),
    mask_on_the_cpu=(
        edit(WEIGH, "causal_mask(s, scores.device)", "causal_mask(s)"),
        DEVICE,
    ),
    cache_second=(edit(FORWARD, "weights, seen", "seen, weights"), OTHERS),
)
