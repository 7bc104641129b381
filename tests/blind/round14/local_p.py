import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
POSITION = r"p_t = S\, \sigma\big(u^\top \tanh(W h_t)\big), \qquad"
WEIGHTS = (
    r"\alpha_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts}) \cdot"
    r" \exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)"
)
TOKENS = (
    "In this formula, $S$ is the number of tokens in the sentence, without its padding."
)
WINDOW = "Apply the softmax only to the positions in the window."
AFTER = "Multiply the weights by the Gaussian *after* the softmax."
ONLY = "Only the Gaussian gives $p_t$ a gradient."


@right("everything in float64, with minus infinity outside the window")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = F.linear(query.double(), self.hidden_proj.weight.double()).tanh()
        logit = F.linear(hidden, self.position_proj.weight.double())
        count = memory.mask.double().sum(dim=-1, keepdim=True)
        source = torch.arange(
            scores.shape[-1], device=scores.device, dtype=torch.float64
        )
        gap = source - count * torch.sigmoid(logit)
        inside = memory.mask & ~(gap.abs() > self.half_width)
        weights = masked_softmax(scores.double(), inside)
        weights = weights * torch.exp(-2 * (gap / self.half_width) ** 2)
        context = weights @ memory.value.double()
        return context.to(scores.dtype), weights.to(scores.dtype)


@right("sentence by sentence, each without its padding")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size, half = scores.shape[-1], self.half_width
        contexts, all_weights = [], []
        for b in range(len(scores)):
            count = int(memory.mask[b, 0].sum())
            source = torch.arange(count, device=scores.device)
            hidden = torch.tanh(self.hidden_proj(query[b]))
            p = self.position_proj(hidden).sigmoid() * count
            gap = source.to(p.dtype) - p
            low = scores[b, :, :count].masked_fill(gap.abs() > half, -math.inf)
            weights = low.softmax(dim=-1)
            weights = weights * torch.exp(gap.square() / (-0.5 * half**2))
            contexts.append(weights @ memory.value[b, :count])
            all_weights.append(F.pad(weights, (0, size - count)))
        return torch.stack(contexts), torch.stack(all_weights)


@right("in logarithms: the Gaussian is added after log_softmax")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(torch.einsum("btd,hd->bth", query, self.hidden_proj.weight))
        logit = torch.einsum("bth,h->bt", hidden, self.position_proj.weight[0])
        p = memory.mask.sum(dim=-1).to(logit.dtype) * logit.sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device).to(p.dtype)
        gap = (p.unsqueeze(-1) - source).abs()
        inside = memory.mask.logical_and(gap <= self.half_width)
        low = scores.double().masked_fill(~inside, -math.inf)
        log_weights = F.log_softmax(low, dim=-1)
        log_weights = log_weights - 2 * gap.double().square() / self.half_width**2
        weights = log_weights.exp().to(scores.dtype)
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("gathers the 2 w + 2 positions around p, and scatters the weights back")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        w, size = self.half_width, scores.shape[-1]
        logit = self.position_proj(self.hidden_proj(query).tanh()).double()
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * logit.sigmoid()
        first = p.detach().floor().long() - w
        place = first + torch.arange(2 * w + 2, device=scores.device)
        gap = place - p
        allowed = (place >= 0) & (place < count) & (gap.abs() <= w)
        index = place.clamp(0, size - 1)
        near = scores.double().gather(-1, index)
        near = masked_softmax(near, allowed) * torch.exp(-2 * (gap / w).square())
        weights = torch.zeros_like(scores, dtype=torch.float64)
        weights = weights.scatter_add(-1, index, near.masked_fill(~allowed, 0))
        weights = weights.to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    "takes the padded length of the source for S",
    TOKENS,
    "counts the padding",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        size = scores.shape[-1]
        p = size * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        gap = (torch.arange(size, device=scores.device).to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "adds the exponent of the Gaussian to the scores, so that the weights sum to one"
    " again",
    AFTER,
    "Gaussian inside the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        scores = scores - gap**2 / (2 * (self.half_width / 2) ** 2)
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        return weights @ memory.value, weights


@wrong(
    "uses w, not w / 2, as the deviation of the Gaussian",
    WEIGHTS,
    "Gaussian twice as wide",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        weights = weights * torch.exp(-(gap**2) / (2 * self.half_width**2))
        return weights @ memory.value, weights


@wrong(
    "takes the softmax over the whole sentence and cuts the window out afterwards",
    WINDOW,
    "window after the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask)
        weights = weights.masked_fill(gap > self.half_width, 0)
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "halves w with whole-number division: right for even w, too narrow for odd w, and a"
    " division by zero for w = 1",
    WEIGHTS,
    "whole-number division of w",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        sigma = torch.tensor(self.half_width // 2, device=p.device).to(p.dtype)
        weights = weights * torch.exp(-(gap**2) / (2 * sigma**2))
        return weights @ memory.value, weights


@wrong(
    "leaves out the positions that are exactly w away, which exist if p is a whole"
    " number: for an even S and a network whose output is 0",
    WINDOW,
    "window without its border",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap < self.half_width))
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "squeezes all axes of the predicted positions: for one query per sentence (T = 1)"
    " and several sentences, they are mixed up",
    LENGTHS,
    "squeeze breaks a single query",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1)
        logit = self.position_proj(self.hidden_proj(query).tanh()).squeeze()
        p = (count * logit.sigmoid()).unsqueeze(-1)
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "uses the hard window in eval mode only, so that in train mode a misplaced window"
    " can still learn",
    WINDOW,
    "no window in train mode",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (source.to(p.dtype) - p).abs()
        mask = memory.mask
        if not self.training:
            mask = mask & (gap <= self.half_width)
        weights = masked_softmax(scores, mask)
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "predicts the positions without gradients, as if they were only good for the window:"
    " the network never learns",
    ONLY,
    "position has no gradient",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        with torch.no_grad():
            count = memory.mask.sum(dim=-1, keepdim=True)
            p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
            source = torch.arange(scores.shape[-1], device=scores.device)
            gap = (source.to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "keeps the source positions from the first call: a longer source in a later call"
    " raises an error",
    CALLS,
    "positions kept from first call",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)
        self._source = None

    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()
        if self._source is None:
            self._source = torch.arange(scores.shape[-1], device=scores.device)
        gap = (self._source[: scores.shape[-1]].to(p.dtype) - p).abs()
        weights = masked_softmax(scores, memory.mask & (gap <= self.half_width))
        weights = weights * torch.exp(-(gap**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
