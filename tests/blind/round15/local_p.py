import math

import torch
from torch import nn
from torch.nn import functional as F

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
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."

NUMBER = (
    "In this formula, $S$ is the number of tokens in the sentence, without its padding."
)
AWAY = (
    "each query predicts a position $p_t$ and attends only to the source positions that"
    " are at most $w$ away from it:"
)
ONLY = "Apply the softmax only to the positions in the window."
MASK = "The window is a mask, and `&` combines it with the mask of the memory."
AFTER = "Multiply the weights by the Gaussian *after* the softmax."
PRODUCTS = (
    "The products are the weights that you return and compute the context from, and"
    " they need not sum to one."
)
GRADIENT = "Only the Gaussian gives $p_t$ a gradient."
FORMULA = r"\exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)"
ZERO = "Positions count from 0."


@wrong(
    "multiplies by the number of columns, padding included",
    breaks=NUMBER,
    name="counts the padding",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        S = scores.shape[-1]
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(S, device=scores.device) - S * share).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "leaves out positions that are exactly w away",
    breaks=AWAY,
    name="smaller instead of at most",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "divides the products by their sum",
    breaks=PRODUCTS,
    name="normalises again after the Gaussian",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)
        return weights @ memory.value, weights


@wrong(
    "takes half of w as a whole number: wrong for odd w, nan for w = 1",
    breaks=FORMULA,
    name="whole-number division of the window",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        sigma = self.half_width // 2
        weights = weights * torch.exp(-(distance**2) / (2 * sigma**2))
        return weights @ memory.value, weights


@wrong(
    "computes the context from the weights before the Gaussian",
    breaks=PRODUCTS,
    name="context without the Gaussian",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        context, weights = attend(
            scores, memory.value, memory.mask & (distance <= self.half_width)
        )
        return context, weights * torch.exp(-2 * (distance / self.half_width) ** 2)


@wrong(
    "detaches the predicted position, as one does for a mask",
    breaks=GRADIENT,
    name="the position gets no gradient",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = (memory.mask.sum(dim=-1, keepdim=True) * share).detach()
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "places the window around the rounded position, and the Gaussian around the exact",
    breaks=AWAY,
    name="the window's centre is rounded",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        places = torch.arange(scores.shape[-1], device=scores.device)
        window = (places - center.round()).abs() <= self.half_width
        weights = masked_softmax(scores, memory.mask & window)
        weights = weights * torch.exp(-2 * ((places - center) / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "softmax over the whole sentence, then zeros outside of the window",
    breaks=ONLY,
    name="cuts the window out after the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask) * (distance <= self.half_width)
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "squeeze() of the predictions: with T = 1, (B,) times (B, 1) is (B, B)",
    breaks=LENGTHS,
    name="squeeze removes the axis of a single query",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query))).squeeze()
        center = memory.mask.sum(dim=-1) * torch.sigmoid(energy)
        places = torch.arange(scores.shape[-1], device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "uses the window alone as the mask, so a window at the end reaches the padding",
    breaks=MASK,
    name="forgets the mask of the memory",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(dim=-1, keepdim=True) * share
        distance = (torch.arange(scores.shape[-1], device=scores.device) - center).abs()
        weights = masked_softmax(scores, distance <= self.half_width)
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@right("query by query")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        S, w = scores.shape[2], self.half_width
        places = torch.arange(S, device=scores.device)
        length = memory.mask.squeeze(1).sum(dim=1, keepdim=True)
        rows = []
        for t in range(scores.shape[1]):
            hidden = self.hidden_proj(query[:, t]).tanh()
            center = length * self.position_proj(hidden).sigmoid()
            gap = places - center
            window = torch.logical_and(gap >= -w, gap <= w)
            row = masked_softmax(scores[:, t], memory.mask[:, 0] & window)
            rows.append(row * torch.exp(-gap.square() / (2 * (w / 2) ** 2)))
        weights = torch.stack(rows, dim=1)
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("float64 inside and back")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = F.linear(query.double(), self.hidden_proj.weight.double()).tanh()
        energy = F.linear(hidden, self.position_proj.weight.double())
        center = memory.mask.double().sum(dim=-1, keepdim=True) * energy.sigmoid()
        places = torch.arange(
            scores.shape[-1], dtype=torch.float64, device=scores.device
        )
        gap = places - center
        allowed = memory.mask & (gap.abs() <= self.half_width)
        bell = torch.exp(-0.5 * (gap / (self.half_width / 2)) ** 2)
        weights = masked_softmax(scores.double(), allowed) * bell
        context = weights @ memory.value.double()
        return context.to(memory.value.dtype), weights.to(scores.dtype)


@right("cuts each window out of the scores and pads the result with zeros")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        B, T, S = scores.shape
        w = self.half_width
        lengths = memory.mask.flatten(1).sum(dim=1).tolist()
        shares = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        batch = []
        for b in range(B):
            rows = []
            for t in range(T):
                center = lengths[b] * shares[b, t]
                inside = [
                    s for s in range(lengths[b]) if abs(s - center.detach().item()) <= w
                ]
                if not inside:
                    rows.append(scores[b, t] * 0)
                    continue
                first, last = inside[0], inside[-1]
                part = scores[b, t, first : last + 1].softmax(dim=0)
                gap = torch.tensor(inside, device=scores.device) - center
                part = part * torch.exp(-2 * gap * gap / w**2)
                rows.append(F.pad(part, (first, S - 1 - last)))
            batch.append(torch.stack(rows))
        weights = torch.stack(batch)
        return torch.bmm(weights, memory.value), weights


@right("minus infinity outside of the window, the Gaussian written as exp of a sum")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        mask = memory.mask
        energy = self.position_proj(self.hidden_proj(query).tanh())
        length = torch.count_nonzero(mask, dim=-1).unsqueeze(-1)
        gap = (mask.new_ones(scores.shape[-1]).cumsum(dim=0) - 1) - length * torch.sigmoid(
            energy
        )
        allowed = (gap.detach().abs() <= self.half_width).logical_and(mask)
        empty = allowed.logical_not().all(dim=-1, keepdim=True)
        logs = F.log_softmax(
            scores.double().masked_fill(~(allowed | empty), -math.inf), dim=-1
        )
        weights = torch.exp(logs - 2 * gap.square() / self.half_width**2)
        weights = weights.masked_fill(empty, 0.0).to(scores.dtype)
        return weights.matmul(memory.value), weights
