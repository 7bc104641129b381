from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def remember(self, encoded):
        key = self.score.project_keys(encoded.states)
        return Memory(
            key,
            encoded.states,
            encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right('centres (B, T) by einsum')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.einsum('ad,btd->bta', self.hidden_proj.weight, query).tanh()
        center = (hidden @ self.position_proj.weight[0]).sigmoid() * memory.mask.sum(dim=-1)
        places = torch.arange(scores.size(2), device=scores.device)
        distance = (places[None, None, :] - center[..., None]).abs()
        inside = memory.mask.logical_and(distance <= self.half_width)
        weights = masked_softmax(scores, inside) * (-2 * (distance / self.half_width) ** 2).exp()
        return torch.einsum('bts,bse->bte', weights, memory.value), weights


@right('softmax by hand; places counted by a running sum')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share

        places = torch.ones_like(scores[:1, :1]).cumsum(-1) - 1
        offset = places - center
        inside = memory.mask & (offset >= -self.half_width) & (offset <= self.half_width)
        low = scores.masked_fill(~inside, torch.finfo(scores.dtype).min)
        soft = low.softmax(-1).masked_fill(~inside, 0)
        weights = soft * torch.exp(-0.5 * (offset / (self.half_width / 2)) ** 2)
        return weights @ memory.value, weights


@right('query by query')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share

        rows = []
        for t in range(scores.size(1)):
            distance = (torch.arange(scores.size(-1), device=scores.device) - center[:, t]).abs()
            inside = memory.mask[:, 0] & ~(distance > self.half_width)
            bell = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
            rows.append(masked_softmax(scores[:, t], inside) * bell)
        weights = torch.stack(rows, dim=1)
        return weights @ memory.value, weights


@right('the Gaussian from torch.distributions, without its factor')
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))

        sigma = self.half_width / 2
        bell = torch.distributions.Normal(0.0, sigma, validate_args=False).log_prob(distance)
        weights = weights * (bell + math.log(sigma * math.sqrt(2 * math.pi))).exp()
        return torch.matmul(weights, memory.value), weights


@wrong(
    'w in place of w/2',
    breaks='$$ p_t = S\\, \\sigma\\big(v^\\top \\tanh(W h_t)\\big), \\qquad \\alpha_{ts} = \\mathrm{softmax}_{s:\\, |s - p_t| \\le w}(e_{ts}) \\cdot \\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big) $$',
    name='width of the Gaussian',
    subtle=False,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * self.half_width**2))
        return weights @ memory.value, weights


@wrong(
    'the Gaussian is added to the scores, before the softmax',
    breaks='The Gaussian multiplies the weights *after* the softmax.',
    name='Gaussian before the softmax',
    subtle=False,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        scores = scores - distance.square() / (2 * (self.half_width / 2) ** 2)
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        return weights @ memory.value, weights


@wrong(
    'positions from 1',
    breaks='Positions count from 0.',
    name='positions count from 1',
    subtle=False,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(1, scores.size(-1) + 1, device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    'S with padding',
    breaks='$S$ is the number of tokens of the sentence itself; padding is no part of it.',
    name='padded length',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = scores.size(-1) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    'weights made to sum to one again',
    breaks='They need not sum to one; it is through the Gaussian that $p_t$ gets a gradient.',
    name='renormalised',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
        return weights @ memory.value, weights


@wrong(
    'the centre rounded to a token',
    breaks='$$ p_t = S\\, \\sigma\\big(v^\\top \\tanh(W h_t)\\big), \\qquad \\alpha_{ts} = \\mathrm{softmax}_{s:\\, |s - p_t| \\le w}(e_{ts}) \\cdot \\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big) $$',
    name='position rounded',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        center = center + (center.round() - center).detach()
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    'the centre detached',
    breaks='They need not sum to one; it is through the Gaussian that $p_t$ gets a gradient.',
    name='gradient of the position cut',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        center = center.detach()
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    'the window without the mask: padding inside it gets weight',
    breaks='The softmax runs over the window only: a window is a mask, and two masks are combined with `&`.',
    name='mask not combined with the window',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, distance <= self.half_width)
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    'positions at exactly w are left out',
    breaks='$$ p_t = S\\, \\sigma\\big(v^\\top \\tanh(W h_t)\\big), \\qquad \\alpha_{ts} = \\mathrm{softmax}_{s:\\, |s - p_t| \\le w}(e_{ts}) \\cdot \\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big) $$',
    name='window strictly smaller than w',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    'the context from the weights before the Gaussian',
    breaks='Context (B, T, E) and weights (B, T, S), zero outside the window.',
    name='context without the Gaussian',
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        center = memory.mask.sum(-1, keepdim=True) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - center).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        context = weights @ memory.value
        weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return context, weights
