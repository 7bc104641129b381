import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

ROOT = "Divide the scores by the square root of Dh, the width of the vectors that are multiplied."
LAST = "Apply `output_proj`, which is $W^O$, last."
OUTPUT = r"\mathrm{MultiHead}(Q, K, V) = W^O\, [\mathrm{head}_1; \ldots; \mathrm{head}_H]"
PIECES = "each projected vector of width D is split into H pieces, and head h gets piece h."
VALUES = "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values that belong to head h."
THREE = "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the heads."
BROAD = "mask: True = may attend, with two or three axes, broadcastable to (B, T, S);"
INPUTS = "Do not change the inputs."
OBJECTS = "The result of a call must not depend on earlier calls or on other objects of the same class."


def pieces(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


class Base(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def split_all(self, query, key, value):
        return (
            pieces(self.query_proj(query), self.num_heads),
            pieces(self.key_proj(key), self.num_heads),
            pieces(self.value_proj(value), self.num_heads),
        )


# ---------------------------------------------------------------- right answers


@right("einsum over unflattened projections, heads never moved in front by hand")
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        H = self.num_heads
        q = self.query_proj(query).unflatten(-1, (H, -1))
        k = self.key_proj(key).unflatten(-1, (H, -1))
        v = self.value_proj(value).unflatten(-1, (H, -1))
        scores = torch.einsum("bthe,bshe->bhts", q, k) * q.size(-1) ** -0.5
        _, weights = attend(
            scores,
            v.transpose(1, 2),
            mask if mask is None or mask.dim() == 2 else mask.unsqueeze(1),
        )
        heads = torch.einsum("bhts,bshe->bthe", weights, v)
        return self.output_proj(heads.flatten(2)), weights


@right("folds the heads into the axis of the sentences")
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        B, T, S, H = query.size(0), query.size(1), key.size(1), self.num_heads
        q, k, v = (p.flatten(0, 1) for p in self.split_all(query, key, value))
        if mask is not None:
            mask = mask.expand(B, T, S).repeat_interleave(H, dim=0)
        scores = torch.bmm(q, k.mT) / math.sqrt(q.size(-1))
        context, weights = attend(scores, v, mask)
        context = joined(context.unflatten(0, (B, H)))
        return self.output_proj(context), weights.unflatten(0, (B, H))


@right("sums what each head adds to the output, from its own columns of W^O")
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None:
            while mask.dim() < 3:
                mask = mask[None]
            mask = mask[:, None]
        heads, weights = attend(q / math.sqrt(q.size(-1)) @ k.mT, v, mask)
        columns = self.output_proj.weight.unflatten(1, (self.num_heads, -1))
        output = torch.einsum("bhte,ohe->bto", heads, columns)
        return output + self.output_proj.bias, weights


@right("softmax by hand, with the largest allowed score subtracted, in float64")
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = (p.double() for p in self.split_all(query, key, value))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=query.device)
        elif mask.dim() == 3:
            mask = mask[:, None]
        mask = mask.expand(scores.shape)
        low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        e = (low - low.amax(-1, keepdim=True).detach()).exp() * mask
        total = e.sum(-1, keepdim=True)
        weights = e / torch.where(total > 0, total, torch.ones_like(total))
        context = joined(weights @ v).to(query.dtype)
        return self.output_proj(context), weights.to(query.dtype)


# ---------------------------------------------------------------- wrong answers


@wrong("divides by the root of D", breaks=ROOT, name="width of the model, not of a head")
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights


@wrong("splits with a single view", breaks=PIECES, name="heads mix the tokens")
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        B, D, H = query.size(0), query.size(-1), self.num_heads
        q = self.query_proj(query).reshape(B, H, -1, D // H)
        k = self.key_proj(key).reshape(B, H, -1, D // H)
        v = self.value_proj(value).reshape(B, H, -1, D // H)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(D // H), v, mask)
        return self.output_proj(joined(context)), weights


@wrong(
    "applies output_proj to the values instead of the merged contexts",
    breaks=LAST,
    name="output_proj before the average",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, _ = self.split_all(query, key, value)
        v = pieces(self.output_proj(self.value_proj(value)), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return joined(context), weights


@wrong(
    "takes a mask with H entries on its first axis for a mask per head",
    breaks=THREE,
    name="no axis for the heads when B = H",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3 and mask.size(0) != self.num_heads:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights


@wrong(
    "takes the integer part of the root of Dh",
    breaks=r"\mathrm{head}_h = \mathrm{attend}\Big(\frac{Q_h K_h^\top}{\sqrt{D_h}},\, V_h\Big)",
    name="isqrt, right only if Dh is a square",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.isqrt(q.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights


@wrong(
    "assumes self-attention if query and key are the same object",
    breaks=VALUES,
    name="ignores value when query is key",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        if query is key:
            value = query
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights


@wrong(
    "stores the number of heads in the class instead of the object",
    breaks=OBJECTS,
    name="the newest object sets H for all",
)
class MultiHeadAttention(nn.Module):
    heads = 1

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        type(self).heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = pieces(self.query_proj(query), self.heads)
        k = pieces(self.key_proj(key), self.heads)
        v = pieces(self.value_proj(value), self.heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights


@wrong(
    "gives the caller's mask its fourth axis in place",
    breaks=INPUTS,
    name="unsqueeze_ with an underscore",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3:
            mask.unsqueeze_(1)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights


@wrong(
    "sets the output of a query without keys to 0, after output_proj",
    breaks=OUTPUT,
    name="no bias for an empty query",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        output = self.output_proj(joined(context))
        if mask is not None:
            empty = ~mask.expand(weights.shape).any(dim=-1)[:, 0]  # (B, T)
            output = output.masked_fill(empty[..., None], 0)
        return output, weights


@wrong(
    "reshapes every mask of three axes to (B, 1, -1, S)",
    breaks=BROAD,
    name="a mask (1, T, S) is dealt out to the sentences",
)
class MultiHeadAttention(Base):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_all(query, key, value)
        if mask is not None and mask.dim() == 3:
            mask = mask.reshape(query.size(0), 1, -1, key.size(1))
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(joined(context)), weights
