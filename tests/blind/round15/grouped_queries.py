import math

import torch
import torch.nn.functional as F
from torch import nn
from attention_course.attention import KeyValue
from blind import right, wrong

GROUPS = "The query heads form G groups of equal size, in order: the first H / G heads are the first group."
SOFTMAX = r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts} v_{gs}, \qquad g = \lfloor h G / H \rfloor"
CONCAT = "Concatenate the contexts of all heads, and apply `output_proj` to the result."
CAUSAL = "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token."
UNTOUCHED = "Do not repeat or rotate the keys and values in the cache."
ROTATE = "Before you compare queries and keys, rotate both with `self.positions`."
STARTS = "The positions of the keys start at 0, and those of the queries start at P."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
GRADIENTS = "Gradients must be right, too."


@right('repeat_interleave, tril mask')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@right('keeps the groups as an axis of their own, einsum, mask from positions')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        if past is None:
            P, cache = 0, KeyValue(key, value)
        else:
            P, cache = past.key.shape[2], past.extend(KeyValue(key, value))
        key = cache.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key, 0)
        query = query.unflatten(1, (self.num_key_heads, self.num_heads // self.num_key_heads))
        scores = torch.einsum("bgrtd,bgsd->bgrts", query / self.head_dim**0.5, key)
        places = torch.arange(key.size(2), device=x.device)
        later = places > places[P:, None]  # (T, P + T)
        weights = torch.softmax(torch.where(later, -torch.inf, scores), dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, cache.value)
        return self.output_proj(context.flatten(2)), weights.flatten(1, 2), cache


@right('a loop over the query heads, slices of the projections')
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
        width = self.head_dim

        def heads(projected):
            return torch.stack(projected.split(width, dim=-1), dim=1)

        new = KeyValue(heads(self.key_proj(x)), heads(self.value_proj(x)))
        cache = new if past is None else past.extend(new)
        length = cache.key.size(2)
        P = length - x.size(1)
        query, key = heads(self.query_proj(x)), cache.key
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        hidden = torch.zeros(x.size(1), length, dtype=x.dtype, device=x.device)
        hidden = hidden + torch.full_like(hidden, -torch.inf).triu(P + 1)
        contexts, weights = [], []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            scores = torch.matmul(query[:, h], key[:, g].transpose(1, 2)) * width**-0.5
            weights.append(F.softmax(scores + hidden, dim=-1))
            contexts.append(weights[-1] @ cache.value[:, g])
        return self.output_proj(torch.cat(contexts, -1)), torch.stack(weights, 1), cache


@right('expands the key heads, float64 inside, extends the cache by cat')
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
        H, G, width = self.num_heads, self.num_key_heads, self.head_dim
        query = self.query_proj(x).reshape(B, T, H, width).permute(0, 2, 1, 3)
        key = self.key_proj(x).reshape(B, T, G, width).permute(0, 2, 1, 3)
        value = self.value_proj(x).reshape(B, T, G, width).permute(0, 2, 1, 3)
        P = 0
        if past is not None:
            P = past.key.size(2)
            key, value = torch.cat([past.key, key], 2), torch.cat([past.value, value], 2)
        cache = KeyValue(key, value)
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)

        def shared(heads):  # (B, G, S, Dh) to (B, H, S, Dh)
            return heads[:, :, None].expand(-1, -1, H // G, -1, -1).flatten(1, 2).double()

        scores = query.double() @ shared(key).transpose(-2, -1) / width**0.5
        rows = torch.arange(P, P + T, device=x.device).view(T, 1)
        allowed = torch.arange(P + T, device=x.device) <= rows
        scores = scores - scores.masked_fill(~allowed, -torch.inf).amax(-1, True).detach()
        powers = scores.masked_fill(~allowed, -torch.inf).exp()
        weights = powers / powers.sum(-1, keepdim=True)
        context = (weights @ shared(value)).permute(0, 2, 1, 3).reshape(B, T, H * width)
        return self.output_proj(context.to(x.dtype)), weights.to(x.dtype), cache


@wrong('repeats the whole row of key heads, so heads 0 and 2 share', breaks=GROUPS, name='repeat instead of repeat_interleave')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('rotates the new keys first, and puts them into the cache like this', breaks=UNTOUCHED, name='rotated keys in the cache')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        P = 0 if past is None else past.key.size(2)
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key, P)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value = cache.key, cache.value
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('rotates the queries from position 0, although there is a past', breaks=STARTS, name='queries without past')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('leaves the mask out if there is a past, as if only one new token could come', breaks=CAUSAL, name='no mask with a cache')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        if past is None:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~seen, float("-inf"))
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('divides by the root of D instead of Dh', breaks=SOFTMAX, name='scale with the width of the model')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('reshapes (B, H, T, Dh) without moving the heads behind the tokens', breaks=CONCAT, name='missing transpose before the heads are joined')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).reshape(x.shape)
        return self.output_proj(context), weights, cache


@wrong('hides later tokens with -10,000, which is not small enough for large scores', breaks=CAUSAL, name='finite mask value')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, -1e4).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('returns weights in float32 for a bfloat16 x', breaks=DTYPE, name='weights not cast back')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(
            dim=-1, dtype=torch.promote_types(x.dtype, torch.float32)
        )
        context = (weights.to(value.dtype) @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong('detaches the cache that it returns: later tokens give earlier ones no gradient', breaks=GRADIENTS, name='cache without gradients')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, KeyValue(cache.key.detach(), cache.value.detach())


@wrong('rotates only the new keys, while those of the past stay as the cache holds them', breaks=ROTATE, name='keys of the past not rotated')
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
        query = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        P = cache.key.size(2) - x.size(1)
        key, value = cache.key, cache.value
        if self.positions is not None:
            query = self.positions(query, P)
            key = torch.cat([key[:, :, :P], self.positions(key[:, :, P:], P)], dim=2)
        times = self.num_heads // self.num_key_heads
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(P)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache
