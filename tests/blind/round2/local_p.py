from blind import right, wrong
import math

import torch
from torch import nn
import torch.nn.functional as F

from attention_course.attention import attend, masked_softmax


@right('einsum, and the Gaussian simplified to exp(-2 (d/w)^2)')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.einsum("btd,hd->bth", query, self.hidden_proj.weight).tanh()
        gate = torch.einsum("bth,oh->bt", hidden, self.position_proj.weight).sigmoid()
        p = gate * memory.mask.sum(-1).to(gate.dtype)
        s = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
        d = s[None, None, :] - p[:, :, None]
        inside = (d.abs() <= self.half_width).logical_and(memory.mask)
        weights = masked_softmax(scores, inside) * (-2 * (d / self.half_width).square()).exp()
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right('row by row')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        sigma = self.half_width / 2
        places = torch.arange(scores.size(2), device=scores.device)
        all_rows = []
        for b in range(scores.size(0)):
            n = memory.mask[b, 0].sum()
            rows = []
            for t in range(scores.size(1)):
                p = n * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query[b, t]))))
                d = (places - p).abs()
                a = masked_softmax(scores[b, t], (d <= self.half_width) & memory.mask[b, 0])
                rows.append(a * torch.exp(-d * d / (2 * sigma * sigma)))
            all_rows.append(torch.stack(rows))
        weights = torch.stack(all_rows)
        return weights.matmul(memory.value), weights


@right('the window written as two comparisons, length through a cumulative sum')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        n = memory.mask.cumsum(-1)[..., -1:]
        p = torch.sigmoid(self.position_proj(self.hidden_proj(query).tanh())) * n
        s = torch.ones_like(scores).cumsum(-1) - 1
        window = (s >= p - self.half_width) & (s <= p + self.half_width) & memory.mask
        shape = torch.exp(-0.5 * ((s - p) / (self.half_width / 2)) ** 2)
        weights = shape * masked_softmax(scores, window)
        return torch.bmm(weights, memory.value), weights


@right('the softmax by hand, its empty rows zero')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        p = self.position_proj(torch.tanh(self.hidden_proj(query))).sigmoid()
        p = p * memory.mask.to(p.dtype).sum(-1, keepdim=True)
        d = torch.arange(scores.size(-1), device=p.device).to(p.dtype) - p
        keep = memory.mask & ~(d.abs() > self.half_width)
        low = torch.finfo(scores.dtype).min
        s = torch.where(keep, scores, low)
        e = torch.where(keep, (s - s.amax(-1, keepdim=True).detach()).exp(), 0)
        weights = e / e.sum(-1, keepdim=True).clamp_min(torch.finfo(e.dtype).tiny)
        weights = weights * torch.exp(-d.pow(2) * 2 / self.half_width**2)
        return weights @ memory.value, weights


@wrong('counts padding as part of the sentence', breaks='$S$ is the number of tokens of the sentence itself; padding is no part of it.', name='S with padding', subtle=False)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = scores.size(-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("adds the Gaussian's exponent to the scores", breaks='The Gaussian multiplies the weights *after* the softmax.', name='Gaussian inside the softmax', subtle=False)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores - distance**2 / (2 * (self.half_width / 2) ** 2), memory.mask & (distance <= self.half_width))
        return weights @ memory.value, weights


@wrong('weights made to sum to one again', breaks='They need not sum to one; it is through the Gaussian that $p_t$ gets a gradient.', name='renormalised after the Gaussian', subtle=False)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
        return weights @ memory.value, weights


@wrong('the distance is detached', breaks='it is through the Gaussian that $p_t$ gets a gradient.', name='gradient of the position cut', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs().detach()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong('strictly less than w', breaks='looks at most $w$ tokens to each side of it', name='edge of the window left out', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong('half of w by integer division', breaks='\\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big)', name='w // 2: right for even w only', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * max(self.half_width // 2, 0.5) ** 2))
        return weights @ memory.value, weights


@wrong('centre kept inside the sentence, at most S - 1', breaks='p_t = S\\, \\sigma\\big(v^\\top \\tanh(W h_t)\\big), \\qquad', name='p_t clamped to S - 1', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        centre = torch.minimum(centre, (length - 1).to(centre.dtype))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong('a position that is given is used', breaks='`position` is for windows that move by themselves, and not needed here.', name='position used as the centre', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        if position is not None:
            centre = torch.zeros_like(centre) + position
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong('the last query places the window of all', breaks='In *local-p* each query predicts a position $p_t$', name='one centre for all T queries', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query[:, -1:]))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong('scores outside the sentence overwritten in place', breaks='What comes in stays as it is, and what goes out has its dtype and its device.', name='scores changed in place', subtle=True)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = memory.mask.sum(dim=-1)
        centre = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        scores.data.masked_fill_(~memory.mask, 0.0)
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
