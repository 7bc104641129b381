import math

import torch
import torch.nn.functional as F
from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong
from torch import nn


class Given(nn.Module):
    """What the lab gives: the projections."""

    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions


@right("query heads on an axis of groups, einsum, nothing is repeated")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        b, t, d = x.shape
        g, r = self.num_key_heads, self.num_heads // self.num_key_heads
        q = self.query_proj(x).view(b, t, g * r, self.head_dim).permute(0, 2, 1, 3)
        k = self.key_proj(x).view(b, t, g, self.head_dim).permute(0, 2, 1, 3)
        v = self.value_proj(x).view(b, t, g, self.head_dim).permute(0, 2, 1, 3)
        seen, p = KeyValue(k, v), 0
        if past is not None:
            seen, p = past.extend(seen), past.key.shape[2]
        keys = seen.key
        if self.positions is not None:
            q, keys = self.positions(q, p), self.positions(keys, 0)
        q = q.reshape(b, g, r, t, self.head_dim)
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, keys) / math.sqrt(self.head_dim)
        places = torch.arange(p + t, device=x.device)
        scores = scores.masked_fill(places > places[p:, None], -torch.inf)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, seen.value)
        weights = weights.reshape(b, g * r, t, p + t)
        return self.output_proj(context.reshape(b, t, d)), weights, seen


@right("a loop over the query heads, each with the key head of its group")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        width = self.head_dim
        new = KeyValue(
            torch.stack(self.key_proj(x).split(width, dim=-1), dim=1),
            torch.stack(self.value_proj(x).split(width, dim=-1), dim=1),
        )
        before = 0 if past is None else past.key.shape[-2]
        seen = new if past is None else past.extend(new)
        allowed = causal_mask(before + x.shape[1], x.device)[before:]
        contexts, weights = [], []
        for h, q in enumerate(self.query_proj(x).split(width, dim=-1)):
            g = h * self.num_key_heads // self.num_heads
            k = seen.key[:, g]
            if self.positions is not None:
                q = self.positions(q, past=before)
                k = self.positions(k)
            scores = q @ k.mT * width**-0.5
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
            weights.append(scores.softmax(dim=-1))
            contexts.append(weights[-1] @ seen.value[:, g])
        context = self.output_proj(torch.cat(contexts, dim=-1))
        return context, torch.stack(weights, dim=1), seen


@right("one token after the other, so that no mask is needed")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        new = KeyValue(
            self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2),
            self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2),
        )
        seen = past.extend(new) if past is not None else new
        size, number = seen.key.shape[2], x.shape[1]
        place = self.positions if self.positions is not None else lambda y, _: y
        share = torch.arange(self.num_heads, device=x.device)
        share = share // (self.num_heads // self.num_key_heads)
        keys, values = place(seen.key, 0)[:, share], seen.value[:, share]
        queries = self.query_proj(x).unflatten(-1, (self.num_heads, -1))
        queries = place(queries.transpose(1, 2), size - number)
        contexts, weights = [], []
        for t in range(number):
            end = size - number + t + 1
            one = queries[:, :, t : t + 1]
            scores = one @ keys[:, :, :end].mT / math.sqrt(self.head_dim)
            row = scores.softmax(dim=-1)
            weights.append(F.pad(row, (0, size - end)))
            contexts.append((row @ values[:, :, :end]).transpose(1, 2).flatten(2))
        return self.output_proj(torch.cat(contexts, 1)), torch.cat(weights, 2), seen


@right("helper methods, expand instead of repeat_interleave, an additive mask")
class GroupedQueryAttention(Given):
    def heads(self, y):
        return y.reshape(*y.shape[:2], -1, self.head_dim).movedim(2, 1)

    def spread(self, y):
        times = self.num_heads // self.num_key_heads
        return y.unsqueeze(2).expand(-1, -1, times, -1, -1).flatten(1, 2)

    def forward(self, x, past=None, *, low=float("-inf")):
        cache = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        q, k, p = self.heads(self.query_proj(x)), None, 0
        if past is not None:
            p = past.value.shape[-2]
            cache = past.extend(cache)
        k = cache.key
        if self.positions is not None:
            q, k = self.positions(q, p), self.positions(k)
        hide = torch.full((x.shape[1], k.shape[-2]), low, device=x.device).triu(p + 1)
        scores = (q * self.head_dim**-0.5) @ self.spread(k).mT
        weights = F.softmax(scores + hide.to(scores.dtype), dim=-1)
        context = (weights @ self.spread(cache.value)).movedim(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "repeat repeats the whole row of heads, so head h uses key head h mod G; the"
    " same only for G = 1 and G = H",
    "The query heads form G groups of equal size, in order: the first H / G heads"
    " are the first group.",
    "repeat instead of repeat_interleave",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "divides by the root of D instead of Dh; wrong for more than one head",
    "\\alpha_{hts} = \\mathrm{softmax}_s \\frac{q_{ht}^\\top k_{gs}}{\\sqrt{D_h}},"
    " \\qquad c_{ht} = \\sum_s \\alpha_{hts} v_{gs}, \\qquad g = \\lfloor h G / H"
    " \\rfloor",
    "scales with the whole width",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(x.shape[-1])
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "rotates the new keys before they go into the cache and never again: contexts"
    " and weights are right, but the cache holds rotated keys",
    "Do not repeat or rotate the keys and values in the cache.",
    "rotated keys in the cache",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        before = 0 if past is None else past.key.shape[2]
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, before)
        cache = KeyValue(k, v)
        if past is not None:
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "a lower triangle of shape (T, P + T) begins at the left: with a past, new"
    " tokens see only the first keys, not themselves",
    "Let each token attend to itself and to all earlier tokens, including those"
    " of the past, but not to any later token.",
    "mask aligned with the first keys",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = torch.ones_like(scores, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "rotates the new queries from position 0 even if there is a past: wrong for"
    " every call with a past and rotary positions",
    "The keys have the positions from 0 on, and the queries have the positions"
    " from P on.",
    "queries start again at position 0",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "rotates without asking whether there are positions: an error if positions is"
    " None",
    "If `self.positions` is None, do not rotate anything.",
    "calls None",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "keeps its own cache of the last call and extends that one whenever a past is"
    " given, whichever it is: wrong if one past is continued twice or two texts"
    " take turns",
    "The result of a call must not depend on earlier calls or on other objects of"
    " the same class.",
    "continues its own last cache, not the given past",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            past = getattr(self, "last", past)
            before = past.key.shape[2]
            cache = past.extend(cache)
        self.last = cache
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "masks only if there is no past: right for whole texts and token by token,"
    " but several new tokens after a past see each other's future",
    "Let each token attend to itself and to all earlier tokens, including those"
    " of the past, but not to any later token.",
    "no mask as soon as there is a past",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        if past is None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "gives head h the key head h // G, which is h // (H / G) only if H is the"
    " square of G, as in the drawing with H = 4 and G = 2 (or for G = H = 1);"
    " elsewhere wrong heads",
    "The query heads form G groups of equal size, in order: the first H / G heads"
    " are the first group.",
    "divides the head by G, not by H / G",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        shared = torch.arange(self.num_heads, device=x.device) // self.num_key_heads
        shared = shared.clamp(max=self.num_key_heads - 1)
        k, v = k[:, shared], v[:, shared]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "concatenates without moving the heads behind the tokens: right for T = 1,"
    " otherwise the contexts of different tokens are mixed (later tokens reach"
    " earlier outputs)",
    "Concatenate the contexts of all heads, and apply `output_proj` to them.",
    "heads and tokens mixed when concatenating",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.shape[2]
            cache = past.extend(cache)
        k, v = cache.key, cache.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(k.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ v).reshape(x.shape)
        return self.output_proj(context), weights, cache
