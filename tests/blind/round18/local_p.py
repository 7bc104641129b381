import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import masked_softmax
from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("one line per step, as the hints suggest")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, inside) * gaussian
        return weights @ memory.value, weights


@right("everything in float64, with its own softmax and a simplified exponent")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        W, u = self.hidden_proj.weight.double(), self.position_proj.weight.double()
        hidden = torch.einsum("btd,hd->bth", query.double(), W).tanh()
        share = torch.einsum("bth,h->bt", hidden, u.squeeze(0)).sigmoid()
        tokens = memory.mask.double().sum(dim=(1, 2)).view(-1, 1)
        s = torch.arange(scores.shape[2], dtype=torch.float64, device=scores.device)
        away = s.view(1, 1, -1) - (tokens * share).unsqueeze(2)
        inside = memory.mask & (away <= self.half_width) & (away >= -self.half_width)
        logits = scores.double().masked_fill(~inside, -torch.inf)
        logits = logits.masked_fill(~inside.any(dim=2, keepdim=True), 0)
        alpha = logits.softmax(dim=2) * inside
        alpha = alpha * torch.exp(-2 * (away / self.half_width).square())
        context = torch.einsum("bts,bse->bte", alpha, memory.value.double())
        return context.to(memory.value.dtype), alpha.to(scores.dtype)


@right("a loop over sentences and queries, with slices of the source")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        w = self.half_width
        rows = []
        for b in range(scores.size(0)):
            n = int(memory.mask[b].sum())
            for t in range(scores.size(1)):
                hidden = torch.tanh(self.hidden_proj(query[b, t]))
                p = n * torch.sigmoid(self.position_proj(hidden))
                near = [s for s in range(n) if abs(s - p.item()) <= w]
                if not near:
                    rows.append(torch.zeros_like(scores[b, t]))
                    continue
                first, stop = near[0], near[-1] + 1
                alpha = scores[b, t, first:stop].softmax(dim=0)
                away = torch.arange(first, stop, device=p.device) - p
                alpha = alpha * (-2 * away * away / (w * w)).exp()
                rows.append(F.pad(alpha, (first, scores.size(2) - stop)))
        weights = torch.stack(rows).unflatten(0, scores.shape[:2])
        return torch.bmm(weights, memory.value), weights


@right("gathers the few scores around each position and scatters the weights back")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def predict(self, query, mask):
        hidden = self.hidden_proj(query).tanh()
        return self.position_proj(hidden).sigmoid() * mask.sum(dim=-1, keepdim=True)

    def forward(self, scores, query, position, memory):
        B, T, S = scores.shape
        w = self.half_width
        p = self.predict(query, memory.mask)  # (B, T, 1)
        reach = min(w, S) + 1
        around = torch.arange(-reach, reach + 1, device=scores.device)
        at = p.detach().double().floor().long() + around  # (B, T, 2 reach + 1)
        real = (at >= 0) & (at < S)
        safe = at.clamp(0, S - 1)
        away = (safe - p) / (w / 2)
        allowed = memory.mask.expand(B, T, S).gather(2, safe) & real
        near = masked_softmax(scores.gather(2, safe), allowed & (away.abs() <= 2))
        near = near * torch.exp(-0.5 * away.square())
        weights = torch.zeros_like(scores).scatter_add(2, safe, near)
        return torch.matmul(weights, memory.value), weights


# ---------------------------------------------------------------- wrong answers


@wrong(
    "scales the position by the length of the source with its padding",
    breaks="In this formula, $S$ is the number of tokens in the sentence, without its"
    " padding.",
    name="length with padding",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = scores.size(-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, inside) * gaussian
        return weights @ memory.value, weights


@wrong(
    "applies the softmax to the whole sentence and cuts the window out of its weights",
    breaks="Apply the softmax only to the positions in the window.",
    name="window after the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        gaussian = gaussian * (distance <= self.half_width)
        weights = masked_softmax(scores, memory.mask) * gaussian
        return weights @ memory.value, weights


@wrong(
    "adds the exponent of the Gaussian to the scores, so the rows sum to one",
    breaks="Multiply the weights by the Gaussian *after* the softmax.",
    name="Gaussian inside the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        exponent = -(distance**2) / (2 * (self.half_width / 2) ** 2)
        weights = masked_softmax(scores + exponent, inside)
        return weights @ memory.value, weights


@wrong(
    "rounds the predicted position to a whole number, which stops its gradient",
    breaks="Only the Gaussian gives $p_t$ a gradient.",
    name="rounded position",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = (memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])).round()
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, inside) * gaussian
        return weights @ memory.value, weights


@wrong(
    "computes the context from the weights before the Gaussian",
    breaks="The products are the weights that you return and compute the context from,"
    " and they need not sum to one.",
    name="context without the Gaussian",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, inside)
        return weights @ memory.value, weights * gaussian


@wrong(
    "halves w with //, so the Gaussian is too narrow for every odd w (and nan for 1)",
    breaks=r"\alpha_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts}) \cdot"
    r" \exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)",
    name="integer division of the half width",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        sigma = torch.tensor(self.half_width // 2, device=scores.device)
        gaussian = torch.exp(-(distance**2) / (2 * sigma**2))
        weights = masked_softmax(scores, inside) * gaussian
        return weights @ memory.value, weights


@wrong(
    "puts the window around the position rounded down, so it reaches too far left and"
    " not far enough right",
    breaks="In the method *local-p*, each query predicts a position $p_t$ and attends"
    " only to the source positions that are at most $w$ away from it:",
    name="window around the floor",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = (memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0]))[..., None]
        source = torch.arange(scores.size(-1), device=scores.device)
        window = (source - centre.floor()).abs() <= self.half_width
        gaussian = torch.exp(
            -((source - centre) ** 2) / (2 * (self.half_width / 2) ** 2)
        )
        weights = masked_softmax(scores, memory.mask & window) * gaussian
        return weights @ memory.value, weights


@wrong(
    "counts the tokens in eight bits, which is wrong from 256 tokens on",
    breaks="Count them in `memory.mask`.",
    name="count overflows",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        tokens = memory.mask.sum(dim=-1, dtype=torch.uint8)
        centre = tokens * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, inside) * gaussian
        return weights @ memory.value, weights


@wrong(
    "subtracts the largest score of the whole row, so a window far below it vanishes",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up,"
    " for large and for small numbers, in train mode and in eval mode.",
    name="maximum from outside the window",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance <= self.half_width)
        powers = (scores - scores.amax(dim=-1, keepdim=True)).exp() * inside
        tiny = torch.finfo(scores.dtype).tiny
        weights = powers / powers.sum(dim=-1, keepdim=True).clamp_min(tiny)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gaussian
        return weights @ memory.value, weights


@wrong(
    "leaves out a position that is exactly w away",
    breaks="In the method *local-p*, each query predicts a position $p_t$ and attends"
    " only to the source positions that are at most $w$ away from it:",
    name="< instead of <=",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        u = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(u[..., 0])
        source = torch.arange(scores.size(-1), device=scores.device)
        distance = (source - centre[..., None]).abs()
        inside = memory.mask & (distance < self.half_width)
        gaussian = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, inside) * gaussian
        return weights @ memory.value, weights
