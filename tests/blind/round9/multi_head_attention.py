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


@right("einsum on (B, T, H, Dh) without any transpose; softmax by hand for masked rows")
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
        q = self.query_proj(query).unflatten(-1, (H, -1))
        k = self.key_proj(key).unflatten(-1, (H, -1))
        v = self.value_proj(value).unflatten(-1, (H, -1))
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.size(-1))
        if mask is not None:
            while mask.dim() < 3:
                mask = mask[None]
            mask = mask.unsqueeze(1)
            empty = ~mask.any(-1, keepdim=True)
            weights = scores.masked_fill(~(mask | empty), -torch.inf).softmax(-1)
            weights = weights.masked_fill(empty, 0)
        else:
            weights = scores.softmax(-1)
        contexts = torch.einsum("bhts,bshd->bthd", weights, v)
        return self.output_proj(contexts.flatten(2)), weights


@right("folds the heads into the batch axis and uses bmm")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        B, T, D = query.shape
        S, H = key.size(1), self.num_heads
        Dh = D // H

        def fold(x):
            return x.reshape(B, -1, H, Dh).permute(0, 2, 1, 3).reshape(B * H, -1, Dh)

        q = fold(self.query_proj(query))
        k = fold(self.key_proj(key))
        v = fold(self.value_proj(value))
        if mask is not None:
            mask = torch.broadcast_to(mask, (B, T, S)).repeat_interleave(H, dim=0)
        contexts, weights = attend(torch.bmm(q, k.mT) * Dh**-0.5, v, mask)
        contexts = contexts.reshape(B, H, T, Dh).permute(0, 2, 1, 3).reshape(B, T, D)
        return self.output_proj(contexts), weights.reshape(B, H, T, S)


@right("output projection per head, summed over the heads, instead of merging first")
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
        if mask is not None and mask.ndim == 3:
            mask = mask.unsqueeze(-3)
        heads, weights = attend((q / q.shape[-1] ** 0.5) @ k.mT, v, mask)
        out = self.output_proj.weight.unflatten(1, (self.num_heads, -1))  # (D, H, Dh)
        contexts = torch.einsum("bhtd,ohd->bto", heads, out) + self.output_proj.bias
        return contexts, weights


@right("a subclass of a small base class with the projections in a helper; the mask as an added 0 / -inf, checked by row")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        for name in ("query", "key", "value", "output"):
            self.add_module(f"{name}_proj", nn.Linear(dim, dim, bias=bias))

    def _heads(self, proj, x):
        batch, length, _ = x.shape
        pieces = proj(x).reshape(batch, length, self.num_heads, -1)
        return torch.movedim(pieces, 2, 1)

    def forward(self, query, key, value, mask=None):
        q = self._heads(self.query_proj, query)
        k = self._heads(self.key_proj, key)
        v = self._heads(self.value_proj, value)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask if mask.dim() == 2 else mask.unsqueeze(1)
            mask = mask.expand(scores.shape)
            forbidden = scores.new_zeros(()).expand(scores.shape)
            forbidden = forbidden.masked_fill(~mask, -torch.inf)
            blind_rows = (~mask).all(dim=-1, keepdim=True)
            forbidden = torch.where(blind_rows, 0.0, forbidden)
            weights = F.softmax(scores + forbidden, dim=-1)
            weights = torch.where(blind_rows, 0.0, weights).to(scores.dtype)
        else:
            weights = F.softmax(scores, dim=-1)
        merged = torch.movedim(weights @ v, 1, 2).reshape(query.shape)
        return self.output_proj(merged), weights


@wrong(
    "divides the scores by the square root of D, the width of the model",
    "Divide the scores by the square root of Dh, the width of the vectors that are multiplied.",
    "scales by the model's width",
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
        contexts, weights = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "returns the merged contexts without the output projection",
    "Apply `output_proj`, which is $W^O$, last.",
    "output_proj is missing",
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
        return merge_heads(contexts), weights


@wrong(
    "the right numbers, but a loop over the heads",
    "Compute all heads at once.",
    "loops over the heads",
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
        qs = self.query_proj(query).chunk(self.num_heads, -1)
        ks = self.key_proj(key).chunk(self.num_heads, -1)
        vs = self.value_proj(value).chunk(self.num_heads, -1)
        found = [
            attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
            for q, k, v in zip(qs, ks, vs)
        ]
        contexts = torch.cat([c for c, _ in found], dim=-1)
        return self.output_proj(contexts), torch.stack([w for _, w in found], dim=1)


@wrong(
    "never inserts the axis of the heads: a mask (B, T, S) meets (B, H, T, S) from the right, which raises unless B = 1 or B = H, and is silently wrong for B = H",
    "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the heads.",
    "no axis for the heads in the mask",
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
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "uses mask[:, None] for every mask: a causal mask (T, S) becomes (T, 1, S), whose first axis is taken for the heads; it raises, or is silently wrong if T = H",
    "A mask with two axes, (T, S), can be used as it is.",
    "a two-axis mask gets a head axis",
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
        if mask is not None:
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "reshapes keys and values to the number of queries: works for self-attention, raises or mixes the sentences if S differs from T",
    "The queries (B, T, D) may come from one sequence, and the keys and values (B, S, D) from a second one.",
    "assumes as many keys as queries",
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
        B, T, D = query.shape
        shape = (B, T, self.num_heads, D // self.num_heads)
        q = self.query_proj(query).view(shape).transpose(1, 2)
        k = self.key_proj(key).view(shape).transpose(1, 2)
        v = self.value_proj(value).view(shape).transpose(1, 2)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(shape[-1]), v, mask)
        return self.output_proj(contexts.transpose(1, 2).reshape(B, T, D)), weights


@wrong(
    "uses torch's softmax with the lowest finite number at forbidden keys; a query that may not attend to anything gets equal weights over all keys",
    "If a query may not attend to anything, all its weights must be 0.",
    "a fully masked row becomes uniform",
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
        weights = F.softmax(scores, dim=-1)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "sets the whole context of a query without any allowed key to 0 after output_proj, which also removes the bias of output_proj; W^O of a zero context is the bias",
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
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        result = self.output_proj(merge_heads(contexts))
        if mask is not None:
            nothing = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
            nothing = nothing if mask.dim() == 2 else nothing[:, 0]
            result = result.masked_fill(nothing, 0.0)
        return result, weights


@wrong(
    "projects the values with key_proj's input: the values are made from `key`; the same wherever key and value are one tensor, as in all self-attention and cross-attention of the course",
    "The queries (B, T, D) may come from one sequence, and the keys and values (B, S, D) from a second one.",
    "the values are made from the keys",
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
        k, v = (
            split_heads(proj(key), self.num_heads)
            for proj in (self.key_proj, self.value_proj)
        )
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "splits with (Dh, H), heads of strided entries, and merges in the same way, so the shapes are right and the two errors cancel for H = 1 and H = D, but the heads consist of other entries than the lab's",
    "Each projected vector of width D is split into H pieces, and head h gets piece h:",
    "heads are made of strided entries",
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
        def split(x):
            return x.unflatten(-1, (-1, self.num_heads)).movedim(-1, 1)

        q = split(self.query_proj(query))
        k = split(self.key_proj(key))
        v = split(self.value_proj(value))
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(contexts.movedim(1, -1).flatten(2)), weights
