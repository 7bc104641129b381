import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue
from blind import right, wrong


@right("query heads as (G, H / G) with einsum, nothing is repeated")
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
        G, T = self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (G, -1, self.head_dim))
        query = query.permute(0, 2, 3, 1, 4)  # (B, G, H / G, T, Dh)
        key = self.key_proj(x).unflatten(-1, (G, -1)).movedim(2, 1)
        value = self.value_proj(x).unflatten(-1, (G, -1)).movedim(2, 1)
        new = KeyValue(key, value)
        cache = new if past is None else past.extend(new)
        P = cache.key.size(2) - T
        turn = self.positions
        if turn is None:
            turn = lambda vectors, past=0: vectors
        scores = torch.einsum(
            "bgrtd,bgsd->bgrts",
            turn(query, P) * self.head_dim**-0.5,
            turn(cache.key),
        )
        later = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        weights = F.softmax(scores.masked_fill(later, -torch.inf), dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, cache.value)
        return self.output_proj(context.flatten(2)), weights.flatten(1, 2), cache


@right("a loop over the query heads, each with the key head h * G // H")
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
        H, G, width = self.num_heads, self.num_key_heads, self.head_dim
        queries = torch.stack(self.query_proj(x).split(width, dim=-1), dim=1)
        keys = torch.stack(self.key_proj(x).split(width, dim=-1), dim=1)
        values = torch.stack(self.value_proj(x).split(width, dim=-1), dim=1)
        everything = KeyValue(keys, values)
        P = 0
        if past is not None:
            P = past.key.shape[-2]
            everything = past.extend(everything)
        keys = everything.key
        if self.positions is not None:
            keys = self.positions(keys, 0)
            queries = self.positions(queries, P)
        place = torch.arange(keys.shape[-2], device=x.device)
        hidden = torch.zeros(x.shape[1], len(place), dtype=x.dtype, device=x.device)
        hidden = hidden.masked_fill(place > place[P:, None], float("-inf"))
        contexts, looks = [], []
        for h in range(H):
            g = h * G // H
            scores = queries[:, h] @ keys[:, g].transpose(1, 2) / width**0.5
            look = (scores + hidden).log_softmax(dim=-1).exp()
            looks.append(look)
            contexts.append(torch.bmm(look, everything.value[:, g]))
        context = self.output_proj(torch.cat(contexts, dim=-1))
        return context, torch.stack(looks, dim=1), everything


@right("one new token after another, each attends to a slice of the cache, so that no mask is needed")
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key = cache.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        rows, contexts = [], []
        for t in range(T):
            end = P + t + 1
            one = query[:, :, t].unflatten(1, (G, -1))  # (B, G, H / G, Dh)
            scores = one @ key[:, :, :end].mT / math.sqrt(self.head_dim)
            row = scores.softmax(dim=-1)
            contexts.append((row @ cache.value[:, :, :end]).flatten(1))
            rows.append(F.pad(row.flatten(1, 2), (0, P + T - end)))
        context = self.output_proj(torch.stack(contexts, dim=1))
        return context, torch.stack(rows, dim=2), cache


@right("queries of a group one below the other, rotated behind P rows of zeros")
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key = cache.key
        if self.positions is not None:
            key = self.positions(key)
            query = self.positions(F.pad(query, (0, 0, P, 0)))[:, :, P:]
        stacked = query.unflatten(1, (G, H // G)).flatten(2, 3)
        scores = torch.matmul(stacked, key.transpose(-2, -1)) / self.head_dim**0.5
        place = torch.arange(P + T, device=x.device)
        seen = (place <= place[P:, None]).repeat(H // G, 1)
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        context = (weights @ cache.value).unflatten(2, (H // G, T)).flatten(1, 2)
        weights = weights.unflatten(2, (H // G, T)).flatten(1, 2)
        return self.output_proj(context.transpose(1, 2).flatten(2)), weights, cache


@wrong(
    "repeats the whole row of key heads, so that heads 0 and 2 share a key head instead of heads 0 and 1",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat(1, H // G, 1, 1)
        value = value.repeat(1, H // G, 1, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "rotates the new keys before they go into the cache; contexts and weights are right",
    "Do not repeat or rotate the keys and values in the cache.",
    "rotated keys in the cache",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        P = 0 if past is None else past.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key, P)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value = cache.key, cache.value
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "divides the scores by the square root of D, the width of the inputs, instead of Dh",
    r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}",
    "scores divided by the square root of D",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(x.shape[-1])
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "rotates the queries from position 0 also when there is a past",
    "The positions of the keys start at 0, and those of the queries start at P.",
    "queries rotated from position 0",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "uses the causal mask only without a past, so that several new tokens after a past see each other's future",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "no mask when there is a past",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        if past is None:
            seen = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "computes the softmax in float32 and returns these weights in float32, whatever the dtype of x is",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "weights in float32",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.float().softmax(dim=-1)
        context = (weights.to(x.dtype) @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "puts the longer keys and values into the tensors of past and returns past itself",
    "Extend it by the new keys and values, and do not change `past` itself.",
    "past changed in place",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        P, cache = 0, KeyValue(key, value)
        if past is not None:
            P = past.key.shape[2]
            past.key.data = torch.cat([past.key.detach(), key.detach()], dim=2)
            past.value.data = torch.cat([past.value.detach(), value.detach()], dim=2)
            cache = past
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "keeps the mask as long as the number of keys is the same: a mask made for one new token after a past lets a later call with as many new tokens see the future",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "mask of an earlier call used again",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        kept = getattr(self, "seen", None)
        if kept is None or kept.shape[1] != P + T or kept.device != x.device:
            seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device)
            self.seen = seen.tril(P)
        scores = scores.masked_fill(~self.seen[-T:], -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "contexts are right, but the returned weights are ordered by the place in the group first: with H = 4 and G = 2, heads 1 and 2 are swapped",
    "The query heads form G groups of equal size, in order: the first H / G heads are the first group.",
    "returned weights in a different order of heads",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        query = query.unflatten(1, (G, -1)).transpose(1, 2)  # (B, H / G, G, T, Dh)
        scores = query @ key[:, None].mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ value[:, None]
        context = context.permute(0, 3, 2, 1, 4).flatten(2)
        return self.output_proj(context), weights.flatten(1, 2), cache


@wrong(
    "hides later tokens with a score of -10000 instead of minus infinity; if all earlier tokens have lower scores, the token attends to later ones",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "later tokens hidden with a finite score",
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.shape[2] - T
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        scores = scores.masked_fill(~seen, -1e4)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache
