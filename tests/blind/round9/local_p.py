import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


@right("the Gaussian as the exponential of a scaled square, einsum for the context")
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def _predict(self, query, mask):
        tokens = mask.count_nonzero(dim=-1)
        network = nn.Sequential(self.hidden_proj, nn.Tanh(), self.position_proj)
        return tokens[..., None] * network(query).sigmoid()

    def forward(self, scores, query, position, memory):
        center = self._predict(query, memory.mask)
        places = torch.arange(scores.size(-1), device=scores.device)
        away = places - center
        window = memory.mask.logical_and(away.abs().le(self.half_width))
        gauss = torch.exp(-2 * (away / self.half_width).square())
        weights = masked_softmax(scores, window) * gauss
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("one query after the other")
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        w = self.half_width
        size = memory.mask.sum(dim=-1)[:, 0]
        index = torch.arange(scores.size(2), device=scores.device)[None]
        weights = []
        for t in range(query.size(1)):
            hidden = self.hidden_proj(query[:, t]).tanh()
            p = size * torch.sigmoid(self.position_proj(hidden)[:, 0])
            d = index - p[:, None]
            near = (d <= w) & (d >= -w) & memory.mask[:, 0]
            alpha = masked_softmax(scores[:, t, None], near[:, None])[:, 0]
            weights.append(alpha * torch.exp(-(d**2) / (2 * (w / 2) ** 2)))
        weights = torch.stack(weights, dim=1)
        return weights.bmm(memory.value), weights


@right("softmax by hand, u as a vector, subclass-free but with helpers of its own")
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def positions(self, query, lengths):
        u = self.position_proj.weight[0]
        return lengths * torch.sigmoid(torch.tanh(self.hidden_proj(query)) @ u)

    def forward(self, scores, query, position, memory):
        p = self.positions(query, memory.mask.sum(-1))[..., None]
        s = torch.arange(scores.shape[-1], device=scores.device).expand_as(scores)
        window = memory.mask & ((s - p).abs() <= self.half_width)
        e = torch.where(window, scores, torch.finfo(scores.dtype).min)
        power = torch.where(window, (e - e.amax(-1, keepdim=True)).exp(), 0)
        alpha = power / power.sum(-1, keepdim=True).clamp_min(0.5)
        sigma = self.half_width / 2
        weights = alpha * torch.exp(-((s - p) ** 2) / (2 * sigma**2))
        return torch.matmul(weights, memory.value), weights


@right("attend on the windowed scores for the weights, keyword arguments and extra defaults")
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position=None, memory=None, *, shrink=2):
        lengths = memory.mask.sum(dim=-1, keepdim=True)
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        columns = torch.ones_like(memory.mask, dtype=torch.long).cumsum(-1) - 1
        offset = columns - lengths * share
        window = memory.mask & ~(offset.abs() > self.half_width)
        _, alpha = attend(scores, memory.value, mask=window)
        deviation = self.half_width / shrink
        weights = alpha * (offset.pow(2) / (-2 * deviation**2)).exp()
        return weights @ memory.value, weights


@wrong(
    "S is the padded length of the batch, not the number of the sentence's tokens: wrong for every sentence that is shorter than the batch.",
    "In this formula, $S$ is the number of tokens in the sentence, without its padding.",
    "uses the padded length",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = scores.size(-1)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(size, device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "The Gaussian's deviation is w instead of w/2.",
    '\\alpha_{ts} = \\mathrm{softmax}_{s:\\, |s - p_t| \\le w}(e_{ts}) \\cdot \\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big)',
    "Gaussian twice too wide",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * self.half_width**2))
        return weights @ memory.value, weights


@wrong(
    "The products are normalised again, so that each row sums to one.",
    "Multiply the weights by the Gaussian *after* the softmax.",
    "normalises the weights after the Gaussian",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ memory.value, weights


@wrong(
    "The window is open: positions exactly w away are left out. Seen if p is a whole number, for example with a query of zeros (p = S/2) and an even number of tokens.",
    "each query predicts a position $p_t$ and attends only to source positions at most $w$ away from it",
    "leaves out the edge of the window",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "Whole-number division: for odd w the deviation is too small, and for w = 1 it is 0, so the weights are NaN or zero; right for even w.",
    '\\alpha_{ts} = \\mathrm{softmax}_{s:\\, |s - p_t| \\le w}(e_{ts}) \\cdot \\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big)',
    "whole-number division of an odd half width",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        sigma = self.half_width // 2
        size = memory.mask.sum(dim=-1, keepdim=True)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * sigma**2))
        return weights @ memory.value, weights


@wrong(
    "The softmax is masked by the window only: near the end of a short sentence the window reaches into the padding, which gets weight.",
    "The window is a mask, and `&` combines it with the mask of the memory.",
    "window ignores the padding",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, distance <= self.half_width)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "The position is detached: all numbers are right, but hidden_proj and position_proj get no gradient and never learn.",
    "Only the Gaussian gives $p_t$ a gradient.",
    "cuts the gradient of the predicted position",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        with torch.no_grad():
            hidden = torch.tanh(self.hidden_proj(query))
            p = size * torch.sigmoid(self.position_proj(hidden))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "All queries share the window of the first query of the call: right for T = 1 (so in every step of a search), wrong for whole targets.",
    "In the method *local-p*, each query predicts a position $p_t$",
    "one window for all queries",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        hidden = torch.tanh(self.hidden_proj(query[:, :1]))
        p = size * torch.sigmoid(self.position_proj(hidden))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "Softmax over all allowed positions, then the window as a factor and then divided by the sum in the window: equal for ordinary scores, but if the largest score lies far outside the window the sum underflows to 0 and the weights are NaN.",
    "Apply the softmax only to the positions in the window.",
    "softmax over everything, renormalised in the window",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = memory.mask.sum(dim=-1, keepdim=True)
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask) * (distance <= self.half_width)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "The numbers of tokens are counted once for each shape of the mask and kept: a later batch of the same shape with other lengths gets wrong positions.",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "remembers the lengths of an earlier batch",
)
class LocalP(nn.Module):
    """Attend to a window around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)
        self._sizes = {}

    def forward(self, scores, query, position, memory):
        # the source does not change while a target is decoded: count only once
        key = tuple(memory.mask.shape)
        if key not in self._sizes:
            self._sizes[key] = memory.mask.sum(dim=-1, keepdim=True)
        size = self._sizes[key]
        p = size * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
