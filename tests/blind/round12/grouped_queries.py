import math

import torch
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask

from blind import right, wrong


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@right("repeats nothing: the queries get an axis for the group, and einsum does the rest")
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = past.extend(new) if past is not None else new
        k, size = seen.key, seen.key.size(2)
        if self.positions is not None:
            q, k = self.positions(q, size - x.size(1)), self.positions(k)
        q = q.unflatten(1, (self.num_key_heads, -1))  # (B, G, H/G, T, Dh)
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, k) / self.head_dim**0.5
        seen_by = causal_mask(size, x.device)[-x.size(1) :]
        weights = scores.masked_fill(~seen_by, -math.inf).softmax(dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, seen.value)
        return self.output_proj(context.flatten(2)), weights.flatten(1, 2), seen


@right("a loop over the query heads, the cache by torch.cat")
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

    def _rotated(self, x, past):
        return x if self.positions is None else self.positions(x, past)

    def forward(self, x, past=None):
        number, length, _ = x.shape
        key = self.key_proj(x).view(number, length, self.num_key_heads, -1)
        value = self.value_proj(x).view(number, length, self.num_key_heads, -1)
        key, value = key.permute(0, 2, 1, 3), value.permute(0, 2, 1, 3)
        before = 0
        if past is not None:
            before = past.key.shape[2]
            key = torch.cat((past.key, key), dim=2)
            value = torch.cat((past.value, value), dim=2)
        queries = self.query_proj(x).split(self.head_dim, dim=-1)
        t = torch.arange(before, before + length, device=x.device)
        later = torch.arange(before + length, device=x.device) > t[:, None]
        contexts, maps = [], []
        for h, query in enumerate(queries):
            g = h * self.num_key_heads // self.num_heads
            q = self._rotated(query, before)
            k = self._rotated(key[:, g], 0)
            scores = torch.bmm(q, k.transpose(1, 2)) * self.head_dim**-0.5
            scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
            maps.append(scores.softmax(dim=-1).masked_fill(later, 0))
            contexts.append(torch.bmm(maps[-1], value[:, g]))
        out = self.output_proj(torch.cat(contexts, dim=-1))
        return out, torch.stack(maps, dim=1), KeyValue(key, value)


@right("float64 from the scores on; heads are picked by an index, and the mask is added")
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
        q = split(self.query_proj(x), self.num_heads)
        made = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            made = past.extend(made)
        total = made.value.size(-2)
        before = total - x.size(1)
        k = made.key
        if self.positions is not None:
            q = self.positions(q, past=before)
            k = self.positions(k, past=0)
        heads = torch.arange(self.num_heads, device=x.device)
        owner = heads * self.num_key_heads // self.num_heads
        k = k.index_select(1, owner).double()
        v = made.value.index_select(1, owner).double()
        hidden = torch.full(
            (x.size(1), total), -torch.inf, dtype=torch.float64, device=x.device
        ).triu(before + 1)
        weights = (q.double() @ k.mT / math.sqrt(self.head_dim) + hidden).softmax(-1)
        context = (weights @ v).to(x.dtype).transpose(1, 2).reshape(x.shape)
        return self.output_proj(context), weights.to(x.dtype), made


@right("one query after the other, each with the keys up to its own: no mask at all")
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
        q = split(self.query_proj(x), self.num_heads)
        cache = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        before = 0 if past is None else past.key.size(2)
        if past is not None:
            cache = past.extend(cache)
        k, v = cache
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        rows, contexts = [], []
        for t in range(x.size(1)):
            end = before + t + 1
            scores = (q[:, :, t, None] * k[:, :, :end]).sum(dim=-1)
            alpha = (scores / math.sqrt(self.head_dim)).softmax(dim=-1)
            contexts.append((alpha[..., None] * v[:, :, :end]).sum(dim=2).flatten(1))
            rows.append(nn.functional.pad(alpha, (0, x.size(1) - t - 1)))
        out = self.output_proj(torch.stack(contexts, dim=1))
        return out, torch.stack(rows, dim=2), cache


@wrong(
    "repeats the whole row of key heads (repeat instead of repeat_interleave): with H = 4 and G = 2, heads 0 and 2 share a key head",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        allowed = causal_mask(total, x.device)[before:]
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "has no causal mask",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "later tokens are seen",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        weights = (q @ k.mT / math.sqrt(self.head_dim)).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "rotates only the new keys, from P on, and keeps them so in the cache",
    "Do not repeat or rotate the keys and values in the cache.",
    "the cache has rotated keys",
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
        before = 0 if past is None else past.key.size(2)
        q = split(self.query_proj(x), self.num_heads)
        key = split(self.key_proj(x), self.num_key_heads)
        if self.positions is not None:
            q, key = self.positions(q, before), self.positions(key, before)
        new = KeyValue(key, split(self.value_proj(x), self.num_key_heads))
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        allowed = causal_mask(total, x.device)[before:]
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "divides the scores by the root of D, the width of all heads together",
    r"\alpha_{hts} = \mathrm{softmax}_s \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts} v_{gs}, \qquad g = \lfloor h G / H \rfloor",
    "scaled by the root of D instead of Dh",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        allowed = causal_mask(total, x.device)[before:]
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "takes the first T rows of the causal mask: with a past, the new tokens see only the beginning of it",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "the mask begins at position 0 although there is a past",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        allowed = causal_mask(total, x.device)[: x.size(1)]
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "uses no mask if there is a past, because a single token sees everything: two or more new tokens after a past see one another's future",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "no mask when several tokens follow a past",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if past is None:
            scores = scores.masked_fill(~causal_mask(total, x.device), -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "rotates the queries from position 0 even after a past",
    "The positions of the keys start at 0, and those of the queries start at P.",
    "the queries' positions ignore the past",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        allowed = causal_mask(total, x.device)[before:]
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "keeps the rotated keys of the last call on self and appends only the new ones if their number fits the past: after a call for another text of the same length, the keys of that text are used",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "rotated keys of an earlier call",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q = self.positions(q, before)
            kept = getattr(self, "rotated", None)
            if past is not None and kept is not None and kept.shape == past.key.shape:
                k = torch.cat([kept, self.positions(new.key, before)], dim=2)
            else:
                k = self.positions(k)
            self.rotated = k
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        allowed = causal_mask(total, x.device)[before:]
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "takes the softmax over all keys, sets later ones to zero and divides by the sum: if a later key scores 200 more than all earlier ones, this is 0 / 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "the mask comes after the softmax",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1) * causal_mask(total, x.device)[before:]
        weights = weights / weights.sum(dim=-1, keepdim=True)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "adds a float32 mask of zeros and minus infinity, which makes the weights of bfloat16 vectors float32; only the contexts are cast back",
    "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    "weights have the wrong dtype",
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
        q = split(self.query_proj(x), self.num_heads)
        new = KeyValue(
            split(self.key_proj(x), self.num_key_heads),
            split(self.value_proj(x), self.num_key_heads),
        )
        seen = new if past is None else past.extend(new)
        (k, v), total = seen, seen.key.size(2)
        before = total - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k)
        times = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        hidden = torch.full((x.size(1), total), -math.inf, device=x.device)
        scores = q @ k.mT / math.sqrt(self.head_dim) + hidden.triu(before + 1)
        weights = scores.softmax(dim=-1)
        context = (weights.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen
