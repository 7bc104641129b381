import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


@right("loops over sentences and queries, picks the allowed keys, softmax by hand")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        if mask is None:
            mask = torch.ones(B, T, T, dtype=torch.bool, device=x.device)
        mask = mask.expand(B, T, T)
        contexts, rows = [], []
        for b in range(B):
            for t in range(T):
                allowed = mask[b, t].nonzero()[:, 0]
                row = q.new_zeros(T)
                if len(allowed):
                    s = (k[b, allowed] @ q[b, t]) / math.sqrt(D)
                    e = (s - s.max()).exp()
                    row = row.index_put((allowed,), e / e.sum())
                rows.append(row)
                contexts.append(row @ v[b])
        return torch.stack(contexts).view(B, T, D), torch.stack(rows).view(B, T, T)


@right("one big linear for the three maps, einsum, attend")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = [self.query_proj, self.key_proj, self.value_proj]
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.einsum("btd,bsd->bts", q * x.shape[-1] ** -0.5, k)
        return attend(scores, v, mask)


@right("stable softmax by hand: the maximum over allowed keys, zero rows by a where on the sum")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        s = torch.baddbmm(
            q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=1 / math.sqrt(x.size(-1))
        )
        ok = torch.ones_like(s, dtype=torch.bool) if mask is None else mask.expand_as(s)
        low = torch.finfo(s.dtype).min
        top = s.masked_fill(~ok, low).amax(-1, keepdim=True)
        e = torch.where(ok, torch.where(ok, s - top, 0).exp(), 0)
        total = e.sum(-1, keepdim=True)
        w = e / torch.where(total == 0, torch.ones_like(total), total)
        return torch.bmm(w, v), w




@right("masked softmax in its own method, extra argument with a default, zeroes rows by any()")
class SelfAttention(nn.Module):
    def __init__(self, dim, scale=None):
        super().__init__()
        for role in ("query", "key", "value"):
            self.add_module(role + "_proj", nn.Linear(dim, dim))
        self.scale = 1 / math.sqrt(dim) if scale is None else scale

    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(dim=-1)
        mask = mask.broadcast_to(scores.shape)
        alone = ~mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(mask | alone), float("-inf"))
        return scores.softmax(dim=-1).masked_fill(alone, 0.0)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT * self.scale
        weights = self.weigh(scores, mask)
        return weights @ self.value_proj(x), weights


@wrong(
    "does not divide the scores; weights wrong for any D > 1 and T > 1",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "no scaling of the scores",
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
    "uses x itself as the values; contexts wrong on every input, weights right",
    "Each role has its own learned linear map:",
    "values are not projected",
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
    "compares keys with queries the wrong way round: scores are transposed; wrong for T > 1",
    "As a query, it is compared with all keys.",
    "queries and keys swapped, scores transposed",
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
    "-inf before a plain softmax: a position that may not attend to anything gets nan",
    "If a position may not attend to anything, all its weights must be 0.",
    "nan where a position may attend to nothing",
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
        weights = scores.softmax(-1)
        return weights @ v, weights


@wrong(
    "fills forbidden scores with -1e4: with scores below -1e4 the forbidden keys win",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "mask by a number that is not low enough",
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
            scores = scores.masked_fill(~mask, -1e4)
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights * mask.any(-1, keepdim=True)
        return weights @ v, weights


@wrong(
    "softmax by hand without subtracting the maximum: inf / inf for scores above 88",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "exp overflows for large scores",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        e = (q @ k.mT / math.sqrt(x.size(-1))).exp()
        if mask is not None:
            e = e * mask
        total = e.sum(-1, keepdim=True)
        weights = torch.where(total > 0, e / total, torch.zeros_like(e))
        return weights @ v, weights


@wrong(
    "computes the softmax in float32 and forgets to go back for the weights: bfloat16 x gives float32 weights",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "weights stay float32 for bfloat16 vectors",
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
        context, weights = attend(scores.float(), v.float(), mask)
        return context.to(x.dtype), weights


@wrong(
    "divides by the square root of the number of positions; right only where T = D",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "scaled by the length, not the width",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT
        return attend(scores / math.sqrt(scores.size(-1)), v, mask)


@wrong(
    "keeps the last mask and uses it again where a later call of the same shape passes None",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "remembers the mask of an earlier call",
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
        elif self.mask is not None and self.mask.shape[-1] == x.shape[1]:
            mask = self.mask
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    "zeroes the weights only if the whole sentence may attend to nothing: a single empty row gets equal weights",
    "If a position may not attend to anything, all its weights must be 0.",
    "empty rows get uniform weights unless whole sentence empty",
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
            weights = scores.softmax(-1)
        else:
            mask = mask.expand_as(scores)
            weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
            # a sentence of padding only
            weights = weights * mask.flatten(1).any(1)[:, None, None]
        return weights @ v, weights
