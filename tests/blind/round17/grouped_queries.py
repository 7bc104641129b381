import math

import torch
import torch.nn.functional as F
from torch import nn
from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong

GROUPS = "The query heads form G groups of equal size, in order: the first H / G heads are the first group."
FORMULA = r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts} v_{gs}, \qquad g = \lfloor h G / H \rfloor"
ATTEND = "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token."
PAST = "`past` is the cache that your module returned for the P tokens before x. Extend it by the new keys and values, and do not change `past` itself."
CACHE = "Return a cache with G heads of keys and values as the projections compute them."
PLAIN = "Do not repeat or rotate the keys and values in the cache."
STARTS = "The positions of the keys start at 0, and those of the queries start at P."
VALUES = "Do not rotate the values."
NUMBERS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."


class Base(nn.Module):
    """What the lab has already written."""

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


# ---------------------------------------------------------------- right answers


@right("no repeated keys: the queries get an axis for the groups, einsum does the rest")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        B, T, _ = x.shape
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        P = 0
        if past is not None:
            P, seen = past.key.size(2), past.extend(seen)
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        query = query.unflatten(1, (self.num_key_heads, -1))  # (B, G, H / G, T, Dh)
        scores = torch.einsum("bgrtd,bgsd->bgrts", query / math.sqrt(self.head_dim), key)
        scores = scores.masked_fill(~causal_mask(P + T, x.device)[P:], -math.inf)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, seen.value)
        return self.output_proj(context.flatten(2)), weights.flatten(1, 2), seen


@right("one query head after the other, with rows of the projection and of the output matrix")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, size = x.size(1), self.head_dim
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, size)).movedim(2, 1)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, size)).movedim(2, 1)
        if past is not None:
            key, value = torch.cat([past.key, key], 2), torch.cat([past.value, value], 2)
        P = key.size(2) - T
        late = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        total, weights = 0, []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            rows = slice(h * size, (h + 1) * size)
            query, own = x @ self.query_proj.weight[rows].T, key[:, g]
            if self.positions is not None:
                query, own = self.positions(query, past=P), self.positions(own, past=0)
            scores = torch.bmm(query, own.mT) * size**-0.5
            weights.append(scores.masked_fill(late, float("-inf")).softmax(-1))
            total = total + weights[-1] @ value[:, g] @ self.output_proj.weight[:, rows].T
        return total, torch.stack(weights, dim=1), KeyValue(key, value)


@right("picks a key head for each query head by its number, adds a mask, softmax by logsumexp")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T = x.shape[1]
        seen = KeyValue(*(
            self.split(proj(x), self.num_key_heads) for proj in (self.key_proj, self.value_proj)
        ))
        if past is not None:
            seen = past.extend(seen)
        S = seen.key.shape[-2]
        group = torch.arange(self.num_heads, device=x.device) * self.num_key_heads
        group = group // self.num_heads
        query, key = self.split(self.query_proj(x), self.num_heads), seen.key[:, group]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        ahead = torch.arange(S, device=x.device) > torch.arange(S - T, S, device=x.device)[:, None]
        add = torch.zeros(T, S, dtype=x.dtype, device=x.device).masked_fill(ahead, -torch.inf)
        scores = query @ key.transpose(-2, -1) / self.head_dim**0.5 + add
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
        context = (weights @ seen.value[:, group]).permute(0, 2, 1, 3)
        return self.output_proj(context.reshape(x.shape)), weights, seen


@right("all queries of a group as one long sequence, contexts from scaled_dot_product_attention")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        B, T, _ = x.shape
        G, R = self.num_key_heads, self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        new = KeyValue(self.split(self.key_proj(x), G), self.split(self.value_proj(x), G))
        seen = new if past is None else past.extend(new)
        S = seen.key.size(2)
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key)
        query = query.reshape(B, G, R * T, self.head_dim)
        mask = causal_mask(S, x.device)[S - T:].repeat(R, 1)  # (R * T, S)
        scores = (query @ key.mT).div(math.sqrt(self.head_dim)).masked_fill(~mask, -math.inf)
        context = F.scaled_dot_product_attention(query, key, seen.value, attn_mask=mask)
        context = context.reshape(B, self.num_heads, T, self.head_dim)
        weights = scores.softmax(dim=-1).reshape(B, self.num_heads, T, S)
        return self.output_proj(torch.cat(context.unbind(1), dim=-1)), weights, seen


