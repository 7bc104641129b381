import math

import torch
from attention_course.attention import attend
from torch import nn

from blind import right, wrong

FIRST = (
    "Apply the projections of section 1 first. Apply `output_proj`, which is $W^O$, "
    "last."
)
PIECES = (
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values "
    "that belong to head h."
)
AT_ONCE = "Compute all heads at once. A loop over the heads costs one point."
SCALE = (
    "Divide the scores by the square root of Dh, the width of the vectors that are "
    "multiplied."
)
MASK = (
    "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for "
    "the heads."
)
DEAD = "If a query may not attend to anything, all its weights must be 0."
CROSS = (
    "The queries (B, T, D) may come from one sequence, and the keys and values "
    "(B, S, D) from a second one."
)
VALUES = (
    r"\mathrm{head}_h = \mathrm{attend}\Big(\frac{Q_h K_h^\top}{\sqrt{D_h}},\, V_h\Big)"
)
LARGE = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for "
    "large and for small numbers, in train mode and in eval mode."
)
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class."
)


def split(x, num_heads):
    """Split each vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(x):
    """Concatenate the pieces of each vector: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def for_heads(mask):
    """Insert an axis for the heads into a mask with three axes."""
    return mask[:, None] if mask is not None and mask.dim() == 3 else mask


# ---------------------------------------------------------------- right


@right("keeps the layout (B, T, H, Dh) and lets einsum do the rest; scales the queries")
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
        scores = torch.einsum("bthd,bshd->bhts", q / math.sqrt(q.size(-1)), k)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        _, weights = attend(scores, v.transpose(1, 2), mask)
        contexts = torch.einsum("bhts,bshd->bthd", weights, v)
        return self.output_proj(contexts.flatten(2)), weights


@right("folds the heads into the batch, so that everything has three axes (BH, T, S)")
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

        def fold(x):
            pieces = torch.stack(x.chunk(H, dim=-1), dim=1)
            return pieces.reshape(B * H, x.size(1), D // H)

        q, k = fold(self.query_proj(query)), fold(self.key_proj(key))
        v = fold(self.value_proj(value))
        if mask is not None:
            mask = mask.expand(B, T, S).repeat_interleave(H, dim=0)
        scores = torch.bmm(q, k.transpose(1, 2)) / (D // H) ** 0.5
        contexts, weights = attend(scores, v, mask)
        contexts = contexts.reshape(B, H, T, -1).permute(0, 2, 1, 3).reshape(B, T, D)
        return self.output_proj(contexts), weights.reshape(B, H, T, S)


@right("never splits: zeros in the queries hide the other heads' entries")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        D, H = query.size(-1), self.num_heads
        owner = torch.arange(D, device=query.device) // (D // H)
        mine = owner == torch.arange(H, device=query.device)[:, None]  # (H, D)
        mine = mine[:, None]  # (H, 1, D)
        q = self.query_proj(query)[:, None]
        q = torch.where(mine, q, torch.zeros_like(q))  # (B, H, T, D)
        k = self.key_proj(key)[:, None]
        v = self.value_proj(value)[:, None].expand(-1, H, -1, -1)
        scores = q @ k.mT / math.sqrt(D // H)
        contexts, weights = attend(scores, v, for_heads(mask))
        contexts = torch.where(mine, contexts, torch.zeros_like(contexts)).sum(dim=1)
        return self.output_proj(contexts), weights


@right("a softmax of its own for one head, in float64, which vmap applies to all heads")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        H, B, T, S = self.num_heads, query.size(0), query.size(1), key.size(1)
        if mask is None:
            mask = torch.ones(1, 1, dtype=torch.bool, device=query.device)
        mask = mask.expand(B, T, S)
        dead = ~mask.any(dim=-1, keepdim=True)

        def one_head(q, k, v):  # (B, T, Dh), (B, S, Dh), (B, S, Dh)
            scores = torch.einsum("btd,bsd->bts", q, k) / math.sqrt(q.size(-1))
            # A query that may attend to nothing first attends to everything.
            scores = scores.masked_fill(~(mask | dead), -torch.inf)
            weights = scores.softmax(dim=-1).masked_fill(dead, 0.0)
            return torch.einsum("bts,bsd->btd", weights, v), weights

        pieces = [
            project(x).double().unflatten(-1, (H, -1))
            for project, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        ]
        contexts, weights = torch.vmap(one_head, in_dims=2, out_dims=(2, 1))(*pieces)
        contexts = contexts.reshape(B, T, -1).to(query.dtype)
        return self.output_proj(contexts), weights.to(query.dtype)


# ---------------------------------------------------------------- wrong


@wrong(
    "divides the scores by the square root of D",
    breaks=SCALE,
    name="scaled by the width of the model",
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
        H = self.num_heads
        q, k = split(self.query_proj(query), H), split(self.key_proj(key), H)
        v = split(self.value_proj(value), H)
        scores = q @ k.mT / math.sqrt(query.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        return self.output_proj(merge(contexts)), weights


@wrong(
    "splits with a view to (B, H, T, Dh), and merges with a view back",
    breaks=PIECES,
    name="heads get whole tokens instead of pieces of each token",
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
        q = self.query_proj(query).reshape(B, self.num_heads, T, -1)
        k = self.key_proj(key).reshape(B, self.num_heads, key.size(1), -1)
        v = self.value_proj(value).reshape(B, self.num_heads, key.size(1), -1)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        return self.output_proj(contexts.reshape(B, T, D)), weights


@wrong(
    "splits the queries, keys and values themselves: the maps come after the heads",
    breaks=FIRST,
    name="splits before the projections",
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
        H = self.num_heads

        def project(x, linear):
            # Each head maps its own piece with its own block of the matrix.
            pieces = split(x, H)
            blocks = linear.weight.unflatten(0, (H, -1)).unflatten(2, (H, -1))
            blocks = blocks.diagonal(dim1=0, dim2=2)  # (Dh, Dh, H)
            bias = linear.bias.unflatten(0, (H, -1))[:, None]
            return torch.einsum("bhtd,edh->bhte", pieces, blocks) + bias

        q, k = project(query, self.query_proj), project(key, self.key_proj)
        v = project(value, self.value_proj)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        return self.output_proj(merge(contexts)), weights


@wrong(
    "projects the keys a second time where the values belong",
    breaks=VALUES,
    name="the values come from `key`",
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
        H = self.num_heads
        q, k = split(self.query_proj(query), H), split(self.key_proj(key), H)
        v = split(self.value_proj(key), H)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        return self.output_proj(merge(contexts)), weights


@wrong(
    "gives a mask with three axes no axis for the heads: sentence b's mask goes to head "
    "b (or does not fit)",
    breaks=MASK,
    name="the mask's sentences meet the heads",
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
        H = self.num_heads
        q, k = split(self.query_proj(query), H), split(self.key_proj(key), H)
        v = split(self.value_proj(value), H)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, mask)
        return self.output_proj(merge(contexts)), weights


@wrong(
    "loops over the heads and stacks their results",
    breaks=AT_ONCE,
    name="a loop over the heads",
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
        H = self.num_heads
        heads = zip(
            self.query_proj(query).chunk(H, dim=-1),
            self.key_proj(key).chunk(H, dim=-1),
            self.value_proj(value).chunk(H, dim=-1),
            strict=True,
        )
        done = [attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask) for q, k, v in heads]
        contexts = torch.cat([context for context, _ in done], dim=-1)
        weights = torch.stack([weights for _, weights in done], dim=1)
        return self.output_proj(contexts), weights


@wrong(
    "sets forbidden scores to -10000, which large scores of allowed keys may fall below",
    breaks=LARGE,
    name="forbidden scores are not low enough",
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
        H = self.num_heads
        q, k = split(self.query_proj(query), H), split(self.key_proj(key), H)
        v = split(self.value_proj(value), H)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        mask = for_heads(mask)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            weights = scores.masked_fill(~mask, -1e4).softmax(dim=-1)
            weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0)
        return self.output_proj(merge(weights @ v)), weights


@wrong(
    "returns zeros for a query that may not attend to anything, without the bias of "
    "output_proj",
    breaks=FIRST,
    name="zeroes the output after output_proj",
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
        H = self.num_heads
        q, k = split(self.query_proj(query), H), split(self.key_proj(key), H)
        v = split(self.value_proj(value), H)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        result = self.output_proj(merge(contexts))
        if mask is not None:
            result = result.masked_fill(~mask.any(dim=-1, keepdim=True), 0)
        return result, weights


@wrong(
    "takes cross-attention for self-attention if the sequences are equally long",
    breaks=CROSS,
    name="keys made from the queries if T = S",
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
        H = self.num_heads
        if query.shape == key.shape:  # self-attention: one sequence is enough
            key = query
        q, k = split(self.query_proj(query), H), split(self.key_proj(key), H)
        v = split(self.value_proj(value), H)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        return self.output_proj(merge(contexts)), weights


@wrong(
    "keeps the projected keys and values while `key` is the same object, even if its "
    "numbers, `value` or the parameters have changed since",
    breaks=CALLS,
    name="a stale cache of keys and values",
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
        H = self.num_heads
        if getattr(self, "seen", None) is not key:
            self.seen = key
            self.kept = self.key_proj(key), self.value_proj(value)
        k, v = self.kept
        q, k, v = split(self.query_proj(query), H), split(k, H), split(v, H)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, for_heads(mask))
        return self.output_proj(merge(contexts)), weights
