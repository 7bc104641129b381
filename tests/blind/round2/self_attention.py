from blind import right, wrong
import math

import torch
from torch import nn
import torch.nn.functional as F

from attention_course.attention import attend


@right('one product for the three maps, einsum for the scores')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        joint = F.linear(x, torch.cat([m.weight for m in maps]), torch.cat([m.bias for m in maps]))
        q, k, v = joint.chunk(3, dim=-1)
        return attend(torch.einsum("btd,bsd->bts", q, k) * x.size(-1) ** -0.5, v, mask)


@right('query after query, the mask spread out first')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        k, v = self.key_proj(x), self.value_proj(x)
        size = x.size(1)
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        mask = mask.broadcast_to(x.size(0), size, size)
        found = []
        for t in range(size):
            q = self.query_proj(x[:, t : t + 1])
            found.append(attend((q * k).sum(-1)[:, None] / math.sqrt(k.size(-1)), v, mask[:, t : t + 1]))
        contexts, weights = zip(*found)
        return torch.cat(contexts, 1), torch.cat(weights, 1)


@right('the softmax by hand with its maximum taken off')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = torch.baddbmm(
            x.new_zeros(()), self.query_proj(x), self.key_proj(x).mT, beta=0, alpha=1 / math.sqrt(x.size(2))
        )
        keep = torch.ones_like(scores, dtype=torch.bool)
        keep = keep if mask is None else keep & mask
        scores = torch.where(keep, scores, torch.finfo(scores.dtype).min)
        e = (scores - scores.amax(-1, keepdim=True)).exp() * keep
        weights = e / e.sum(-1, keepdim=True).clamp_min(torch.finfo(e.dtype).tiny)
        return torch.bmm(weights, self.value_proj(x)), weights


@right("scale shared by queries and keys, values projected after the sum's order is exchanged")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        root = math.sqrt(math.sqrt(x.size(-1)))
        columns = (self.key_proj(x) / root).transpose(1, 2)
        _, weights = attend((self.query_proj(x) / root).matmul(columns), x, mask)
        looked = weights @ x
        share = weights.sum(-1, keepdim=True)
        return looked @ self.value_proj.weight.T + share * self.value_proj.bias, weights


@wrong('scores without the scale', breaks='\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad', name='scale forgotten', subtle=False)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT
        return attend(scores, value, mask)


@wrong('keys ask queries', breaks='\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad', name='scores the wrong way round', subtle=False)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = key @ query.mT / math.sqrt(x.size(-1))
        return attend(scores, value, mask)


@wrong('the mask says what may not be asked', breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.', name='mask inverted', subtle=False)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        return attend(scores, value, None if mask is None else ~mask)


@wrong('the scale is the root of the length', breaks='\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad', name='scale by T, right when T = D', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-2))
        return attend(scores, value, mask)


@wrong('a mask of two axes is taken for a padding mask (B, T)', breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.', name='(T, T) mask read as (B, T)', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        if mask is not None and mask.dim() == 2 and mask.size(0) == x.size(0):
            mask = mask[:, None]
        return attend(scores, value, mask)


@wrong('zero vectors are left out as padding when there is no mask', breaks='None allows everything.', name='a mask guessed from zeros', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        if mask is None:
            mask = (x != 0).any(-1)[:, None]
        return attend(scores, value, mask)


@wrong('masked scores lowered by 20', breaks='padding may not', name='penalty too small: a large score comes through the mask', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores - 20.0 * ~mask
        weights = scores.softmax(-1)
        return weights @ value, weights


@wrong('exponentials without the maximum taken off', breaks='\\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad', name='softmax overflows for large scores', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        e = scores.exp()
        if mask is not None:
            e = e * mask
        weights = e / e.sum(-1, keepdim=True).clamp_min(1e-30)
        return weights @ value, weights


@wrong('a single position is handed through', breaks='c_t = \\sum_s \\alpha_{ts} v_s', name='T = 1: x instead of its value', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        if x.size(1) == 1 and mask is None:
            return x, x.new_ones(x.size(0), 1, 1)
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        return attend(scores, value, mask)


@wrong('no more than the first 64 positions can be found', breaks='Every position asks all positions of the same sequence.', name='keys cut at a constant length', subtle=True)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        near = torch.arange(x.size(1), device=x.device) < 64
        mask = near if mask is None else mask & near
        return attend(scores, value, mask)
