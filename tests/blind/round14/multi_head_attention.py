import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
DIVIDE = (
    "Divide the scores by the square root of Dh, the width of the vectors that are"
    " multiplied."
)
LAST = "Apply `output_proj`, which is $W^O$, last."
AT_ONCE = "Compute all heads at once."
AXES = (
    "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the"
    " heads."
)
TWO = "A mask with two axes, (T, S), can be used as it is."
EMPTY = "If a query may not attend to anything, all its weights must be 0."
PIECES = (
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values"
    " that belong to head h."
)


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)



@right("casts weights and inputs to at least float32, einsum, softmax by hand")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        wide = torch.promote_types(query.dtype, torch.float32)

        def project(layer, x):
            return F.linear(x.to(wide), layer.weight.to(wide), layer.bias.to(wide))

        q, k, v = (
            split_heads(project(layer, x), self.num_heads)
            for layer, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        )
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask.expand(q.size(0), q.size(2), k.size(2)).unsqueeze(1)
            scores = scores.masked_fill(~mask, -math.inf)
        top = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(wide).min)
        powers = (scores - top).exp()
        total = powers.sum(-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1.0)
        merged = merge_heads(torch.einsum("bhts,bhsd->bhtd", weights, v))
        result = project(self.output_proj, merged)
        return result.to(query.dtype), weights.to(query.dtype)


@right("folds the heads into the batch, and repeats the mask for each head")
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
        batch, heads, length, width = q.shape
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        if mask is not None:
            mask = mask.expand(batch, length, k.size(1))
            mask = mask.repeat_interleave(heads, dim=0)
        contexts, weights = attend(torch.bmm(q, k.mT) / width**0.5, v, mask)
        contexts = contexts.unflatten(0, (batch, heads))
        weights = weights.unflatten(0, (batch, heads))
        return self.output_proj(merge_heads(contexts)), weights


@right("one query position at a time, but all heads at once; scales the queries")
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
        q = q / math.sqrt(self.output_proj.in_features // self.num_heads)
        if mask is not None:
            mask = mask.broadcast_to(q.size(0), q.size(2), k.size(2))
        contexts, weights = [], []
        for t in range(q.size(2)):
            allowed = None if mask is None else mask[:, None, t : t + 1]
            context, row = attend(q[:, :, t : t + 1] @ k.mT, v, allowed)
            contexts.append(context)
            weights.append(row)
        merged = merge_heads(torch.cat(contexts, dim=2))
        return self.output_proj(merged), torch.cat(weights, dim=2)


@right("projects each sentence of the batch by itself; blocked rows by a sink key")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        size = (query.size(0), query.size(1), key.size(1))
        if mask is None:
            mask = torch.ones(size, dtype=torch.bool, device=query.device)
        mask = mask.expand(size)
        contexts, weights = [], []
        for b in range(query.size(0)):
            q = split_heads(self.query_proj(query[b : b + 1]), self.num_heads)
            k = split_heads(self.key_proj(key[b : b + 1]), self.num_heads)
            v = split_heads(self.value_proj(value[b : b + 1]), self.num_heads)
            scores = (q @ k.mT) / math.sqrt(q.size(-1))
            scores = scores.masked_fill(~mask[b], -math.inf)
            # one more key, which is open only if all the others are closed
            sink = scores.new_zeros(mask[b].shape[:1])
            sink = sink.masked_fill(mask[b].any(-1), -math.inf)
            sink = sink[:, None].expand(*scores.shape[:-1], 1)
            row = torch.cat([sink, scores], dim=-1).softmax(-1)[..., 1:]
            contexts.append(merge_heads(row @ v))
            weights.append(row)
        return self.output_proj(torch.cat(contexts)), torch.cat(weights)


@wrong("divides the scores by the square root of D", DIVIDE, "scaled by the model's width")
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
        contexts, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "gives a mask with three axes no axis for the heads: it fails, or if B = H, heads"
    " are masked instead of sentences",
    AXES,
    "mask lacks the head axis",
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
            weights = scores.softmax(dim=-1)
        else:
            low = torch.finfo(scores.dtype).min
            weights = scores.masked_fill(~mask, low).softmax(dim=-1) * mask
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong("forgets output_proj", LAST, "output projection missing")
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
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return merge_heads(contexts), weights


@wrong(
    "computes the values from the keys, which is the same as long as both come from"
    " the same sequence",
    PIECES,
    "values computed from the keys",
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
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "computes one head after the other in a loop",
    AT_ONCE,
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
        pairs = [
            attend(q[:, h] @ k[:, h].mT / math.sqrt(q.size(-1)), v[:, h], mask)
            for h in range(self.num_heads)
        ]
        contexts = torch.stack([context for context, _ in pairs], dim=1)
        weights = torch.stack([weight for _, weight in pairs], dim=1)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "folds the heads into the batch, but repeats the masks in the wrong order, so"
    " sentences get each other's masks",
    AXES,
    "masks repeated in the wrong order",
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
        batch, heads, length, width = q.shape
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        if mask is not None and mask.dim() == 3:
            mask = mask.expand(batch, -1, -1).repeat(heads, 1, 1)
        contexts, weights = attend(q @ k.mT / math.sqrt(width), v, mask)
        contexts = contexts.unflatten(0, (batch, heads))
        weights = weights.unflatten(0, (batch, heads))
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "erases the result of a query that may not attend to anything, so output_proj is not"
    " the last step and its bias is lost there",
    LAST,
    "result erased after the output projection",
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
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        result = self.output_proj(merge_heads(contexts))
        if mask is not None:
            blocked = ~mask.any(dim=-1)  # (B, 1, T), (1, 1, T) or (T,)
            if mask.dim() == 4:
                blocked = blocked[:, 0]
            result = result.masked_fill(blocked[..., None], 0.0)
        return result, weights


@wrong(
    "adds -inf to forbidden scores and replaces nan by 0 afterwards: gradients become"
    " nan if a query may not attend to anything",
    GRAD,
    "nan gradients from fully masked rows",
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
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=q.dtype, device=q.device)
            scores = scores + bias.masked_fill(~mask, -math.inf)
        weights = torch.nan_to_num(scores.softmax(dim=-1))
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "treats a mask with two axes as a padding mask (B, S) if its first axis is as long"
    " as the batch, although it is (T, S)",
    TWO,
    "two-axis mask taken for padding mask",
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
        if mask is not None and mask.dim() == 2 and mask.size(0) == query.size(0) > 1:
            mask = mask[:, None, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "subtracts one maximum per sentence and head instead of one per query before the"
    " exponential, so queries with much lower scores lose all their weights",
    ALL,
    "maximum taken over all queries",
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
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        top = scores.detach().amax(dim=(-2, -1), keepdim=True)
        powers = (scores - top.clamp(min=torch.finfo(scores.dtype).min)).exp()
        total = powers.sum(dim=-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1.0)
        return self.output_proj(merge_heads(weights @ v)), weights
