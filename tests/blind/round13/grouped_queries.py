import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong


@right("einsum over a group axis, no key is ever repeated")
class GroupedQueryAttention(nn.Module):
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
        B, T, _ = x.shape
        G, M, Dh = (
            self.num_key_heads,
            self.num_heads // self.num_key_heads,
            self.head_dim,
        )
        query = self.query_proj(x).reshape(B, T, G, M, Dh).permute(0, 2, 3, 1, 4)
        key = self.key_proj(x).reshape(B, T, G, Dh).permute(0, 2, 1, 3)
        value = self.value_proj(x).reshape(B, T, G, Dh).permute(0, 2, 1, 3)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, P = cache.key, cache.key.shape[2] - T
        if self.positions is not None:
            query, key = self.positions(query, past=P), self.positions(key, past=0)
        scores = torch.einsum("bgmtd,bgsd->bgmts", query, key) * Dh**-0.5
        hidden = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        weights = F.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
        context = torch.einsum("bgmts,bgsd->btgmd", weights, cache.value)
        return (
            self.output_proj(context.reshape(B, T, -1)),
            weights.flatten(1, 2),
            cache,
        )


@right("a loop over the query heads, each rotated on its own as (B, T, Dh)")
class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def turned(self, x, first):
        return x if self.positions is None else self.positions(x, first)

    def forward(self, x, past=None):
        P = 0 if past is None else past.key.size(-2)
        mask = causal_mask(P + x.size(1), x.device)[P:]
        cache = KeyValue(
            torch.stack(self.key_proj(x).split(self.head_dim, dim=-1), dim=1),
            torch.stack(self.value_proj(x).split(self.head_dim, dim=-1), dim=1),
        )
        cache = cache if past is None else past.extend(cache)
        contexts, looked = [], []
        for h, query in enumerate(self.query_proj(x).split(self.head_dim, dim=-1)):
            g = h * self.num_key_heads // self.num_heads
            key = self.turned(cache.key[:, g], 0)
            scores = torch.bmm(self.turned(query, P), key.mT) / math.sqrt(self.head_dim)
            looked.append(torch.where(mask, scores, -math.inf).softmax(dim=-1))
            contexts.append(torch.bmm(looked[-1], cache.value[:, g]))
        context = self.output_proj(torch.cat(contexts, dim=-1))
        return context, torch.stack(looked, dim=1), cache


@right("everything after the projections in double precision, an additive mask")
class GroupedQueryAttention(nn.Module):
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
        query, key, value = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        query, key, value = query.double(), cache.key.double(), cache.value.double()
        earlier = key.size(2) - query.size(2)
        if self.positions is not None:
            query, key = self.positions(query, earlier), self.positions(key)
        which = torch.arange(self.num_heads, device=x.device)
        which = which * self.num_key_heads // self.num_heads
        key, value = key[:, which], value[:, which]
        bias = torch.zeros(query.size(2), key.size(2), device=x.device).double()
        bias = bias.masked_fill(~causal_mask(key.size(2), x.device)[earlier:], -math.inf)
        weights = (query / self.head_dim**0.5 @ key.mT + bias).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2).to(x.dtype)
        return self.output_proj(context), weights.to(x.dtype), cache


@right("the queries of a group as one long row of queries, a softmax of its own")
class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.group_size = num_heads // num_key_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        B, T, D = x.shape
        H, G, Dh = self.num_heads, self.num_key_heads, self.head_dim
        query = self.query_proj(x).reshape(B, T, H, Dh).transpose(1, 2)
        new = KeyValue(
            self.key_proj(x).reshape(B, T, G, Dh).transpose(1, 2),
            self.value_proj(x).reshape(B, T, G, Dh).transpose(1, 2),
        )
        everything = past.extend(new) if past is not None else new
        S = everything.key.size(2)
        key = everything.key
        if self.positions is not None:
            query = self.positions(query, S - T)
            key = self.positions(key, 0)
        rows = query.reshape(B, G, self.group_size * T, Dh)
        scores = (rows @ key.transpose(-1, -2) / math.sqrt(Dh)).reshape(B, H, T, S)
        at = torch.arange(S, device=x.device)
        scores = scores.masked_fill(at > at[S - T :, None], -math.inf)
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True).detach())
        weights = powers / powers.sum(dim=-1, keepdim=True)
        mixed = weights.reshape(B, G, self.group_size * T, S) @ everything.value
        mixed = mixed.reshape(B, H, T, Dh).permute(0, 2, 1, 3).reshape(B, T, D)
        return self.output_proj(mixed), weights, everything


