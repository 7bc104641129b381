import math

import torch
import torch.nn.functional as F
from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong
from torch import nn

ORDER = "The query heads form G groups of equal size, in order: the first H / G heads are the first group."
CAUSAL = "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token."
PAST = "Extend it by the new keys and values, and do not change `past` itself."
CACHE = "Return a cache with G heads of keys and values as the projections compute them."
UNTOUCHED = "Do not repeat or rotate the keys and values in the cache."
PLACES = "The positions of the keys start at 0, and those of the queries start at P."
VALUES = "Do not rotate the values."
NONE = "If `self.positions` is None, do not rotate anything."
CONCAT = "Concatenate the contexts of all heads, and apply `output_proj` to the result."
RETURNS = "Contexts (B, T, D), weights (B, H, T, P + T), and the `KeyValue` of all P +"
FORMULA = r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts} v_{gs}, \qquad g = \lfloor h G / H \rfloor"
OVERFLOW = "An exponential, however, may overflow."
LARGE = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."


class Given(nn.Module):
    """The given lines of the lab, and steps that most answers share."""

    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def split(self, x, heads):
        return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)

    def project(self, x):
        new = KeyValue(self.split(self.key_proj(x), self.num_key_heads), self.split(self.value_proj(x), self.num_key_heads))
        return self.split(self.query_proj(x), self.num_heads), new

    def start(self, x, past):
        """Rotated queries, rotated keys, values, the cache and P."""
        q, new = self.project(x)
        cache = new if past is None else past.extend(new)
        before = cache.key.size(2) - x.size(1)
        k = cache.key
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        return q, k, cache.value, cache, before

    def widen(self, shared):
        return shared.repeat_interleave(self.num_heads // self.num_key_heads, dim=1)

    def scores(self, q, k):
        return q @ self.widen(k).mT / math.sqrt(self.head_dim)

    def hidden(self, x, before):
        return ~causal_mask(before + x.size(1), x.device)[before:]

    def finish(self, weights, values):
        return self.output_proj((weights @ self.widen(values)).transpose(1, 2).flatten(2))


@right("einsum over groups: queries (B, G, H / G, T, Dh), no repeated keys")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        q = q.unflatten(1, (self.num_key_heads, -1)) / math.sqrt(self.head_dim)
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, k)
        t = torch.arange(q.size(3), device=x.device)[:, None] + before
        late = torch.arange(k.size(2), device=x.device) > t
        weights = scores.masked_fill(late, -math.inf).softmax(dim=-1)
        c = torch.einsum("bgrts,bgsd->btgrd", weights, v)
        return self.output_proj(c.flatten(2)), weights.flatten(1, 2), cache


@right("a loop over the heads, each with the key head floor(h G / H)")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        late = torch.ones(x.size(1), k.size(2), dtype=torch.bool, device=x.device).triu(before + 1)
        contexts, all_weights = [], []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            scores = q[:, h] @ k[:, g].transpose(1, 2) * self.head_dim**-0.5
            all_weights.append(scores.masked_fill(late, -torch.inf).softmax(-1))
            contexts.append(all_weights[-1] @ v[:, g])
        return self.output_proj(torch.cat(contexts, -1)), torch.stack(all_weights, 1), cache


@right("keys and values by index; exp of the scores less their logsumexp; additive mask")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        heads = torch.arange(self.num_heads, device=x.device) * self.num_key_heads // self.num_heads
        bias = torch.full((x.size(1), k.size(2)), -torch.inf, dtype=q.dtype, device=x.device).triu(before + 1)
        scores = (q / math.sqrt(self.head_dim)).matmul(k[:, heads].mT).double() + bias
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp().to(x.dtype)
        contexts = weights.matmul(v[:, heads]).permute(0, 2, 1, 3).reshape(x.shape)
        return self.output_proj(contexts), weights, cache


@right("folds the heads of a group into the axis of the queries, and applies output_proj head by head")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        length, group = x.size(1), self.num_heads // self.num_key_heads
        rows = q.unflatten(1, (self.num_key_heads, group)).flatten(2, 3)
        seen = causal_mask(before + length, x.device)[before:].repeat(group, 1)
        scores = torch.where(seen, rows @ k.mT / math.sqrt(self.head_dim), -torch.inf)
        weights = F.softmax(scores, dim=-1)
        contexts = (weights @ v).unflatten(2, (group, length)).flatten(1, 2)
        maps = self.output_proj.weight.unflatten(1, (self.num_heads, self.head_dim))
        out = torch.einsum("bhtd,ohd->bto", contexts, maps)
        return out, weights.unflatten(2, (group, length)).flatten(1, 2), cache


