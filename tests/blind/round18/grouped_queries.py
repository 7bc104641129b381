import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong


@right("PyTorch's own attention with enable_gqa for the contexts, log_softmax for the weights, mask by comparing positions")
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        split = lambda y: y.unflatten(-1, (-1, self.head_dim)).movedim(-2, 1)
        query, key, value = (
            split(project(x)) for project in (self.query_proj, self.key_proj, self.value_proj)
        )
        cache = KeyValue(key, value)
        if past is not None:
            cache = KeyValue(
                torch.cat([past.key, key], dim=2), torch.cat([past.value, value], dim=2)
            )
        total, before = cache.key.shape[2], cache.key.shape[2] - x.shape[1]
        key = cache.key
        if self.positions is not None:
            query, key = self.positions(query, before), self.positions(key, 0)
        place = torch.arange(total, device=x.device)
        allowed = place[before:, None] >= place[None, :]
        context = F.scaled_dot_product_attention(
            query, key, cache.value, attn_mask=allowed, enable_gqa=True
        )
        group = torch.arange(self.num_heads, device=x.device) * self.num_key_heads
        copies = key.index_select(1, group // self.num_heads)
        scores = (query * self.head_dim**-0.5) @ copies.mT
        weights = torch.where(allowed, scores, -math.inf).log_softmax(dim=-1).exp()
        return self.output_proj(context.movedim(1, 2).flatten(2)), weights, cache


@right('no key is repeated: queries have an axis for their group, einsum over five axes')
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        groups, width = self.num_key_heads, self.head_dim
        query = self.query_proj(x).unflatten(-1, (groups, -1, width))  # (B, T, G, R, Dh)
        query = query.permute(0, 2, 3, 1, 4)
        new = KeyValue(
            self.key_proj(x).unflatten(-1, (groups, width)).permute(0, 2, 1, 3),
            self.value_proj(x).unflatten(-1, (groups, width)).permute(0, 2, 1, 3),
        )
        cache = new if past is None else past.extend(new)
        before = 0 if past is None else past.key.shape[-2]
        key = cache.key
        if self.positions is not None:
            query, key = self.positions(query, before), self.positions(key)
        scores = torch.einsum("bgrtd,bgsd->bgrts", query, key) / math.sqrt(width)
        hidden = ~causal_mask(key.shape[-2], x.device)[before:]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, cache.value)
        return self.output_proj(context.flatten(2)), weights.flatten(1, 2), cache


@right('a loop over the query heads, softmax by hand in float64')
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        width = self.head_dim
        queries = self.query_proj(x).split(width, dim=-1)  # H times (B, T, Dh)
        new = KeyValue(
            torch.stack(self.key_proj(x).split(width, dim=-1), dim=1),
            torch.stack(self.value_proj(x).split(width, dim=-1), dim=1),
        )
        cache = past.extend(new) if past is not None else new
        before = cache.key.shape[2] - x.shape[1]
        looked, contexts = [], []
        for h, query in enumerate(queries):
            g = h * self.num_key_heads // self.num_heads
            key, value = cache.key[:, g].double(), cache.value[:, g].double()
            query = query.double()
            if self.positions is not None:
                query, key = self.positions(query, before), self.positions(key)
            scores = query @ key.transpose(1, 2) / width**0.5
            visible = torch.ones_like(scores, dtype=torch.bool).tril(before)
            scores = scores.masked_fill(~visible, -math.inf)
            powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True).detach())
            looked.append(powers / powers.sum(dim=-1, keepdim=True))
            contexts.append(looked[-1] @ value)
        context = torch.cat(contexts, dim=-1).to(x.dtype)
        return self.output_proj(context), torch.stack(looked, dim=1).to(x.dtype), cache