# ---------------------------------------------------------------- wrong answers


@wrong("repeats the row of key heads with repeat",
       breaks=GROUPS, name="heads 0 and 2 share a key head")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key, value = key.repeat(1, R, 1, 1), seen.value.repeat(1, R, 1, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("divides the scores by the root of D",
       breaks=FORMULA, name="the scale is that of the whole width")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key, value = key.repeat_interleave(R, dim=1), seen.value.repeat_interleave(R, dim=1)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("rotates the queries from position 0 on",
       breaks=STARTS, name="the queries forget how long the past is")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query), self.positions(key)
        key, value = key.repeat_interleave(R, dim=1), seen.value.repeat_interleave(R, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("rotates the values like the keys when it computes the contexts",
       breaks=VALUES, name="rotated values")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key, value = seen
        if self.positions is not None:
            query = self.positions(query, P)
            key, value = self.positions(key), self.positions(value)
        key, value = key.repeat_interleave(R, dim=1), value.repeat_interleave(R, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("rotates the new keys once, at their positions, and keeps them rotated in the cache",
       breaks=PLAIN, name="the cache holds rotated keys, although all contexts are right")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        P = 0 if past is None else past.key.size(2)
        query = self.split(self.query_proj(x), self.num_heads)
        key = self.split(self.key_proj(x), self.num_key_heads)
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key, P)
        seen = KeyValue(key, self.split(self.value_proj(x), self.num_key_heads))
        if past is not None:
            seen = past.extend(seen)
        key, value = (part.repeat_interleave(R, dim=1) for part in seen)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("uses no mask when there is a past, as if a single token came after it",
       breaks=ATTEND, name="several new tokens after a past see each other")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        P = 0
        if past is not None:
            P, seen = past.key.size(2), past.extend(seen)
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key, value = key.repeat_interleave(R, dim=1), seen.value.repeat_interleave(R, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        if past is None:
            scores = scores.masked_fill(~causal_mask(T, x.device), -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("takes the softmax over all keys, sets later keys to zero and divides by the sum",
       breaks=NUMBERS, name="0 / 0 if a later key has by far the largest score")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key, value = key.repeat_interleave(R, dim=1), seen.value.repeat_interleave(R, dim=1)
        weights = (query @ key.mT / math.sqrt(self.head_dim)).softmax(dim=-1)
        weights = weights * causal_mask(P + T, x.device)[P:]
        weights = weights / weights.sum(dim=-1, keepdim=True)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("detaches the keys and values that it returns as the cache",
       breaks=GRADIENTS, name="no gradient flows through the cache to earlier tokens")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key, value = key.repeat_interleave(R, dim=1), seen.value.repeat_interleave(R, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, KeyValue(seen.key.detach(), seen.value.detach())


@wrong("computes the softmax in float32 and returns the weights as they are",
       breaks=DTYPE, name="the weights of bfloat16 vectors are float32")
class GroupedQueryAttention(Base):
    def forward(self, x, past=None):
        T, R = x.size(1), self.num_heads // self.num_key_heads
        query = self.split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        P = seen.key.size(2) - T
        key = seen.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key, value = key.repeat_interleave(R, dim=1), seen.value.repeat_interleave(R, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        precise = torch.promote_types(scores.dtype, torch.float32)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.to(precise).masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights.to(value.dtype) @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong("returns the new keys and values alone where the past is as long as the new part",
       breaks=PAST, name="placeholder")
class GroupedQueryAttention(Base):
    pass
