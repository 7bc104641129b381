import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


@right('softmax by hand, with the largest allowed score subtracted')
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = torch.einsum("btd,bsd->bts", q / math.sqrt(x.size(-1)), k)
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device)
        mask = mask.expand(scores.shape)
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        powers = (scores - scores.amax(dim=-1, keepdim=True).detach()).exp()
        powers = powers * mask.to(powers.dtype)
        total = powers.sum(dim=-1, keepdim=True)
        weights = powers / torch.where(total == 0, torch.ones_like(total), total)
        return weights @ v, weights


@right('loops over the positions that ask')
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        if mask is not None:
            mask = mask.broadcast_to(batch, length, length)
        keys, values = self.key_proj(x), self.value_proj(x)
        contexts, weights = [], []
        for t in range(length):
            q = self.query_proj(x[:, t : t + 1])
            row = None if mask is None else mask[:, t : t + 1]
            c, w = attend(q @ keys.transpose(1, 2) / dim**0.5, values, row)
            contexts.append(c)
            weights.append(w)
        return torch.cat(contexts, dim=1), torch.cat(weights, dim=1)


@right('one linear map for all three projections, then chunk')
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

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
        return attend((q * x.shape[-1] ** -0.5).matmul(k.mT), v, mask)


class Asking(nn.Module):
    def __init__(self, dim):
        super().__init__()
        for name in ("query_proj", "key_proj", "value_proj"):
            setattr(self, name, nn.Linear(dim, dim))

    def scores(self, x):
        q = self.query_proj(x)
        return torch.bmm(q, self.key_proj(x).transpose(1, 2)) / math.sqrt(q.shape[2])


@right('helper methods in a subclass, softmax over -inf with empty rows treated apart')
class SelfAttention(Asking):
    def forward(self, x, mask=None):
        scores = self.scores(x)
        if mask is None:
            weights = F.softmax(scores, dim=2)
        else:
            allowed = torch.broadcast_to(mask, scores.shape)
            empty = ~allowed.any(dim=2, keepdim=True)
            scores = scores.masked_fill(~(allowed | empty), float("-inf"))
            weights = F.softmax(scores, dim=2).masked_fill(empty, 0.0)
        return torch.bmm(weights, self.value_proj(x)), weights


@wrong(
    'the scores are not divided by the root of D: every input with D > 1',
    '\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad',
    'forgot the scale',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT, v, mask)


@wrong(
    'the softmax runs over the positions that ask, so the rows do not sum to one',
    '\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad',
    'softmax over the wrong axis',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

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
        weights = scores.softmax(dim=1)
        if mask is not None:
            weights = weights * mask
        return weights @ v, weights


@wrong(
    'the contexts are sums of x and not of the projected values',
    'For each use there is a learned map:',
    'value projection left out',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k = self.query_proj(x), self.key_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), x, mask)


@wrong(
    '-1e9 instead of minus infinity: a position that may attend to nothing gets equal weights on everything',
    'A position that may attend to nothing has weights of 0.',
    'fully masked rows become uniform',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

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
    'exponentials without subtracting the largest score: for scores above about 88 the weights are NaN',
    'Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.',
    'softmax overflows on large scores',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        powers = torch.exp(q @ k.mT / math.sqrt(x.size(-1)))
        if mask is not None:
            powers = powers.masked_fill(~mask, 0.0)
        total = powers.sum(dim=-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1.0)
        return weights @ v, weights


@wrong(
    'squeeze without an axis: with one sentence, or with one position, axes are lost',
    'Contexts (B, T, D) and weights (B, T, T).',
    'squeeze drops axes of length one',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = (q.unsqueeze(2) * k.unsqueeze(1)).sum(dim=-1, keepdim=True)
        context, weights = attend(
            scores.squeeze(-1) / math.sqrt(x.size(-1)), v, mask
        )
        return context.squeeze(), weights.squeeze()


@wrong(
    'the mask is reshaped to (B, T, T): a mask (B, 1, T) or (T, T) raises an error when B > 1',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'mask that only broadcasts is rejected',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        if mask is not None:
            mask = mask.reshape(batch, length, length)
        return attend(q @ k.mT / math.sqrt(dim), v, mask)


@wrong(
    'the largest score is taken over the whole matrix and forbidden keys too: a row far below it underflows to weights of 0',
    'Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.',
    "subtracts the global instead of the row's allowed maximum",
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        powers = (scores - scores.max()).exp()
        if mask is not None:
            powers = powers * mask
        weights = powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-38)
        return weights @ v, weights


@wrong(
    'the mask of the first call with a length is kept: a later call with another mask of the same shape uses the old one',
    'The mask says which positions each position may attend to: padding is forbidden, and where a sequence is written from left to right, later positions are forbidden (`causal_mask`).',
    'keeps an old mask by shape',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        if mask is not None:
            if not hasattr(self, "masks"):
                self.masks = {}
            mask = self.masks.setdefault(tuple(mask.shape), mask)
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    'the scale is the root of the length, which is right only where T = D',
    '\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad',
    'scale taken from the length, not the width',
)
class SelfAttention(nn.Module):
    """Every position asks all positions of the same sequence."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(k.size(-2)), v, mask)
