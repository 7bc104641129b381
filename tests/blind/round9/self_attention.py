import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


@right("softmax by hand, with the largest allowed score subtracted, and einsum instead of @")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q = self.query_proj(x) * x.shape[-1] ** -0.5
        k, v = self.key_proj(x), self.value_proj(x)
        e = torch.einsum("btd,bsd->bts", q, k)
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device)
        hidden = torch.logical_not(mask)
        lowest = torch.finfo(e.dtype).min
        top = e.masked_fill(hidden, lowest).amax(-1, keepdim=True).detach()
        up = (e - top).masked_fill(hidden, -torch.inf).exp()
        total = up.sum(-1, keepdim=True)
        weights = up / total.masked_fill(total == 0, 1.0)
        return torch.einsum("bts,bsd->btd", weights, v), weights


@right("all three maps in one matrix product, then chunk; torch.baddbmm for the scaled scores")
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
        b, t, d = q.shape
        scores = torch.baddbmm(
            q.new_zeros(b, t, t), q, k.transpose(1, 2), beta=0, alpha=1 / math.sqrt(d)
        )
        return attend(scores, v, mask)


@right("a loop over the queries, each with its own row of the mask")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        if mask is None:
            full = x.new_ones((B, T, T), dtype=torch.bool)
        else:
            full = torch.broadcast_to(mask, (B, T, T))
        keys, values = self.key_proj(x), self.value_proj(x)
        contexts, weights = [], []
        for t in range(T):
            query = self.query_proj(x[:, t])
            score = (keys @ query[:, :, None])[:, :, 0] / math.sqrt(D)
            row = full[:, t]
            nothing = ~row.any(dim=1, keepdim=True)
            score = score.masked_fill(~row & ~nothing, float("-inf"))
            weight = torch.softmax(score, dim=1).masked_fill(nothing, 0.0)
            weights.append(weight)
            contexts.append((weight[:, :, None] * values).sum(1))
        return torch.stack(contexts, 1), torch.stack(weights, 1)


@right("an additive bias of 0 and minus infinity, logsumexp, and a sink that takes the rows without any key")
class SelfAttention(nn.Module):
    def __init__(self, dim, *, scale=None):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.scale = dim**0.5 if scale is None else scale

    def forward(self, x, mask=None):
        scores = self.query_proj(x).matmul(self.key_proj(x).mT).div(self.scale)
        if mask is not None:
            allowed = mask.expand(scores.shape)
            # a row without any key first lets its query see everything ...
            some = allowed.any(-1, keepdim=True)
            scores = torch.where(allowed | ~some, scores, -math.inf)
            # ... and then nothing
            weights = F.softmax(scores, -1) * some
        else:
            weights = F.softmax(scores, -1)
        return torch.bmm(weights, self.value_proj(x)), weights


@wrong(
    "does not divide the scores by the square root of D; every weight is too sharp",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "the scores are not scaled",
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
    "takes the vectors x themselves as the values, so value_proj is never used",
    "Each role has its own learned linear map:",
    "the values are not projected",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k = self.query_proj(x), self.key_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        return attend(scores, x, mask)


@wrong(
    "fills forbidden scores with -1e9 before a plain softmax; a position that may attend to nothing gets equal weights instead of 0",
    "If a position may not attend to anything, all its weights must be 0.",
    "a fully masked row becomes uniform",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=-1)
        return weights @ v, weights


@wrong(
    "takes the exponential of the scores without subtracting the largest; large x give inf / inf = nan",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "softmax by hand overflows",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        e = torch.exp(q @ k.mT / math.sqrt(q.size(-1)))
        if mask is not None:
            e = e * mask
        total = e.sum(dim=-1, keepdim=True)
        weights = e / torch.where(total > 0, total, torch.ones_like(total))
        return weights @ v, weights


@wrong(
    "applies the softmax to all keys first, then multiplies by the mask and divides by the sum that is left; if a forbidden key has by far the largest score, the allowed weights have underflowed and the row sums to 0 instead of 1",
    "The mask says which positions each position may attend to.",
    "masks after the softmax, allowed weights underflow",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(dim=-1)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-20)
        return weights @ v, weights


@wrong(
    "indexes the scores with the mask, which works only for a mask of the full shape (B, T, T); a padding mask (B, 1, T) raises IndexError",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "the mask is not broadcast",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            if mask.dim() == 2:
                mask = mask.expand(x.size(0), -1, -1)
            scores[~mask] = float("-inf")
            weights = scores.softmax(dim=-1)
            weights = weights.masked_fill(~mask, 0.0)
        else:
            weights = scores.softmax(dim=-1)
        return weights @ v, weights


@wrong(
    "computes the scores in float32 and returns the weights like this; for bfloat16 x the weights are float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "the weights have the wrong dtype",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = (q @ k.mT).float() / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v.float(), mask)
        return contexts.to(x.dtype), weights


@wrong(
    "divides by the square root of the number of tokens T (k.size(1)) instead of the width D; right only if T = D",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "divides by the length instead of the width",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = torch.bmm(q, k.permute(0, 2, 1)) / math.sqrt(k.size(1))
        return attend(scores, v, mask)


@wrong(
    "joins the three weights once, at the first call, and keeps them; after an optimizer step or load_state_dict the old maps are still used",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "keeps a stale copy of the weights",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.joined = None

    def forward(self, x, mask=None):
        if self.joined is None:
            maps = [self.query_proj, self.key_proj, self.value_proj]
            self.joined = (
                torch.cat([m.weight for m in maps]),
                torch.cat([m.bias for m in maps]),
            )
        q, k, v = F.linear(x, *self.joined).chunk(3, dim=-1)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    "compares keys with queries (k @ q.mT), and takes the softmax over dim=1, and transposes at the end, but gives attend's mask in the wrong orientation: for a causal mask each position attends to itself and to later ones; no mask or a symmetric mask is right",
    "A padding mask forbids padding, and a causal mask forbids all later positions.",
    "the mask is transposed",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = k @ q.mT / math.sqrt(x.size(-1))  # keys by queries
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=1).nan_to_num(0.0).mT
        return weights @ v, weights