@right('no mask at all: a loop over the new tokens, each of which gets only its own past')
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        batch, length, _ = x.shape
        groups, width = self.num_key_heads, self.head_dim
        key = self.key_proj(x).view(batch, length, groups, width).transpose(1, 2)
        value = self.value_proj(x).view(batch, length, groups, width).transpose(1, 2)
        cache = KeyValue(key, value) if past is None else past.extend(KeyValue(key, value))
        total = cache.key.shape[2]
        before = total - length
        query = self.query_proj(x).view(batch, length, self.num_heads, width).transpose(1, 2)
        key = cache.key
        if self.positions is not None:
            query, key = self.positions(query, before), self.positions(key)
        query = query.unflatten(1, (groups, -1))  # (B, G, R, T, Dh)
        contexts, looked = [], []
        for t in range(length):
            end = before + t + 1
            scores = query[:, :, :, t] @ key[:, :, :end].mT / math.sqrt(width)  # (B, G, R, s)
            weights = scores.softmax(dim=-1)
            contexts.append((weights @ cache.value[:, :, :end]).reshape(batch, -1))
            looked.append(F.pad(weights.flatten(1, 2), (0, total - end)))
        context = torch.stack(contexts, dim=1)
        return self.output_proj(context), torch.stack(looked, dim=2), cache


@wrong(
    'rotates each new key once, before it goes into the cache, and never again',
    breaks='Do not repeat or rotate the keys and values in the cache.',
    name='rotated keys in the cache',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        before = 0 if past is None else past.key.shape[2]
        if self.positions is not None:
            queries = self.positions(queries, before)
            new = KeyValue(self.positions(new.key, before), new.value)
        cache = new if past is None else past.extend(new)
        keys, values = cache
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'rotates the queries as if there were no past',
    breaks='The positions of the keys start at 0, and those of the queries start at P.',
    name='the queries forget the past',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'reshapes (B, H, T, Dh) to (B, T, D) without moving the heads back; right for one token or one head',
    breaks='Concatenate the contexts of all heads, and apply `output_proj` to the result.',
    name='heads and tokens mixed up',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).reshape(x.shape)
        return self.output_proj(context), weights, cache


@wrong(
    'rotates the values like the keys',
    breaks='Do not rotate the values.',
    name='rotated values',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
            values = self.positions(values)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'uses no mask if there is a past, as if a single token always came at a time',
    breaks='Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.',
    name='no mask after a past',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        if past is None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'adds -10,000 to the scores of later tokens; large scores outweigh that',
    breaks='Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode.',
    name='a mask that is not infinite',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = (scores + -10_000.0 * (~mask).to(scores.dtype)).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'keeps the last cache in the module and extends it, instead of the given past, if the shapes agree; wrong if two texts take turns',
    breaks='The result of a call must not depend on earlier calls or on other objects of the same class.',
    name='the module remembers the past',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        kept = getattr(self, "kept", None)
        if past is not None and kept is not None and kept.key.shape == past.key.shape:
            past = kept
        self.kept = cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'attends to detached copies of the past, so no gradient of the contexts reaches the earlier tokens',
    breaks='Gradients must be right, too.',
    name='the past is detached',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        if past is not None:
            keys = torch.cat([past.key.detach(), new.key], dim=2)
            values = torch.cat([past.value.detach(), new.value], dim=2)
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'head h uses key head h // G; right in the drawing, where H / G and G are both 2',
    breaks='The query heads form G groups of equal size, in order: the first H / G heads are the first group.',
    name='groups of G heads instead of G groups',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        group = torch.arange(self.num_heads, device=x.device) // self.num_key_heads
        keys, values = keys[:, group], values[:, group]
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    'in train mode, a tenth of the weights is dropped before they average the values',
    breaks='Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode.',
    name='dropout that nobody asked for',
)
class GroupedQueryAttention(nn.Module):
    """Let H query heads attend to G heads of keys and values."""

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
        """Let T tokens attend to themselves and to earlier tokens."""
        def heads(y, number):
            return y.unflatten(-1, (number, -1)).transpose(1, 2)

        queries = heads(self.query_proj(x), self.num_heads)
        new = KeyValue(
            heads(self.key_proj(x), self.num_key_heads),
            heads(self.value_proj(x), self.num_key_heads),
        )
        cache = new if past is None else past.extend(new)
        keys, values = cache
        before = keys.shape[2] - x.shape[1]
        if self.positions is not None:
            queries, keys = self.positions(queries, before), self.positions(keys)
        copies = self.num_heads // self.num_key_heads
        keys = keys.repeat_interleave(copies, dim=1)
        values = values.repeat_interleave(copies, dim=1)
        scores = queries @ keys.mT / math.sqrt(self.head_dim)
        mask = causal_mask(keys.shape[2], x.device)[before:]
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        kept = F.dropout(weights, 0.1, self.training)
        context = (kept @ values).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache
