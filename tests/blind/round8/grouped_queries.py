import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def heads(self, x):
        """(B, T, heads * Dh) -> (B, heads, T, Dh)."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


@right("an axis for the members of a group, einsum, nothing is repeated")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        T, G = x.size(1), self.num_key_heads
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k = self.heads(self.query_proj(x)), seen.key
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k, 0)
        q = q.unflatten(1, (G, self.num_heads // G))
        e = torch.einsum("bgmtd,bgsd->bgmts", q, k) / math.sqrt(self.head_dim)
        keys = torch.arange(P + T, device=x.device)
        a = e.masked_fill(keys > keys[P:, None], -math.inf).softmax(-1)
        c = torch.einsum("bgmts,bgsd->btgmd", a, seen.value)
        return self.output_proj(c.flatten(2)), a.flatten(1, 2), seen


@right("a loop over the heads that ask; head h reads key head h * G // H")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        key = self.heads(self.key_proj(x))
        value = self.heads(self.value_proj(x))
        P = 0
        if past is not None:
            P = past.key.size(-2)
            key = torch.cat([past.key, key], dim=2)
            value = torch.cat([past.value, value], dim=2)
        turn = self.positions or (lambda vectors, start: vectors)
        q, k = turn(self.heads(self.query_proj(x)), P), turn(key, 0)
        later = ~causal_mask(key.size(2), x.device)[P:]
        contexts, weights = [], []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            e = (q[:, h] @ k[:, g].mT) * self.head_dim**-0.5
            weights.append(torch.softmax(e.masked_fill(later, float("-inf")), -1))
            contexts.append(weights[-1] @ value[:, g])
        out = self.output_proj(torch.cat(contexts, dim=-1))
        return out, torch.stack(weights, dim=1), KeyValue(key, value)


@right("shared heads picked by an index, additive mask of 0 and -inf")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        new = KeyValue(
            key=self.heads(self.key_proj(x)), value=self.heads(self.value_proj(x))
        )
        seen = past.extend(new) if past else new
        S, T = seen.key.size(2), x.size(1)
        q, k = self.heads(self.query_proj(x)), seen.key
        if self.positions:
            q, k = self.positions(q, past=S - T), self.positions(k)
        share = torch.arange(self.num_heads, device=x.device)
        share = share * self.num_key_heads // self.num_heads
        closed = torch.full((T, S), -torch.inf, device=x.device, dtype=x.dtype)
        e = q @ k[:, share].mT / math.sqrt(self.head_dim) + closed.triu(S - T + 1)
        a = F.softmax(e, dim=-1)
        c = (a @ seen.value[:, share]).permute(0, 2, 1, 3).reshape(x.shape)
        return self.output_proj(c), a, seen


@right("the members of a group stand behind each other on the axis of the queries")
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        B, T, D = x.shape
        G, P = self.num_key_heads, 0 if past is None else past.key.size(2)
        seen = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        if past is not None:
            seen = past.extend(seen)
        q, k = self.heads(self.query_proj(x)), seen.key
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        long = q.reshape(B, G, -1, self.head_dim)
        e = torch.matmul(long, k.mT).div(math.sqrt(self.head_dim))
        rows = causal_mask(P + T, x.device)[P:].repeat(self.num_heads // G, 1)
        a = e.where(rows, -torch.inf).softmax(dim=-1)
        c = (a @ seen.value).reshape(B, self.num_heads, T, self.head_dim)
        c = self.output_proj(c.transpose(1, 2).flatten(2))
        return c, a.reshape(B, self.num_heads, T, P + T), seen


@wrong(
    "repeats the row of key heads: heads 0 and G share a key head; right for G = 1 and G = H, wrong between",
    "The H heads form G groups of equal size, and the heads of a group stand side by side.",
    "repeat instead of repeat_interleave",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat(1, times, 1, 1)
        v = v.repeat(1, times, 1, 1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "the queries are turned from position 0 on although P tokens came before; right without a past",
    "Keys stand at the positions from 0 on, and queries at the positions from P on.",
    "queries ignore the past",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "divides by the root of D in place of Dh; wrong for H > 1",
    r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts} v_{gs}, \qquad g = \lfloor h G / H \rfloor",
    "scaled by the wrong width",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(x.size(-1))
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "the cache holds the turned keys, which are turned again at the next step; contexts without a past are right",
    "The cache holds G heads of keys and values, as the projections make them: not repeated, and not turned.",
    "turned keys in the cache",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        turned = k
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, KeyValue(turned, seen.value)


@wrong(
    "positions are always called: None raises",
    "If `self.positions` is None, nothing is turned.",
    "fails without positions",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "takes the first T rows of the mask: with a past, new tokens miss most of what came before",
    "A token may attend to itself and to all tokens before it, including those of the past.",
    "wrong rows of the causal mask",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[: x.size(1)]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "the mask is dropped when there is a past, since one new token may see everything: wrong for several new tokens after a past",
    "It may attend to nothing after it.",
    "no mask for several tokens after a past",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(x.size(1), x.device)
        if P > 0:
            mask = torch.ones_like(mask[:1, :1])
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "extends the past in place as well: the KeyValue that the caller holds for the P tokens grows to P + T, so a second continuation of it is wrong",
    "`past` is the cache that was returned for the P tokens before x, and `past.extend(new)` returns a longer one. Your code does not change `past`.",
    "past changed in place",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if past is not None:
            past.key.data, past.value.data = k.data, v.data
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "turns old keys only once: keeps the turned keys of the last call and turns the new ones alone; right while one text is written, wrong when another past of the same length comes (two texts in turn, new parameters)",
    "Queries and keys are turned by `self.positions(x, past)` before they are compared.",
    "stale turned keys",
)
class GroupedQueryAttention(Given):
    kept = None

    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, P)
            if P and self.kept is not None and self.kept.size(2) == P:
                k = torch.cat([self.kept, self.positions(new.key, P)], dim=2)
            else:
                k = self.positions(k)
            self.kept = k
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen


@wrong(
    "regroups the contexts by key head before the output map, (members, G) in place of (G, members): right for G = 1 and G = H, and the weights are right everywhere",
    "The contexts of all heads are concatenated and go through `output_proj`.",
    "contexts concatenated in another order",
)
class GroupedQueryAttention(Given):
    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(2)
        new = KeyValue(self.heads(self.key_proj(x)), self.heads(self.value_proj(x)))
        seen = new if past is None else past.extend(new)
        q, k, v = self.heads(self.query_proj(x)), seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat_interleave(times, dim=1)
        e = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        a = e.masked_fill(~mask, -math.inf).softmax(dim=-1)
        c = (a @ v).unflatten(1, (self.num_key_heads, times))
        c = c.transpose(1, 2).flatten(1, 2).transpose(1, 2).flatten(2)
        return self.output_proj(c), a, seen