@wrong("repeat instead of repeat_interleave: the heads 0, 2, ... share the first key head", breaks=ORDER, name="repeats the whole row of heads")
class GroupedQueryAttention(Given):
    def widen(self, shared):
        return shared.repeat(1, self.num_heads // self.num_key_heads, 1, 1)

    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        weights = self.scores(q, k).masked_fill(self.hidden(x, before), -math.inf).softmax(-1)
        return self.finish(weights, v), weights, cache


@wrong("uses the mask only without a past: several new tokens after a past see each other's future", breaks=CAUSAL, name="no mask with a past")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        scores = self.scores(q, k)
        if past is None:
            scores = scores.masked_fill(self.hidden(x, before), -math.inf)
        weights = scores.softmax(-1)
        return self.finish(weights, v), weights, cache


@wrong("keeps the rotated keys in the cache and rotates only new keys; the result is right, the cache is not", breaks=UNTOUCHED, name="rotated keys in the cache")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, new = self.project(x)
        before = 0 if past is None else past.key.size(2)
        if self.positions is not None:
            q, new = self.positions(q, before), KeyValue(self.positions(new.key, before), new.value)
        cache = new if past is None else past.extend(new)
        weights = self.scores(q, cache.key).masked_fill(self.hidden(x, before), -math.inf).softmax(-1)
        return self.finish(weights, cache.value), weights, cache


@wrong("rotates the queries from position 0 even if there is a past", breaks=PLACES, name="queries start at 0")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, new = self.project(x)
        cache = new if past is None else past.extend(new)
        k, before = cache.key, cache.key.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q), self.positions(k)
        weights = self.scores(q, k).masked_fill(self.hidden(x, before), -math.inf).softmax(-1)
        return self.finish(weights, cache.value), weights, cache


@wrong("hides later tokens with the score -10,000 instead of minus infinity: large negative scores lie below it", breaks=CAUSAL, name="-10,000 instead of minus infinity")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        weights = self.scores(q, k).masked_fill(self.hidden(x, before), -1e4).softmax(-1)
        return self.finish(weights, v), weights, cache


@wrong("masks after the softmax and divides by the sum: nan or 0 / 0 if a later token has by far the largest score", breaks=LARGE, name="mask after the softmax")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        weights = self.scores(q, k).softmax(-1).masked_fill(self.hidden(x, before), 0.0)
        weights = weights / weights.sum(-1, keepdim=True)
        return self.finish(weights, v), weights, cache


@wrong("returns a detached cache, so later tokens give no gradients to the projections of earlier ones", breaks=GRADIENTS, name="detached cache")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        weights = self.scores(q, k).masked_fill(self.hidden(x, before), -math.inf).softmax(-1)
        return self.finish(weights, v), weights, KeyValue(cache.key.detach(), cache.value.detach())


@wrong("takes the last cache of the module if no past is given: a second text continues the first", breaks=CALLS, name="remembers the last cache")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        if past is None and self.__dict__.get("last") is not None and self.last.key.size(0) == x.size(0):
            past = self.last
        q, k, v, cache, before = self.start(x, past)
        self.__dict__["last"] = cache
        weights = self.scores(q, k).masked_fill(self.hidden(x, before), -math.inf).softmax(-1)
        return self.finish(weights, v), weights, cache


@wrong("repeats each key head G times rather than H / G times: right only if H is the square of G, as in the lab's drawing", breaks=ORDER, name="groups of size G")
class GroupedQueryAttention(Given):
    def widen(self, shared):
        return shared.repeat_interleave(self.num_key_heads, dim=1)

    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        weights = self.scores(q, k).masked_fill(self.hidden(x, before), -math.inf).softmax(-1)
        return self.finish(weights, v), weights, cache


@wrong("computes the softmax in float32 and returns these weights, float32 for bfloat16 inputs", breaks=DTYPE, name="weights in float32")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q, k, v, cache, before = self.start(x, past)
        scores = self.scores(q, k).masked_fill(self.hidden(x, before), -math.inf)
        weights = scores.softmax(-1, dtype=torch.promote_types(x.dtype, torch.float32))
        return self.finish(weights.to(x.dtype), v), weights, cache
