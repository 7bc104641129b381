import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


@right("one query of one sentence at a time, with masked_softmax for each row")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def _row(self, scores, query, value, allowed):
        tokens = allowed.sum()
        p = tokens * self.position_proj(self.hidden_proj(query).tanh()).sigmoid()  # (1,)
        distance = (torch.arange(len(scores), device=scores.device) - p).abs()
        weights = masked_softmax(scores[None], (allowed & (distance <= self.half_width))[None])[0]
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ value, weights

    def forward(self, scores, query, position, memory):
        contexts, weights = [], []
        for b in range(scores.size(0)):
            rows = [
                self._row(scores[b, t], query[b, t], memory.value[b], memory.mask[b, 0])
                for t in range(scores.size(1))
            ]
            contexts.append(torch.stack([row[0] for row in rows]))
            weights.append(torch.stack([row[1] for row in rows]))
        return torch.stack(contexts), torch.stack(weights)


@right("window built with two comparisons, hidden positions removed with -inf and nan_to_num")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(F.linear(query, self.hidden_proj.weight))
        share = torch.sigmoid(hidden @ self.position_proj.weight[0])  # (B, T)
        centre = (share * memory.mask.sum(dim=-1))[:, :, None]
        difference = torch.arange(scores.shape[2], device=scores.device)[None, None] - centre
        inside = (difference <= self.half_width) & (difference >= -self.half_width) & memory.mask
        none = ~inside.any(dim=-1, keepdim=True)
        kept = scores.masked_fill(~inside, float("-inf")).masked_fill(none, 0.0)
        weights = kept.softmax(dim=-1).masked_fill(~inside, 0.0)
        weights = weights * torch.exp(-difference.square() / (2 * (self.half_width / 2) ** 2))
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("the weighted values are added up position by position; unused names, a keyword with a default")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def predict(self, query, memory):
        network = nn.Sequential(self.hidden_proj, nn.Tanh(), self.position_proj, nn.Sigmoid())
        return network(query) * memory.mask.sum(dim=-1, keepdim=True)  # (B, T, 1)

    def forward(self, scores, query, position=None, memory=None, *, sharpness=2):
        p = self.predict(query, memory)
        places = torch.arange(scores.size(-1), device=query.device).expand_as(scores)
        away = (places - p).abs()
        window = torch.logical_and(memory.mask, away.le(self.half_width))
        sigma = self.half_width / sharpness
        bell = away.pow(2).div(2 * sigma**2).neg().exp()
        weights = masked_softmax(scores, window).mul(bell)
        context = torch.matmul(weights, memory.value)
        return context, weights


@right("the product of softmax and Gaussian as a sum of logarithms in at least float32, cast back at the end")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(scores.dtype, torch.float32)
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        away = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        window = memory.mask & (away <= self.half_width)
        lowest = torch.finfo(wide).min
        logs = torch.log_softmax(scores.to(wide).masked_fill(~window, lowest), dim=-1)
        logs = logs - away.to(wide) ** 2 * (2 / self.half_width**2)
        weights = torch.where(window, logs.exp(), 0.0).to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    "multiplies by the padded length of the source instead of the number of tokens: wrong for every sentence with padding",
    "In this formula, $S$ is the number of tokens in the sentence, without its padding.",
    "counts the padding as tokens",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        length = scores.size(-1)
        p = length * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(length, device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "softmax over the whole sentence, positions outside the window set to zero afterwards: too small whenever a token is outside",
    "Apply the softmax only to the positions in the window.",
    "window applied after the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask) * (distance <= self.half_width)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "divides by the sum after the Gaussian, so that each row sums to one",
    "Multiply the weights by the Gaussian *after* the softmax. The products need not sum to one.",
    "weights renormalised after the Gaussian",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ memory.value, weights


@wrong(
    "squeeze() removes the axis of a single query, too: for T = 1 and several sentences (B,) * (B, 1) is (B, B)",
    "A single target position still has an axis of its own, of length one: a token is (B, 1), and its weights are (B, 1, S).",
    "squeeze without an axis, one query",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query)))).squeeze()
        p = memory.mask.sum(dim=-1) * share
        distance = (torch.arange(scores.size(-1), device=scores.device) - p[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "w // 2 instead of w / 2: for odd w the Gaussian is too narrow, and for w = 1 it divides by zero",
    r"\alpha_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts}) \cdot \exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)",
    "integer division of an odd window width",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width // 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "leaves out the positions exactly w away, which exist when p is a whole number (a query of zeros in a sentence of even length)",
    "In the method *local-p*, each query predicts a position $p_t$ and attends only to source positions at most $w$ away from it:",
    "border of the window excluded",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "float32 positions make the Gaussian float32: bfloat16 vectors get float32 weights and context",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "float32 positions widen the result",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        places = torch.arange(scores.size(-1), dtype=torch.float32, device=scores.device)
        distance = (places - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value.to(weights.dtype), weights


@wrong(
    "no brackets around the denominator, so it multiplies by (w/2)^2 instead of dividing: right for w = 2 only",
    r"\alpha_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts}) \cdot \exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)",
    "missing brackets, right only for w = 2",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / 2 * (self.half_width / 2) ** 2)
        return weights @ memory.value, weights


@wrong(
    "detaches the distances, which the window does not need a gradient for: the Gaussian has none either, so W and u never learn",
    "Only the Gaussian gives $p_t$ a gradient.",
    "predicted position gets no gradient",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1, keepdim=True)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs().detach()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "predicts one position from the first query and uses it for all T: right if the queries come one by one",
    "In the method *local-p*, each query predicts a position $p_t$ and attends only to source positions at most $w$ away from it:",
    "all queries share the first one's window",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        tokens = memory.mask.sum(dim=-1)  # (B, 1)
        p = tokens * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query[:, 0]))))
        distance = (torch.arange(scores.size(-1), device=scores.device) - p).abs()[:, None]
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
