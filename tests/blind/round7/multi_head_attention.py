import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend


def split_heads(x, num_heads):
    """Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    """Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)
from blind import right, wrong


@right('heads folded into the axis of sentences, batched matrix products')
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        batch, length, dim = query.shape
        heads, size = self.num_heads, key.shape[1]
        q = split_heads(self.query_proj(query), heads).flatten(0, 1)
        k = split_heads(self.key_proj(key), heads).flatten(0, 1)
        v = split_heads(self.value_proj(value), heads).flatten(0, 1)
        if mask is not None:
            mask = mask.broadcast_to(batch, length, size)
            mask = mask.repeat_interleave(heads, dim=0)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(dim // heads)
        context, weights = attend(scores, v, mask)
        context = merge_heads(context.unflatten(0, (batch, heads)))
        return self.output_proj(context), weights.unflatten(0, (batch, heads))


@right('einsum throughout, heads never transposed')
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        pieces = (self.num_heads, query.shape[-1] // self.num_heads)
        q = self.query_proj(query).unflatten(-1, pieces)
        k = self.key_proj(key).unflatten(-1, pieces)
        v = self.value_proj(value).unflatten(-1, pieces)
        scores = torch.einsum("bthd,bshd->bhts", q * pieces[1] ** -0.5, k)
        if mask is not None and mask.dim() > 2:
            mask = mask.unsqueeze(-3)
        _, weights = attend(scores, v.transpose(1, 2), mask)
        context = torch.einsum("bhts,bshd->bthd", weights, v).flatten(2)
        return self.output_proj(context), weights


@right('softmax by hand, with a mask of True where there is none')
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(proj(x), self.num_heads)
            for proj, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        )
        scores = q.matmul(k.mT).div(math.sqrt(q.size(-1)))
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=query.device)
        mask = mask.broadcast_to(scores[:, 0].shape)[:, None]
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
        weights = torch.where(mask, weights, torch.zeros_like(weights))
        return self.output_proj(merge_heads(weights @ v)), weights


@right('one linear map of width 3 D where all three inputs are the same tensor, three otherwise')
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        maps = [self.query_proj, self.key_proj, self.value_proj]
        if query is key and key is value:
            weight = torch.cat([m.weight for m in maps])
            bias = torch.cat([m.bias for m in maps])
            projected = F.linear(query, weight, bias).chunk(3, dim=-1)
        else:
            projected = [m(x) for m, x in zip(maps, (query, key, value))]
        q, k, v = [split_heads(x, self.num_heads) for x in projected]
        if mask is not None and mask.ndim == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT * q.size(-1) ** -0.5, v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'divides by the root of D instead of Dh: wrong whenever H > 1',
    'The scale is the root of the width that is multiplied, Dh.',
    'scale of the whole width',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'the merged contexts do not go through output_proj',
    'The three projections are named as in section 1, and $W^O$ is `output_proj`.',
    'output projection forgotten',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return merge_heads(context), weights


@wrong(
    'no axis for the heads in a mask (B, T, S): an error, or with B = H each head gets the mask of another sentence',
    'A mask (B, T, S) or (B, 1, S) needs an axis for the heads; a mask without an axis for sentences, (T, S), does not.',
    'mask without an axis for heads',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'an axis is put into every mask, also into (T, S): an error or a wrong mask unless T is 1',
    'A mask (B, T, S) or (B, 1, S) needs an axis for the heads; a mask without an axis for sentences, (T, S), does not.',
    'two-dimensional mask gets an axis',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None:
            mask = mask.unsqueeze(1)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'softmax over minus infinity: a query that may attend to nothing has weights NaN',
    'A query that may attend to nothing has weights of 0.',
    'NaN in fully masked rows',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            if mask.dim() == 3:
                mask = mask[:, None]
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    'keys and values are reshaped with the number of queries: an error in cross-attention with S other than T',
    'Queries and keys may come from two sequences, (B, T, D) and (B, S, D); then it is cross-attention.',
    'takes the keys to be as many as queries',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        batch, length, dim = query.shape
        shape = (batch, length, self.num_heads, dim // self.num_heads)
        q = self.query_proj(query).reshape(shape).transpose(1, 2)
        k = self.key_proj(key).reshape(shape).transpose(1, 2)
        v = self.value_proj(value).reshape(shape).transpose(1, 2)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'the first row of the mask is used for all queries: right for padding masks (B, 1, S), wrong for causal ones',
    'mask: True = may attend, (T, S) or broadcastable to (B, T, S); None allows everything.',
    'one mask row for all queries',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, :1].unsqueeze(1)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'the values are projected from the keys: right as long as key and value are the same tensor',
    '$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.',
    'values made from the keys',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(key), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "an axis is added where the mask's first axis is B: a mask (T, S) with T = B gets one, and a mask (1, T, S) is right by luck",
    'A mask (B, T, S) or (B, 1, S) needs an axis for the heads; a mask without an axis for sentences, (T, S), does not.',
    'tells masks apart by size instead of dimensions',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.size(0) == query.size(0):
            mask = mask.unsqueeze(1)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "keys of the same shape as the last ones are not projected again: a second source of the same shape is answered with the first one's keys",
    '$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.',
    'keeps old keys by their shape',
)
class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a narrow space of its own."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        if getattr(self, "seen", None) != key.shape:
            self.seen = key.shape
            self.keys = split_heads(self.key_proj(key), self.num_heads)
        q = split_heads(self.query_proj(query), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ self.keys.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights
