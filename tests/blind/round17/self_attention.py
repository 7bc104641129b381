import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

MAPS = "Each role has its own learned linear map:"
FORMULA = r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad"
NOTHING = "If a position may not attend to anything, all its weights must be 0."
MASK = "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
INPUTS = "Do not change the inputs."
NUMBERS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."


class Base(nn.Module):
    """The three maps, as the notebook makes them."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)


# ---------------------------------------------------------------- right answers


@right("loops over sentences and positions, over the allowed keys only")
class SelfAttention(Base):
    def forward(self, x, mask=None):
        B, T, D = x.shape
        if mask is None:
            mask = torch.ones(B, T, T, dtype=torch.bool, device=x.device)
        mask = mask.expand(B, T, T)
        rows, contexts = [], []
        for b in range(B):
            for t in range(T):
                q = self.query_proj(x[b, t])
                seen = mask[b, t].nonzero()[:, 0]
                row = x.new_zeros(T) + 0 * q.sum()
                if len(seen):
                    k = self.key_proj(x[b, seen])
                    row = row.index_put((seen,), (k @ q / math.sqrt(D)).softmax(0))
                rows.append(row)
                contexts.append(row @ self.value_proj(x[b]))
        return (
            torch.stack(contexts).unflatten(0, (B, T)),
            torch.stack(rows).unflatten(0, (B, T)),
        )


@right("one matrix for the three maps, root of D shared between q and k")
class SelfAttention(Base):
    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = nn.functional.linear(x, weight, bias).chunk(3, dim=-1)
        root = x.size(-1) ** 0.25
        return attend(torch.einsum("btd,bsd->bts", q / root, k / root), v, mask)


@right("exponentials of log-probabilities, computed in float64")
class SelfAttention(Base):
    def forward(self, x, mask=None):
        q, k, v = (
            m(x).double() for m in (self.query_proj, self.key_proj, self.value_proj)
        )
        scores = (q[:, :, None] * k[:, None]).sum(-1) / math.sqrt(x.size(-1))
        if mask is None:
            weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        else:
            mask = mask.broadcast_to(scores.shape)
            some = mask.any(-1, keepdim=True)
            # an empty row is computed over everything, and then set to 0
            scores = scores.masked_fill(~mask & some, -math.inf)
            weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
            weights = torch.where(mask, weights, torch.zeros_like(weights))
        return (weights @ v).to(x.dtype), weights.to(x.dtype)


@right("averages x first and maps the average, because the weights sum to 1 or 0")
class SelfAttention(Base):
    def forward(self, x, mask=None):
        # q.k is a bilinear form of x with a homogeneous coordinate
        q = self.query_proj(x)
        scores = q @ self.key_proj.weight @ x.mT + (q @ self.key_proj.bias)[..., None]
        mean, weights = attend(scores / math.sqrt(x.size(-1)), x, mask)
        if mask is None:
            mass = x.new_ones(())
        else:
            mass = mask.expand(weights.shape).any(-1, keepdim=True).to(x.dtype)
        return mean @ self.value_proj.weight.mT + mass * self.value_proj.bias, weights


# ---------------------------------------------------------------- wrong answers


@wrong("does not divide by the root of D", breaks=FORMULA, name="no scaling")
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "rows of the scores belong to the keys",
    breaks=FORMULA,
    name="queries and keys swapped in the product",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.key_proj(x) @ self.query_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, self.value_proj(x), mask)


@wrong("averages x itself", breaks=MAPS, name="values are not projected")
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, x, mask)


@wrong(
    "fills forbidden scores with -1e9 before the softmax",
    breaks=NOTHING,
    name="an empty row becomes uniform",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=-1)
        return weights @ self.value_proj(x), weights


@wrong(
    "subtracts the largest score of the row before it applies the mask",
    breaks=NUMBERS,
    name="maximum over forbidden scores too",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        if mask is not None:
            e = e * mask
        total = e.sum(dim=-1, keepdim=True)
        weights = e / total.masked_fill(total == 0, 1)
        return weights @ self.value_proj(x), weights


@wrong(
    "takes a mask of two axes for a padding mask if its first axis has length B",
    breaks=MASK,
    name="(T, T) read as (B, T) when B = T",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 2 and mask.size(0) == x.size(0):
            mask = mask[:, None]
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "adds minus infinity and replaces NaN by 0 after the softmax",
    breaks=GRADIENTS,
    name="NaN gradients from an empty row",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device)
            scores = scores + bias.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return weights @ self.value_proj(x), weights


@wrong(
    "opens empty rows in the caller's mask so that the softmax has no NaN",
    breaks=INPUTS,
    name="mask changed in place",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is None:
            return attend(scores, self.value_proj(x))
        empty = ~mask.any(dim=-1, keepdim=True)
        if empty.any():
            mask |= empty
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        weights = weights.masked_fill(empty, 0)
        return weights @ self.value_proj(x), weights


@wrong(
    "computes the softmax in float32 and casts back, also for float64",
    breaks=PRECISE,
    name="float64 goes through float32",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        _, weights = attend(scores.float(), self.value_proj(x).float(), mask)
        weights = weights.to(x.dtype)
        return weights @ self.value_proj(x), weights


@wrong(
    "returns the weights detached, 'for plotting only'",
    breaks=GRADIENTS,
    name="no gradient through the returned weights",
)
class SelfAttention(Base):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        context, weights = attend(scores, self.value_proj(x), mask)
        return context, weights.detach()
