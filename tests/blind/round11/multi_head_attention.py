import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right("folds the heads into the batch and repeats the mask for each head")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        (size, length, dim), keys = query.shape, key.size(1)
        q = split_heads(self.query_proj(query), self.num_heads).flatten(0, 1)
        k = split_heads(self.key_proj(key), self.num_heads).flatten(0, 1)
        v = split_heads(self.value_proj(value), self.num_heads).flatten(0, 1)
        if mask is not None:
            mask = mask.expand(size, length, keys)
            mask = mask.repeat_interleave(self.num_heads, dim=0)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(dim // self.num_heads)
        heads, weights = attend(scores, v, mask)
        heads = heads.unflatten(0, (size, self.num_heads))
        weights = weights.unflatten(0, (size, self.num_heads))
        return self.output_proj(merge_heads(heads)), weights


@right("einsum, scaled queries before the split, and a masked softmax of its own")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        scale = (query.size(-1) / self.num_heads) ** -0.5
        q = split_heads(self.query_proj(query) * scale, self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        scores = torch.einsum("bhtd,bhsd->bhts", q, k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask.expand(query.size(0), query.size(1), key.size(1))[:, None]
            nothing = ~mask.any(dim=-1, keepdim=True)
            scores = scores.masked_fill(~mask, -math.inf).masked_fill(nothing, 0.0)
            weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
        heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.output_proj(merge_heads(heads)), weights


@right("contexts by PyTorch's scaled_dot_product_attention, weights in a second step")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        pairs = zip(
            (self.query_proj, self.key_proj, self.value_proj), (query, key, value)
        )
        q, k, v = (split_heads(proj(x), self.num_heads) for proj, x in pairs)
        if mask is None:
            mask = torch.ones(1, 1, dtype=torch.bool, device=query.device)
        mask = mask.expand(query.size(0), query.size(1), key.size(1)).unsqueeze(1)
        alive = mask.any(dim=-1, keepdim=True)
        allowed = mask | ~alive  # empty rows see everything here, and become 0 below
        heads = alive * nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=allowed
        )
        scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~allowed, -math.inf)
        return self.output_proj(merge_heads(heads)), scores.softmax(dim=-1) * alive


@right("a loop over the queries, all heads of a query at once")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def _row(self, mask, t, size, length, keys):
        if mask is None:
            return None
        return mask.expand(size, length, keys)[:, None, t : t + 1]

    def forward(self, query, key, value, mask=None):
        size, length, _ = query.shape
        v = split_heads(self.value_proj(value), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        q = split_heads(self.query_proj(query), self.num_heads)
        heads, weights = [], []
        for t in range(length):
            scores = (q[:, :, t : t + 1] * k).sum(dim=-1) / math.sqrt(k.size(-1))
            row = self._row(mask, t, size, length, key.size(1))
            c, w = attend(scores.unsqueeze(2), v, row)
            heads.append(c)
            weights.append(w)
        merged = merge_heads(torch.cat(heads, dim=2))
        return self.output_proj(merged), torch.cat(weights, dim=2)


@wrong(
    "divides the scores by the square root of D",
    "Divide the scores by the square root of Dh, the width of the vectors that are multiplied.",
    "scores divided by the root of D instead of Dh",
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
        heads, weights = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "returns the merged heads without the output projection",
    "Apply `output_proj`, which is $W^O$, last.",
    "output projection forgotten",
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
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return merge_heads(heads), weights


@wrong(
    "uses a mask with three axes as it is, so its sentences are lined up with the heads",
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
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "inserts an axis into every mask, so the queries of a mask (T, S) are lined up with the batch",
    "A mask with two axes, (T, S), can be used as it is.",
    "axis inserted into a mask with two axes",
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
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "sets the output of queries that see nothing to 0 after the output projection, which removes its bias",
    "Apply `output_proj`, which is $W^O$, last.",
    "contexts zeroed after the output projection",
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
        wide = mask[:, None] if mask is not None and mask.dim() == 3 else mask
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, wide)
        contexts = self.output_proj(merge_heads(heads))
        if mask is not None:
            contexts = contexts * mask.any(dim=-1, keepdim=True)
        return contexts, weights


@wrong(
    "returns float32 weights for bfloat16 vectors",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "weights of the wrong dtype",
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
        q = split_heads(self.query_proj(query), self.num_heads).float()
        k = split_heads(self.key_proj(key), self.num_heads).float()
        v = split_heads(self.value_proj(value), self.num_heads).float()
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(heads).to(query.dtype)), weights


@wrong(
    "one head after the other in a loop",
    "Compute all heads at once.",
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
        for qh, kh, vh in zip(q.unbind(1), k.unbind(1), v.unbind(1)):
            c, w = attend(qh @ kh.mT / math.sqrt(qh.size(-1)), vh, mask)
            heads.append(c)
            weights.append(w)
        merged = merge_heads(torch.stack(heads, dim=1))
        return self.output_proj(merged), torch.stack(weights, dim=1)


@wrong(
    "folds the heads into the batch but repeats the mask in the other order: for B > 1, sentences get each other's masks",
    "mask: True = may attend, (T, S) or broadcastable to (B, T, S); None allows everything.",
    "mask repeated in the wrong order",
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
        size, length, _ = query.shape
        q = split_heads(self.query_proj(query), self.num_heads).flatten(0, 1)
        k = split_heads(self.key_proj(key), self.num_heads).flatten(0, 1)
        v = split_heads(self.value_proj(value), self.num_heads).flatten(0, 1)
        if mask is not None:
            mask = mask.expand(size, length, key.size(1)).repeat(self.num_heads, 1, 1)
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        heads = heads.unflatten(0, (size, self.num_heads))
        weights = weights.unflatten(0, (size, self.num_heads))
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "computes the values from the keys, which shows only if key and value differ",
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values that belong to head h.",
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
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(heads)), weights


@wrong(
    "unsqueeze_ gives the caller's mask a fourth axis",
    "Do not change the inputs.",
    "shape of the mask changed in place",
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
            mask.unsqueeze_(1)
        heads, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(heads)), weights
