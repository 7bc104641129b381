import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

FORMULA = r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}"


@right("einsum, float64 inside and back")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = (
            project(x).double()
            for project in (self.query_proj, self.key_proj, self.value_proj)
        )
        scores = torch.einsum("btd,bsd->bts", q, k) / x.size(-1) ** 0.5
        context, weights = attend(scores, v, mask)
        return context.to(x.dtype), weights.to(x.dtype)


@right("one query after the other, mask expanded to (B, T, T)")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        mask = torch.broadcast_to(mask, (B, T, T))
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        contexts, rows = [], []
        for t in range(T):
            scores = (key @ query[:, t, :, None]).mT * D**-0.5
            context, weights = attend(scores, value, mask[:, t : t + 1])
            contexts.append(context)
            rows.append(weights)
        return torch.cat(contexts, dim=1), torch.cat(rows, dim=1)


@right("one fused projection, own softmax with the smallest number, then zeros")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.bmm(q * x.size(-1) ** -0.5, k.mT)
        if mask is None:
            weights = scores.softmax(-1)
        else:
            lowest = torch.finfo(scores.dtype).min
            weights = scores.masked_fill(~mask, lowest).softmax(-1)
            weights = weights.masked_fill(~mask, 0)
        return weights @ v, weights


@right("opens dead rows for the softmax and closes them afterwards; no attend")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        allowed = x.new_ones(1, 1, 1, dtype=torch.bool) if mask is None else mask
        allowed = torch.broadcast_to(allowed, (x.size(0), x.size(1), x.size(1)))
        alive = allowed.any(-1, keepdim=True)
        q = self.query_proj(x).div(math.sqrt(x.size(-1)))
        scores = torch.matmul(q, self.key_proj(x).transpose(-2, -1))
        scores = torch.where(allowed | ~alive, scores, -math.inf)
        weights = torch.where(alive, scores.softmax(dim=-1), 0)
        return torch.einsum("bts,bsd->btd", weights, self.value_proj(x)), weights


@wrong(
    "compares keys with queries: rows belong to keys",
    breaks=FORMULA,
    name="queries and keys swapped",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(key @ query.mT / math.sqrt(x.size(-1)), value, mask)


@wrong(
    "divides by the square root of the length; right where T equals D",
    breaks=FORMULA,
    name="scaled by the length instead of the width",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(query @ key.mT / math.sqrt(x.size(1)), value, mask)


@wrong(
    "whole-number square root: right for D = 4, 9, 16, ...",
    breaks=FORMULA,
    name="square root rounded down",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(query @ key.mT / math.isqrt(x.size(-1)), value, mask)


@wrong(
    "sums the vectors themselves",
    breaks="Each role has its own learned linear map:",
    name="values not projected",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, x, mask)


@wrong(
    "a row that may not attend gets equal weights",
    breaks="If a position may not attend to anything, all its weights must be 0.",
    name="uniform weights where nothing is allowed",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        return weights @ self.value_proj(x), weights


@wrong(
    "adds minus infinity and repairs nan in the forward pass only",
    breaks="Gradients must be right, too.",
    name="nan gradients where nothing is allowed",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device)
            scores = scores + bias.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        return weights @ self.value_proj(x), weights


@wrong(
    "without a mask, no position sees a later one",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="causal by default",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is None:
            mask = torch.ones_like(scores[0], dtype=torch.bool).tril()
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "with a padding mask (B, 1, T), the rows of padding become zero as well",
    breaks="For each position, the mask says which positions it may attend to.",
    name="padding mask applied to queries as well",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 3 and mask.size(1) == 1:
            mask = mask & mask.mT
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "float32 inside, even for float64",
    breaks="Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points.",
    name="float64 computed in float32",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q.float() @ k.float().mT / math.sqrt(x.size(-1))
        context, weights = attend(scores, v.float(), mask)
        return context.to(x.dtype), weights.to(x.dtype)


@wrong(
    "the returned weights are cut from the graph",
    breaks="Gradients must be right, too.",
    name="weights detached",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        context, weights = attend(scores, self.value_proj(x), mask)
        return context, weights.detach()