@wrong(
    "repeats the whole row of key heads: with H = 4 and G = 2, head 1 uses key head 1",
    "The query heads form G groups of equal size, in order: the first H / G heads are the first group.",
    "repeat instead of repeat_interleave",
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "divides the scores by the root of D, the width of the model",
    r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts} v_{gs}, \qquad g = \lfloor h G / H \rfloor",
    "scaled by the wrong width",
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "views (B, T, D) as (B, H, T, Dh) without a transpose, which mixes tokens and heads"
    " as soon as T > 1 and the heads are more than one",
    "Project x to queries, keys and values with `query_proj`, `key_proj` and `value_proj`, and split each result into its heads.",
    "view instead of split and transpose",
)
class GroupedQueryAttention(nn.Module):
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
        B, T, D = x.shape
        q = self.query_proj(x).view(B, self.num_heads, T, self.head_dim)
        k = self.key_proj(x).view(B, self.num_key_heads, T, self.head_dim)
        v = self.value_proj(x).view(B, self.num_key_heads, T, self.head_dim)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).reshape(B, T, D)
        return self.output_proj(context), weights, seen


@wrong(
    "repeats each key head G times instead of H / G times: right for H = 4 and G = 2 (as"
    " in the drawing), for G = 1 and for G = H, but fails for H = 8 and G = 2",
    "The query heads form G groups of equal size, in order: the first H / G heads are the first group.",
    "number of groups confused with their size",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        if self.num_key_heads < self.num_heads:
            k = k.repeat_interleave(self.num_key_heads, dim=1)
            v = v.repeat_interleave(self.num_key_heads, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "rotates the new keys from position P on and stores them rotated: contexts and"
    " weights are right along its own caches, but the cache is not",
    "Do not repeat or rotate the keys and values in the cache.",
    "rotated keys in the cache",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
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
        T, P = x.size(1), 0 if past is None else past.key.size(2)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k, P)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        times = self.num_heads // self.num_key_heads
        k = seen.key.repeat_interleave(times, dim=1)
        v = seen.value.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "masks only without a past: with a past and two new tokens, the first of them"
    " attends to the second",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "no causal mask among several new tokens after a past",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if past is None:  # a token after a past may see everything
            scores = scores.masked_fill(~causal_mask(T, x.device), -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "keeps the largest mask so far and takes its last T rows and first S columns: after"
    " a call with 10 tokens, a call with 5 sees the future",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "stored mask cut in the wrong place",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions
        self.mask = None

    def forward(self, x, past=None):
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        S = k.size(2)
        if self.positions is not None:
            q, k = self.positions(q, S - T), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if self.mask is None or len(self.mask) < S or self.mask.device != x.device:
            self.mask = causal_mask(S, x.device)
        mask = self.mask[-T:, :S]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "hides later tokens with a score of -1e9: where all allowed scores are below that"
    " (say -1e10), the later tokens win",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "-1e9 instead of minus infinity",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "returns a detached cache: a loss on later tokens sends no gradient to the earlier"
    " ones",
    "Gradients must be right, too.",
    "cache cut off from the gradients",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        cache = KeyValue(seen.key.detach(), seen.value.detach())
        return self.output_proj(context), weights, cache


@wrong(
    "scales the keys in place: without rotation and with G = H nothing has copied them,"
    " so the returned cache holds keys that are divided by the root of Dh",
    "Return a cache with G heads of keys and values as the projections compute them.",
    "in-place division reaches the cache",
    subtle=True,
)
class GroupedQueryAttention(nn.Module):
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
        T = x.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        if self.num_key_heads != self.num_heads:
            times = self.num_heads // self.num_key_heads
            k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        k /= math.sqrt(self.head_dim)
        scores = q @ k.mT
        mask = causal_mask(P + T, x.device)[P:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen
