import math

import torch
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong


@right('heads stay in groups: the queries get an axis for the group, nothing is repeated')
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        g, size = self.num_key_heads, self.head_dim
        q = self.query_proj(x).unflatten(-1, (self.num_heads, size)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (g, size)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (g, size)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        keys = seen.key
        if self.positions is not None:
            q, keys = self.positions(q, before), self.positions(keys, 0)
        q = q.unflatten(1, (g, -1)) / size**0.5
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, keys)
        mask = causal_mask(seen.key.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, seen.value).flatten(2)
        return self.output_proj(context), weights.flatten(1, 2), seen


@right('loop over the heads that ask, each picks its key head by index')
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        batch, length, _ = x.shape
        heads = (self.num_key_heads, self.head_dim)
        new = KeyValue(
            self.key_proj(x).view(batch, length, *heads).transpose(1, 2),
            self.value_proj(x).view(batch, length, *heads).transpose(1, 2),
        )
        seen, before = new, 0
        if past is not None:
            seen, before = past.extend(new), past.key.shape[2]
        turn = self.positions if self.positions is not None else lambda y, past=0: y
        q = self.query_proj(x).view(batch, length, self.num_heads, self.head_dim)
        q, keys = turn(q.transpose(1, 2), before), turn(seen.key)
        s = torch.arange(before + length, device=x.device)
        later = s > s[before:].unsqueeze(1)
        contexts, weights = [], []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            scores = q[:, h] @ keys[:, g].mT / math.sqrt(self.head_dim)
            weight = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
            weights.append(weight)
            contexts.append(weight @ seen.value[:, g])
        context = self.output_proj(torch.cat(contexts, dim=-1))
        return context, torch.stack(weights, dim=1), seen


@right('expand and reshape instead of repeat_interleave, softmax by hand')
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def _split(self, x, heads):
        return x.unflatten(-1, (heads, self.head_dim)).permute(0, 2, 1, 3)

    def _spread(self, x):
        batch, g, length, size = x.shape
        r = self.num_heads // g
        return x[:, :, None].expand(batch, g, r, length, size).flatten(1, 2)

    def forward(self, x, past=None):
        q = self._split(self.query_proj(x), self.num_heads)
        seen = KeyValue(
            key=self._split(self.key_proj(x), self.num_key_heads),
            value=self._split(self.value_proj(x), self.num_key_heads),
        )
        if past is not None:
            seen = past.extend(seen)
        before = seen.key.shape[2] - x.shape[1]
        k = seen.key
        if self.positions is not None:
            q = self.positions(q, past=before)
            k = self.positions(k, past=0)
        scores = q.matmul(self._spread(k).mT).mul(self.head_dim**-0.5)
        mask = causal_mask(seen.key.shape[2], x.device)[before:]
        lowest = torch.finfo(scores.dtype).min
        scores = torch.where(mask, scores, torch.full_like(scores, lowest))
        powers = (scores - scores.amax(-1, keepdim=True)).exp() * mask
        weights = powers / powers.sum(-1, keepdim=True)
        context = (weights @ self._spread(seen.value)).permute(0, 2, 1, 3).flatten(2)
        return self.output_proj(context), weights, seen


@right('an index of the key head for each head; queries are scaled before the product')
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        h, g = self.num_heads, self.num_key_heads
        key_head = torch.arange(h, device=x.device) * g // h
        q, k, v = (
            proj(x).unflatten(-1, (n, -1)).movedim(2, 1)
            for proj, n in ((self.query_proj, h), (self.key_proj, g), (self.value_proj, g))
        )
        cache = KeyValue(k, v)
        cache = cache if past is None else past.extend(cache)
        size = cache.key.size(2)
        first = size - x.size(1)
        k = cache.key.index_select(1, key_head)
        if self.positions is not None:
            q, k = self.positions(q, first), self.positions(k)
        scores = (q * self.head_dim**-0.5) @ k.transpose(-1, -2)
        blocked = ~causal_mask(size, x.device).narrow(0, first, x.size(1))
        weights = torch.softmax(scores.masked_fill(blocked, -torch.inf), dim=-1)
        context = weights @ cache.value.index_select(1, key_head)
        return self.output_proj(context.movedim(1, 2).flatten(-2)), weights, cache


@wrong(
    'the whole row of key heads is repeated: with 1 < G < H heads ask the wrong key heads',
    'The heads form G groups of equal size, and the heads of a group stand side by side: with H = 4 and G = 2, heads 0 and 1 ask key head 0, and heads 2 and 3 ask key head 1:',
    'repeat instead of repeat_interleave',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, before)
            keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat(1, group, 1, 1)
        values = values.repeat(1, group, 1, 1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'queries are turned from position 0 on also after a past',
    'Keys stand at the positions from 0 on, and queries at the positions from P on.',
    'queries turned without the past',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q)
            keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'a token sees the tokens after it: no mask, wrong for T > 1',
    'It may attend to nothing after it.',
    'causal mask forgotten',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, before)
            keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'the mask is that of the new tokens alone: an error for several new tokens after a past, and right for one',
    'A token may attend to itself and to all tokens before it, those of the past included.',
    'mask leaves out the past',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, before)
            keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(x.size(1), x.device)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'positions are always called: an error if there are none',
    'If `self.positions` is None, nothing is turned.',
    'fails without positions',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        q = self.positions(q, before)
        keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'exponentials without the largest score subtracted: NaN for large inputs',
    'Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.',
    'softmax overflows on large scores',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, before)
            keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        powers = scores.exp() * mask
        weights = powers / powers.sum(dim=-1, keepdim=True)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'heads are not repeated but broadcast: right for G = 1 and G = H, an error in between',
    'In grouped-query attention H heads ask, but there are only G heads of keys and values.',
    'works for G = 1 and G = H only',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, before)
            keys = self.positions(keys)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'new keys are turned once and kept turned in the cache: contexts and weights are right in all calls, the cache is not what the projections made',
    'The cache holds G heads of keys and values, as the projections make them: not repeated, and not turned.',
    'turned keys in the cache',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        before = 0 if past is None else past.key.size(2)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, before)
        seen = KeyValue(k, v)
        if past is not None:
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    'queries stand from 0 on and keys from -P on: for rotary positions the scores depend on distances alone and are right, for other positions they are wrong',
    'Keys stand at the positions from 0 on, and queries at the positions from P on.',
    'places shifted, right only for relative positions',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = past.extend(seen)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, 0)
            keys = self.positions(keys, -before)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "the cache is the module's own: if a past is given, what the module remembered in its last call is extended; wrong if texts are written in turns or rows of a cache are picked",
    '`past` is the cache that was returned for the P tokens before x, and `past.extend(new)` appends to it.',
    'own state instead of the given past',
)
class GroupedQueryAttention(nn.Module):
    """Let H heads ask G heads of keys and values."""

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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen, before = KeyValue(k, v), 0
        if past is not None:
            before = past.key.size(2)
            seen = getattr(self, "last", past).extend(seen)
            before = seen.key.size(2) - x.size(1)
        self.last = seen
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q = self.positions(q, before)
            keys = self.positions(keys)
        group = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = q @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.size(2), x.device)[before:]
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen
