import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


# ---------------------------------------------------------------- right


@right("heads and sentences folded into one axis, bmm, and a mask repeated for every head")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        B, T, _ = query.shape
        S, H = key.size(1), self.num_heads
        q = split_heads(self.query_proj(query), H).flatten(0, 1)
        k = split_heads(self.key_proj(key), H).flatten(0, 1)
        v = split_heads(self.value_proj(value), H).flatten(0, 1)
        scores = torch.bmm(q, k.mT) / q.size(-1) ** 0.5
        if mask is not None:
            mask = mask.expand(B, T, S).repeat_interleave(H, dim=0)
        context, weights = attend(scores, v, mask)
        context = merge_heads(context.unflatten(0, (B, H)))
        return self.output_proj(context), weights.unflatten(0, (B, H))


@right("einsum throughout, masked softmax by where")
class MultiHeadAttention(nn.Module):
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
        scores = torch.einsum("bhtd,bhsd->bhts", q / math.sqrt(q.shape[-1]), k)
        if mask is None:
            weights = scores.softmax(-1)
        else:
            while mask.dim() < 3:
                mask = mask[None]
            mask = mask.unsqueeze(-3)
            low = torch.finfo(scores.dtype).min
            weights = torch.where(mask, scores, low).softmax(-1) * mask
        heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.output_proj(merge_heads(heads)), weights


@right("the output map taken apart: every head through its own columns of W^O, then the sum")
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
            mask = mask.expand(query.size(0), query.size(1), key.size(1))[:, None]
        heads, weights = attend(q @ k.mT * q.size(-1) ** -0.5, v, mask)
        columns = self.output_proj.weight.unflatten(1, (self.num_heads, -1))
        out = torch.einsum("bhtd,ohd->bto", heads, columns) + self.output_proj.bias
        return out, weights


@right("one sentence after the other, heads at once")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        contexts, weights = [], []
        for b in range(query.shape[0]):
            one = slice(b, b + 1)
            q = split_heads(self.query_proj(query[one]), self.num_heads)
            k = split_heads(self.key_proj(key[one]), self.num_heads)
            v = split_heads(self.value_proj(value[one]), self.num_heads)
            allowed = mask
            if mask is not None and mask.dim() == 3:
                allowed = mask[b] if mask.size(0) > 1 else mask[0]
            head, weight = attend(q @ k.mT / math.sqrt(q.size(3)), v, allowed)
            contexts.append(merge_heads(head))
            weights.append(weight)
        return self.output_proj(torch.cat(contexts)), torch.cat(weights)


# ---------------------------------------------------------------- wrong


@wrong(
    "divides by the root of D, the width of the model",
    breaks="The scale is the root of the width that is multiplied, Dh.",
    name="scale of the whole width",
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
    "never gives the mask an axis for the heads: right for one sentence and for (T, S)",
    breaks="A mask (B, T, S) or (B, 1, S) needs an axis for the heads",
    name="sentences of the mask taken for heads",
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
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "gives every mask an axis behind the first, (T, S), too: right only by luck, e.g. without a mask or with (B, T, S)",
    breaks="one without an axis for sentences, (T, S), does not",
    name="axis for heads where none belongs",
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
        if mask is not None:
            mask = mask.unsqueeze(1)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "tells the kinds of masks apart by their first length: a (T, S) with T = B gets an axis for heads",
    breaks="one without an axis for sentences, (T, S), does not",
    name="kind of mask guessed from a length",
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
        B = query.size(0)
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.size(0) == B:
            mask = mask.unsqueeze(1)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "makes the values from the keys, which are mostly the same sequence",
    breaks="$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.",
    name="values made from the keys",
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
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "fills with -1e9 before the softmax",
    breaks="A query that may attend to nothing has weights of 0.",
    name="a finite fill makes an empty row uniform",
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
            mask = mask[:, None] if mask.dim() == 3 else mask
            scores = scores.masked_fill(mask == 0, -1e9 if scores.dtype != torch.half else -6e4)
        weights = scores.softmax(dim=-1)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "returns the mean of the heads' weights, as nn.MultiheadAttention does",
    breaks="Contexts (B, T, D), and the weights of every head (B, H, T, S).",
    name="weights averaged over the heads",
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
    "turns the caller's mask over in place: right in the first call only",
    breaks="What comes in stays as it is",
    name="the mask is negated in place",
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
            forbidden = mask.logical_not_()
            if forbidden.dim() == 3:
                forbidden = forbidden.unsqueeze(1)
            scores = scores.masked_fill(forbidden, -torch.inf)
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return self.output_proj(merge_heads(weights @ v)), weights


@wrong(
    "projects keys and values in the first call and keeps them while the shape stays",
    breaks="$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.",
    name="keys of an earlier call",
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
        if getattr(self, "kept_for", None) != (key.shape, key.dtype, key.device):
            self.kept_for = (key.shape, key.dtype, key.device)
            self.k = split_heads(self.key_proj(key), self.num_heads)
            self.v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ self.k.mT / math.sqrt(q.size(-1)), self.v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "views the mask as (B, 1, T, S), which a mask of padding (B, 1, S) is not",
    breaks="A mask (B, T, S) or (B, 1, S) needs an axis for the heads",
    name="mask must be complete",
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
        B, T, _ = query.shape
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask.reshape(B, 1, T, key.size(1))
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights
