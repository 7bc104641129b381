import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right("einsum and float64 between split and merge")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads).double()
        k = split_heads(self.key_proj(key), self.num_heads).double()
        v = split_heads(self.value_proj(value), self.num_heads).double()
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * q.size(-1) ** -0.5
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        context, weights = attend(scores, v, mask)
        context = merge_heads(context).to(query.dtype)
        return self.output_proj(context), weights.to(query.dtype)


@right("folds the heads into the batch")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        (B, T, D), S, H = query.shape, key.size(1), self.num_heads
        q, k, v = (
            split_heads(project(x), H).flatten(0, 1)
            for project, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        )
        if mask is not None:
            mask = torch.broadcast_to(mask, (B, T, S)).repeat_interleave(H, dim=0)
        scores = torch.bmm(q, k.mT) / math.sqrt(D // H)
        context, weights = attend(scores, v, mask)
        context = merge_heads(context.unflatten(0, (B, H)))
        return self.output_proj(context), weights.unflatten(0, (B, H))


@right("own softmax, queries scaled before the product")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        B, T, S = query.size(0), query.size(1), key.size(1)
        if mask is None:
            mask = torch.ones(T, S, dtype=torch.bool, device=query.device)
        mask = torch.broadcast_to(mask, (B, T, S))[:, None]
        alive = mask.any(dim=-1, keepdim=True)
        q = split_heads(self.query_proj(query), self.num_heads)
        q = q / torch.tensor(q.size(-1), dtype=torch.float64).sqrt()
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        scores = (k @ q.mT).mT.masked_fill(~(mask | ~alive), -math.inf)
        weights = scores.softmax(-1).masked_fill(~alive, 0)
        return self.output_proj(merge_heads(weights @ v)), weights


@right("vmap over the axis of the heads")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        B, T, S = query.size(0), query.size(1), key.size(1)
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=query.device)
        mask = torch.broadcast_to(mask, (B, T, S))

        def one_head(q, k, v):
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
            lowest = torch.finfo(scores.dtype).min
            weights = torch.where(mask, scores, lowest).softmax(-1)
            weights = torch.where(mask, weights, 0.0)
            return weights @ v, weights

        context, weights = torch.vmap(one_head, in_dims=1, out_dims=1)(
            split_heads(self.query_proj(query), self.num_heads),
            split_heads(self.key_proj(key), self.num_heads),
            split_heads(self.value_proj(value), self.num_heads),
        )
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "divides by the square root of D; right for one head",
    breaks="Divide the scores by the square root of Dh, the width of the vectors that are multiplied.",
    name="scaled by D instead of Dh",
)
class MultiHeadAttention(nn.Module):
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
        scores = q @ k.mT / math.sqrt(query.size(-1))
        context, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "takes a mask (T, S) for one with a batch axis where T equals B",
    breaks="A mask with two axes, (T, S), can be used as it is.",
    name="head axis inserted by size, not by number of axes",
)
class MultiHeadAttention(nn.Module):
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
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "makes the values from the keys; right where both are the same",
    breaks="$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values that belong to head h.",
    name="argument value ignored",
)
class MultiHeadAttention(nn.Module):
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
    "reshapes keys and values with the length of the queries",
    breaks="The queries (B, T, D) may come from one sequence, and the keys and values (B, S, D) from a second one.",
    name="cross-attention with another length fails",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        (B, T, D), H = query.shape, self.num_heads
        shape = (B, T, H, D // H)
        q = self.query_proj(query).reshape(shape).transpose(1, 2)
        k = self.key_proj(key).reshape(shape).transpose(1, 2)
        v = self.value_proj(value).reshape(shape).transpose(1, 2)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(D // H), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "merges the contexts without swapping the axes back",
    breaks="Use your `split_heads` and `merge_heads`.",
    name="reshape instead of merge",
)
class MultiHeadAttention(nn.Module):
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
        return self.output_proj(context.reshape(query.shape)), weights


@wrong(
    "sets the result to zero where nothing is allowed, so the bias of the output is lost",
    breaks="Apply `output_proj`, which is $W^O$, last.",
    name="result zeroed after the output projection",
)
class MultiHeadAttention(nn.Module):
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
        if mask is None:
            context, weights = attend(scores, v)
            return self.output_proj(merge_heads(context)), weights
        mask = torch.broadcast_to(mask, (query.size(0), query.size(1), key.size(1)))
        context, weights = attend(scores, v, mask[:, None])
        result = self.output_proj(merge_heads(context))
        return result.masked_fill(~mask.any(-1, keepdim=True), 0), weights


@wrong(
    "forbidden scores become -10000, which an allowed score may be far below",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="mask value too large",
)
class MultiHeadAttention(nn.Module):
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
        if mask is None:
            weights = scores.softmax(-1)
        else:
            mask = mask[:, None] if mask.dim() == 3 else mask
            weights = scores.masked_fill(~mask, -1e4).softmax(-1)
            weights = weights.masked_fill(~mask, 0)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "treats the keys as constants",
    breaks="Gradients must be right, too.",
    name="no gradient for the keys",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key.detach()), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "one head after the other",
    breaks="Compute all heads at once.",
    name="loop over the heads",
)
class MultiHeadAttention(nn.Module):
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
        heads = [
            attend(q[:, h] @ k[:, h].mT / math.sqrt(q.size(-1)), v[:, h], mask)
            for h in range(self.num_heads)
        ]
        context = torch.stack([context for context, _ in heads], dim=1)
        weights = torch.stack([weights for _, weights in heads], dim=1)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "drops a tenth of the weights in train mode",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="dropout in train mode",
)
class MultiHeadAttention(nn.Module):
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
        _, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        context = F.dropout(weights, 0.1, self.training) @ v
        return self.output_proj(merge_heads(context)), weights
