import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


def split_heads(x, num_heads):
    """Split each vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    """Concatenate the pieces of each vector: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


@right("folds the heads into the batch: all heads as B * H sentences of width Dh")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        H = self.num_heads
        q = split_heads(self.query_proj(query), H)
        k = split_heads(self.key_proj(key), H)
        v = split_heads(self.value_proj(value), H)
        B, _, T, width = q.shape
        S = k.size(2)
        if mask is not None:
            mask = mask.broadcast_to(B, T, S).repeat_interleave(H, dim=0)
        q, k, v = (z.reshape(B * H, -1, width) for z in (q, k, v))
        contexts, weights = attend(torch.bmm(q, k.transpose(1, 2)) / width**0.5, v, mask)
        contexts = contexts.view(B, H, T, width)
        return self.output_proj(merge_heads(contexts)), weights.view(B, H, T, S)


@right("one sentence after the other, all of its heads at once, softmax by hand")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        H = self.num_heads
        q = split_heads(self.query_proj(query), H)
        k = split_heads(self.key_proj(key), H)
        v = split_heads(self.value_proj(value), H)
        shape = (len(q), q.size(2), k.size(2))
        allowed = q.new_ones(shape, dtype=torch.bool) if mask is None else mask.expand(shape)
        rows = []
        for b in range(len(q)):
            scores = torch.einsum("htd,hsd->hts", q[b], k[b]) / math.sqrt(q.size(-1))
            scores = torch.where(allowed[b], scores, torch.finfo(scores.dtype).min)
            e = (scores - scores.amax(dim=-1, keepdim=True)).exp() * allowed[b]
            rows.append(e / e.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(e.dtype).tiny))
        weights = torch.stack(rows)
        return self.output_proj(merge_heads(weights @ v)), weights


@right("scales the queries before the product; mask always brought to four axes by reshape")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def _pieces(self, proj, x):
        return split_heads(proj(x), self.num_heads)

    def forward(self, query, key, value, mask=None, *, attend=attend):
        q = self._pieces(self.query_proj, query)
        q = q * (q.shape[-1] ** -0.5)
        k = self._pieces(self.key_proj, key)
        v = self._pieces(self.value_proj, value)
        if mask is not None:
            axes = (1,) * (3 - mask.dim()) + tuple(mask.shape)
            mask = mask.reshape(axes[0], 1, axes[1], axes[2])
        heads, weights = attend(torch.einsum("bhtd,bhsd->bhts", q, k), v, mask)
        return self.output_proj(merge_heads(heads)), weights


class _Softmax(nn.Module):
    """Softmax over the allowed entries of the last axis; 0 where there are none."""

    def forward(self, scores, allowed):
        nobody = ~allowed.any(-1, keepdim=True)
        filled = scores.masked_fill(~allowed & ~nobody, -torch.inf)
        return torch.softmax(filled, -1) * (~nobody).to(scores.dtype)


@right("a submodule without parameters for the masked softmax, contexts by einsum")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.query_proj, self.key_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.value_proj, self.output_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.softmax = _Softmax()

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(proj(x), self.num_heads)
            for proj, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        )
        scores = (q @ k.mT).div(math.sqrt(self.head_dim))
        if mask is None:
            mask = scores.new_ones((), dtype=torch.bool)
        elif mask.dim() == 3:
            mask = mask.unsqueeze(1)
        weights = self.softmax(scores, mask.broadcast_to(scores.shape))
        contexts = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "divides by the square root of D, not of Dh; wrong for H > 1 and S > 1",
    "Divide the scores by the square root of Dh, the width of the vectors that are multiplied.",
    "scaled by sqrt(D) instead of sqrt(Dh)",
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
        context, weights = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "returns the mean of the heads' weights, (B, T, S), as nn.MultiheadAttention does; wrong for every input",
    "Contexts (B, T, D), and the weights of every head (B, H, T, S).",
    "weights averaged over the heads",
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
        return self.output_proj(merge_heads(context)), weights.mean(dim=1)


@wrong(
    "gives a mask of three axes to the scores as it is: an error for (B, T, S), or for B = H the masks of the sentences go to the heads",
    "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the heads.",
    "mask without an axis for the heads",
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
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "views a mask of three axes as (B, 1, T, S): raises for a padding mask (B, 1, S) with T > 1, or for (1, T, S) with B > 1",
    "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the heads.",
    "mask must already be full size",
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
        B, H, T, S = scores.shape
        if mask is not None and mask.dim() == 3:
            mask = mask.reshape(B, 1, T, S)
        context, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "fills with -1e9 and takes a softmax: a query without any allowed key spreads its weights evenly",
    "If a query may not attend to anything, all its weights must be 0.",
    "query without keys gets uniform weights",
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
                mask = mask.unsqueeze(1)
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=-1)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "adds a float32 mask of 0 and -inf: in bfloat16 the scores become float32, and the product with the bfloat16 values raises; fine without a mask",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "float32 mask added to bfloat16 scores",
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
                mask = mask.unsqueeze(1)
            shut = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)
            nobody = ~mask.any(dim=-1, keepdim=True)
            scores = scores + shut.masked_fill(nobody, 0.0)
            weights = scores.softmax(dim=-1).masked_fill(nobody, 0.0)
        else:
            weights = scores.softmax(dim=-1)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "a loop over the heads, hidden in map; the numbers are right, but the work is done H times in turn for every H > 1",
    "Compute all heads at once. One point is for doing so without a loop over the heads.",
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

        def one(q, k, v):
            return attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)

        contexts, weights = zip(*map(one, q.unbind(1), k.unbind(1), v.unbind(1)))
        context = merge_heads(torch.stack(contexts, dim=1))
        return self.output_proj(context), torch.stack(weights, dim=1)


@wrong(
    "projects the values from the keys' vectors: right wherever key and value are the same tensor, wrong where they differ",
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values that belong to head h.",
    "ignores the argument value",
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
        k, v = (split_heads(p(key), self.num_heads) for p in (self.key_proj, self.value_proj))
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "divides by the square root of H: right where H = Dh, such as D = 16 with four heads",
    "Divide the scores by the square root of Dh, the width of the vectors that are multiplied.",
    "scaled by the number of heads",
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
        context, weights = attend(q @ k.mT / math.sqrt(q.size(1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "sets the contexts of queries without any key to 0 after the output projection: its bias is lost there",
    "Apply `output_proj`, which is $W^O$, last.",
    "zeroes contexts after the output projection",
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
        output = self.output_proj(merge_heads(context))
        nobody = (weights == 0).all(dim=-1).all(dim=1)  # (B, T)
        return output.masked_fill(nobody.unsqueeze(-1), 0.0), weights
