import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax

from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("einsum, float64 inside, the softmax written with logsumexp")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q = self.query_proj(x).double()
        k = self.key_proj(x).double()
        v = self.value_proj(x).double()
        scores = torch.einsum("btd,bsd->bts", q, k) / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(torch.float64).min)
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
        if mask is not None:
            weights = weights * mask
        contexts = torch.einsum("bts,bsd->btd", weights, v)
        return contexts.to(x.dtype), weights.to(x.dtype)


@right("a loop over the queries, one row of weights at a time")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def one_row(self, q, k, allowed):
        e = torch.einsum("bd,bsd->bs", q, k) * k.size(-1) ** -0.5
        e = torch.where(allowed, e, torch.finfo(e.dtype).min)
        return e.softmax(dim=-1) * allowed

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device)
        mask = mask.expand(batch, length, length)
        v, k, q = self.value_proj(x), self.key_proj(x), self.query_proj(x)
        rows = [self.one_row(q[:, t], k, mask[:, t]) for t in range(length)]
        weights = torch.stack(rows, dim=1)
        return torch.bmm(weights, v), weights


@right("one product with the three stacked matrices; -inf and nan_to_num; an attribute")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.last_weights = None  # to look at, never read here

    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        scores = q.matmul(k.transpose(1, 2)).div(math.sqrt(k.shape[2]))
        if mask is not None:
            # the backward pass of masked_fill sets the gradients of these scores to 0
            scores = scores.masked_fill(mask.logical_not(), -math.inf)
        weights = scores.softmax(dim=2).nan_to_num(0.0)
        self.last_weights = weights.detach().clone()
        return weights.matmul(v), weights


@right("all scores transposed, keys in rows: the softmax runs down the columns")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        down = self.key_proj(x) @ (self.query_proj(x) / math.sqrt(dim)).mT  # (B, S, T)
        if mask is None:
            mask = torch.tensor(True, device=x.device)
        allowed = mask.expand(batch, length, length).mT
        lowest = torch.finfo(down.dtype).min
        top = torch.where(allowed, down, lowest).amax(dim=1, keepdim=True).detach()
        powers = torch.where(allowed, down - top, -math.inf).exp()
        total = powers.sum(dim=1, keepdim=True)
        weights = powers / (total + (total == 0))
        return (self.value_proj(x).mT @ weights).mT, weights.mT


# ---------------------------------------------------------------- wrong answers


@wrong(
    "does not divide the scores by the root of D",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}",
    "scores not scaled",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT, v, mask)


@wrong(
    "takes the softmax over the queries, axis 1, so that columns sum to one",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}",
    "softmax over the wrong axis",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=1).nan_to_num(0.0)
        return weights @ v, weights


@wrong(
    "sums the vectors x themselves instead of their projected values",
    "Each role has its own learned linear map:",
    "values not projected",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k = self.query_proj(x), self.key_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), x, mask)


@wrong(
    "multiplies keys by queries, so that the score of (t, s) is that of (s, t)",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}",
    "queries and keys swapped",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(k @ q.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    "writes -1e9 where the mask forbids: a row that may attend to nothing gets equal"
    " weights instead of zeros",
    "If a position may not attend to anything, all its weights must be 0.",
    "empty row gets equal weights",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=-1)
        return weights @ v, weights


@wrong(
    "adds -inf to the scores and replaces NaN by 0 afterwards: with a row that may"
    " attend to nothing, the numbers are right, but the gradients are NaN",
    "Gradients must be right, too.",
    "NaN gradients from an empty row",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores + mask.to(scores.dtype).log()  # log 1 = 0, log 0 = -inf
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return weights @ v, weights


@wrong(
    "takes a mask with two axes for (B, S) and inserts an axis: (T, T), such as a causal"
    " mask, then fails, or with B = T is read wrongly",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "mask (T, T) taken for (B, S)",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        if mask is not None and mask.dim() == 2:
            mask = mask[:, None]
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    "opens empty rows in the caller's own mask (|=) before the softmax",
    "Do not change the inputs.",
    "changes the mask in place",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            empty = ~mask.any(dim=-1, keepdim=True)
            mask |= empty  # no row of -inf, no NaN
            weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
            weights = weights.masked_fill(empty, 0.0)
        return weights @ v, weights


@wrong(
    "keeps the last mask and uses it again in a later call without a mask",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers the mask of an earlier call",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.mask = None

    def forward(self, x, mask=None):
        if mask is not None:
            self.mask = mask
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, self.mask)


@wrong(
    "computes the weights in float32 and returns them so: with bfloat16 (or float64)"
    " vectors only the contexts have the right dtype",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "weights always float32",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = (q @ k.mT).float() / math.sqrt(x.size(-1))
        weights = masked_softmax(scores, mask)
        return weights.to(v.dtype) @ v, weights
