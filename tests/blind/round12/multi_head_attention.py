import math

import torch
from torch import nn

from attention_course.attention import attend

from blind import right, wrong


# The notebook's own earlier answers; the package has no functions of these names.
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


# ---------------------------------------------------------------- right answers


@right("float64 between the projections, in an order of its own")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        v = split_heads(self.value_proj(value).double(), self.num_heads)
        k = split_heads(self.key_proj(key).double(), self.num_heads)
        q = split_heads(self.query_proj(query).double(), self.num_heads)
        scores = (k @ q.mT).mT * q.size(-1) ** -0.5
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        heads, weights = attend(scores, v, mask)
        merged = merge_heads(heads).to(query.dtype)
        return self.output_proj(merged), weights.to(query.dtype)


@right("einsum, and a softmax by hand with the largest score taken off")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def weigh(self, scores, mask):
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=scores.device)
        elif mask.dim() == 3:
            mask = mask[:, None]
        allowed = mask.expand(scores.shape)
        lowest = torch.finfo(scores.dtype).min
        top = torch.where(allowed, scores, lowest).amax(dim=-1, keepdim=True).detach()
        powers = torch.where(allowed, scores - top, -math.inf).exp()
        total = powers.sum(dim=-1, keepdim=True)
        return powers / (total + (total == 0))

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(proj(x), self.num_heads)
            for proj, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        )
        scores = torch.einsum("bhtd,bhsd->bhts", q, k / math.sqrt(k.size(-1)))
        weights = self.weigh(scores, mask)
        heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.output_proj(merge_heads(heads)), weights


@right("batch and heads as one axis, bmm; keeps the weights in an attribute")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)
        self.last_weights = None  # to look at, never read here

    def forward(self, query, key, value, mask=None):
        shape = (query.size(0), self.num_heads)
        q = split_heads(self.query_proj(query), self.num_heads).flatten(0, 1)
        k = split_heads(self.key_proj(key), self.num_heads).flatten(0, 1)
        v = split_heads(self.value_proj(value), self.num_heads).flatten(0, 1)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(2))  # (B H, T, S)
        if mask is not None:
            if mask.dim() == 3:
                mask = mask[:, None]
            mask = mask.expand(*shape, *scores.shape[1:]).flatten(0, 1)
        heads, weights = attend(scores, v, mask)
        weights = weights.unflatten(0, shape)
        self.last_weights = weights.detach().clone()
        return self.output_proj(merge_heads(heads.unflatten(0, shape))), weights


@right("one more column of scores, for queries that may attend to nothing; cut off again")
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
        root = q.size(-1) ** 0.25
        scores = (q / root) @ (k / root).mT
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask[:, None] if mask.dim() == 3 else mask
            allowed = mask.broadcast_to(scores.shape)
            nothing = ~allowed.any(dim=-1, keepdim=True)
            scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], dim=-1)
            allowed = torch.cat([allowed, nothing], dim=-1)
            scores = scores.masked_fill(~allowed, -math.inf)
            weights = scores.softmax(dim=-1)[..., :-1]
        return self.output_proj(merge_heads(weights @ v)), weights


# ---------------------------------------------------------------- wrong answers


@wrong(
    "divides by the root of D, not of Dh",
    "Divide the scores by the square root of Dh, the width of the vectors that are"
    " multiplied.",
    "scaled by D instead of Dh",
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
        scores = q @ k.mT / math.sqrt(query.size(-1))
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        heads, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "returns the merged heads without the last projection",
    "Apply `output_proj`, which is $W^O$, last.",
    "output_proj forgotten",
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
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        heads, weights = attend(scores, v, mask)
        return merge_heads(heads), weights


@wrong(
    "attends in a loop, one head after the other; all numbers are right",
    "Compute all heads at once. A loop over the heads costs one point.",
    "loop over the heads",
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
        heads, weights = [], []
        for h in range(self.num_heads):
            scores = q[:, h] @ k[:, h].mT / math.sqrt(q.size(-1))
            context, weight = attend(scores, v[:, h], mask)
            heads.append(context)
            weights.append(weight)
        merged = merge_heads(torch.stack(heads, dim=1))
        return self.output_proj(merged), torch.stack(weights, dim=1)


@wrong(
    "projects the keys to values: right as long as key and value are the same tensor",
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values"
    " that belong to head h.",
    "values made from the keys",
    subtle=True,
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
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        heads, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "inserts an axis into every mask: a mask (T, S) becomes (T, 1, S), which fails, or"
    " with H = T forbids the wrong things",
    "A mask with two axes, (T, S), can be used as it is.",
    "axis for the heads also in a mask (T, S)",
    subtle=True,
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
        if mask is not None:
            mask = mask[:, None]
        heads, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "repeats the masks of the batch H times and views them as (B, H, T, S): with B > 1"
    " and H > 1, heads get the masks of other sentences",
    "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the"
    " heads.",
    "masks of different sentences mixed",
    subtle=True,
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
        if mask is not None and mask.dim() == 3:
            b, h, t, s = scores.shape
            mask = mask.expand(b, t, s).repeat(h, 1, 1).view(b, h, t, s)
        heads, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "sets the weights of a query that may attend to nothing to 0 only after its context"
    " was computed, so that this is the mean of all values",
    "If a query may not attend to anything, all its weights must be 0.",
    "context of an empty row is the mean of the values",
    subtle=True,
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
        if mask is not None:
            if mask.dim() == 3:
                mask = mask[:, None]
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        output = self.output_proj(merge_heads(weights @ v))
        if mask is not None:
            weights = weights * mask
        return output, weights


@wrong(
    "sets the output of a query that may attend to nothing to 0, after output_proj: it"
    " should be the bias of output_proj",
    "Apply `output_proj`, which is $W^O$, last.",
    "output of an empty row set to 0",
    subtle=True,
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
        nothing = None if mask is None else ~mask.any(dim=-1, keepdim=True)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        heads, weights = attend(scores, v, mask)
        output = self.output_proj(merge_heads(heads))
        if nothing is not None:
            output = output.masked_fill(nothing, 0.0)
        return output, weights


@wrong(
    "inserts the axis of the heads into the caller's mask (unsqueeze_)",
    "Do not change the inputs.",
    "changes the shape of the mask",
    subtle=True,
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
        if mask is not None and mask.dim() == 3:
            mask.unsqueeze_(1)
        heads, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "computes exp of the scores as they are and adds 1e-9 to the sum: scores of 100 give"
    " NaN in float32, and where all scores are -50, the weights are nearly 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "softmax overflows",
    subtle=True,
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
        powers = (q @ k.mT / math.sqrt(q.size(-1))).exp()
        if mask is not None:
            powers = powers * (mask[:, None] if mask.dim() == 3 else mask)
        weights = powers / (powers.sum(dim=-1, keepdim=True) + 1e-9)
        return self.output_proj(merge_heads(weights @ v)), weights
