from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend


@right('einsum, the query scaled first')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)

        scores = torch.einsum('btd,bsd->bts', q * x.size(-1) ** -0.5, k)
        return attend(scores, v, mask)


@right('one product for all three maps')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight, bias = torch.cat([m.weight for m in maps]), torch.cat([m.bias for m in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        return attend((k @ q.mT).mT / math.sqrt(x.shape[-1]), v, mask)


@right('query by query, with the mask stretched to full size')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)

        b, t, d = x.shape
        full = torch.ones(b, t, t, dtype=torch.bool, device=x.device)
        full = full if mask is None else full & mask
        looks = [attend(q[:, i : i + 1] @ k.mT / d**0.5, v, full[:, i : i + 1]) for i in range(t)]
        contexts, weights = zip(*looks)
        return torch.cat(contexts, dim=1), torch.cat(weights, dim=1)


@right('baddbmm; the values mapped after they are looked up (weights summing to one or to zero)')
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k = self.query_proj(x), self.key_proj(x)
        scores = torch.baddbmm(x.new_zeros(1, 1, 1), q, k.mT, beta=0, alpha=1 / math.sqrt(x.size(-1)))
        mixed, weights = attend(scores, x, mask)
        total = weights.sum(-1, keepdim=True)
        return mixed @ self.value_proj.weight.T + total * self.value_proj.bias, weights


@wrong(
    'not scaled',
    breaks='$$ \\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad c_t = \\sum_s \\alpha_{ts} v_s $$',
    name='no scale',
    subtle=False,
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
    'keys as values',
    breaks='Each part has a learned map of its own:',
    name='keys taken as values',
    subtle=False,
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
        return attend(scores, k, mask)


@wrong(
    'no position asks itself',
    breaks='Every position asks all positions of the same sequence.',
    name='itself left out',
    subtle=False,
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

        others = ~torch.eye(x.size(1), dtype=torch.bool, device=x.device)
        return attend(scores, v, others if mask is None else mask & others)


@wrong(
    'takes every mask of two axes as (B, T)',
    breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    name='guesses what the axes of the mask are',
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
        scores = q @ k.mT / math.sqrt(q.size(-1))

        if mask is not None and mask.dim() == 2:
            mask = mask[:, None]
        return attend(scores, v, mask)


@wrong(
    'causal where no mask is given',
    breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    name='causal without being asked',
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
        scores = q @ k.mT / math.sqrt(q.size(-1))

        if mask is None:
            mask = torch.ones_like(scores, dtype=torch.bool).tril()
        return attend(scores, v, mask)


@wrong(
    'fills with -1e4 and softmaxes by itself: a row with nothing allowed asks everybody',
    breaks='The mask says which positions may be asked: padding may not, and where a sequence is written from left to right, no later position may (`causal_mask`).',
    name='uniform weights where nothing is allowed',
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
        scores = q @ k.mT / math.sqrt(q.size(-1))

        if mask is not None:
            scores = scores.masked_fill(~mask, -1e4)
        weights = scores.softmax(-1)
        return weights @ v, weights


@wrong(
    'divides by 4: right for width 16',
    breaks='$$ \\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad c_t = \\sum_s \\alpha_{ts} v_s $$',
    name='constant fitted to one width',
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
        return attend(q @ k.mT / 4, v, mask)


@wrong(
    'drops the axis of a batch of one',
    breaks='Contexts (B, T, D) and weights (B, T, T).',
    name='batch of one squeezed',
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
        scores = q @ k.mT / math.sqrt(q.size(-1))

        context, weights = attend(scores, v, mask)
        return context.squeeze(0), weights.squeeze(0)


@wrong(
    'keeps the first mask of a size',
    breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    name='mask kept between calls',
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
        scores = q @ k.mT / math.sqrt(q.size(-1))

        if mask is not None:
            kept = self.__dict__.setdefault("kept", {})
            mask = kept.setdefault(mask.shape, mask)
        return attend(scores, v, mask)


@wrong(
    'drops out weights while training',
    breaks='$$ \\alpha_{ts} = \\mathrm{softmax}_s\\, \\frac{q_t^\\top k_s}{\\sqrt{D}}, \\qquad c_t = \\sum_s \\alpha_{ts} v_s $$',
    name='dropout in train mode',
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
        scores = q @ k.mT / math.sqrt(q.size(-1))
        return attend(scores, v, mask, nn.Dropout(0.1).train(self.training))
