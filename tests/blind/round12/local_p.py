import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax

from blind import right, wrong


@right("works with logarithms: the Gaussian's exponent is added to the log-softmax")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(self.hidden_proj(query).tanh()).to(wide)  # (B, T, 1)
        centre = memory.mask.sum(dim=-1, keepdim=True) * logit.sigmoid()
        places = torch.arange(scores.size(-1), device=scores.device).to(wide)
        difference = places - centre
        near = memory.mask & (difference.abs() <= self.half_width)
        logs = scores.to(wide).masked_fill(~near, -math.inf).log_softmax(dim=-1)
        weights = (logs - 2 * (difference / self.half_width).square()).exp()
        weights = weights.to(scores.dtype)
        return torch.bmm(weights, memory.value), weights


@right("everything in float64, squares instead of absolute values")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def _centres(self, query, mask):
        hidden = F.linear(query.double(), self.hidden_proj.weight.double()).tanh()
        logit = torch.einsum(
            "bth,h->bt", hidden, self.position_proj.weight[0].double()
        )
        return mask.sum(dim=-1).double() * torch.sigmoid(logit)

    def forward(self, scores, query, position, memory):
        centre = self._centres(query, memory.mask)[:, :, None]
        places = torch.arange(
            scores.shape[2], dtype=torch.float64, device=scores.device
        )
        squares = (places[None, None] - centre) ** 2
        near = squares <= self.half_width**2
        weights = masked_softmax(scores.double(), memory.mask.logical_and(near))
        weights = weights * torch.exp(-squares / (2 * (self.half_width / 2) ** 2))
        context = torch.einsum("bts,bse->bte", weights, memory.value.double())
        return context.to(memory.value.dtype), weights.to(scores.dtype)


@right("loops over sentences and queries, and cuts the window out of the scores")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def _one(self, scores, query, length):
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[0]
        p = length * torch.sigmoid(logit.double())
        begin = max(math.ceil(float(p) - self.half_width), 0)
        end = min(math.floor(float(p) + self.half_width) + 1, length)
        places = torch.arange(begin, end, device=scores.device)
        alpha = scores[begin:end].double().softmax(dim=0)
        alpha = alpha * torch.exp(-2 * ((places - p) / self.half_width) ** 2)
        return F.pad(alpha, (begin, scores.size(0) - end)).to(scores.dtype)

    def forward(self, scores, query, position, memory):
        batch = []
        for b in range(scores.size(0)):
            length = int(memory.mask[b].sum())
            rows = [
                self._one(scores[b, t], query[b, t], length)
                for t in range(scores.size(1))
            ]
            batch.append(torch.stack(rows))
        weights = torch.stack(batch)
        return weights @ memory.value, weights


@right("torch.cdist for the distances, the sigmoid as a tanh")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query))).to(wide)
        lengths = memory.mask.count_nonzero(dim=-1)[:, :, None]  # (B, 1, 1)
        centre = lengths * (1 + torch.tanh(logit / 2)) / 2  # (B, T, 1)
        places = torch.arange(scores.size(-1), device=query.device, dtype=wide)
        places = places[None, :, None].expand(scores.size(0), -1, -1)  # (B, S, 1)
        distance = torch.cdist(centre, places, p=1.0)
        near = (distance <= self.half_width) & memory.mask
        gauss = torch.exp(-(distance**2) * 2 / self.half_width**2)
        weights = masked_softmax(scores, near) * gauss.to(scores.dtype)
        return weights @ memory.value, weights


@wrong(
    "takes the padded length for S",
    "In this formula, $S$ is the number of tokens in the sentence, without its padding.",
    "padding is counted",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = scores.size(-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss.to(weights.dtype)
        return weights @ memory.value, weights


@wrong(
    "adds the exponent of the Gaussian to the scores, before the softmax",
    "Multiply the weights by the Gaussian *after* the softmax.",
    "the Gaussian comes before the softmax",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        exponent = -(distance**2) / (2 * (self.half_width / 2) ** 2)
        near = memory.mask & (distance <= self.half_width)
        return attend(scores + exponent.to(scores.dtype), memory.value, near)


@wrong(
    "divides the products by their sum, so that they sum to one again",
    "The products are the weights that you return and compute the context from, and they need not sum to one.",
    "the weights are normalised again",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss.to(weights.dtype)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ memory.value, weights


@wrong(
    "computes the context from the weights before the Gaussian",
    "The products are the weights that you return and compute the context from, and they need not sum to one.",
    "the context does not contain the Gaussian",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        near = memory.mask & (distance <= self.half_width)
        context, weights = attend(scores, memory.value, near)
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return context, weights * gauss.to(weights.dtype)


@wrong(
    "makes the source positions in the dtype of the queries: in bfloat16, positions 256 and 257 are the same number",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in bfloat16",
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
        centre = memory.mask.sum(dim=-1, keepdim=True) * share  # (B, T, 1)
        places = torch.arange(
            scores.size(-1), device=scores.device, dtype=query.dtype
        )
        distance = (places - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss
        return weights @ memory.value, weights


@wrong(
    "the window ends before the distance w instead of at it: with p = 3 (a query of zeros and six tokens) and w = 2, positions 1 and 5 are missing",
    "In the method *local-p*, each query predicts a position $p_t$ and attends only to the source positions that are at most $w$ away from it:",
    "< instead of <=",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss.to(weights.dtype)
        return weights @ memory.value, weights


@wrong(
    "divides w by 2 in whole numbers: the Gaussian is too narrow for an odd w, and for w = 1 it divides by zero",
    "half_width: w, a whole number of tokens, at least 1.",
    "// instead of /",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        deviation = self.half_width // 2
        gauss = torch.exp(-(distance**2) / (2 * deviation**2))
        weights = weights * gauss.to(weights.dtype)
        return weights @ memory.value, weights


@wrong(
    "computes the positions without gradients: all values are right, but hidden_proj and position_proj never learn",
    "Only the Gaussian gives $p_t$ a gradient.",
    "the predicted position is detached",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        with torch.no_grad():
            logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
            centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss.to(weights.dtype)
        return weights @ memory.value, weights


@wrong(
    "squeeze() without an axis: with one query per sentence and B > 1, (B, 1, 1) becomes (B,), times the lengths (B, 1) that is (B, B), and the mask no longer fits the scores: an error",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes the axis of the queries, too",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query))).squeeze()
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss.to(weights.dtype)
        return weights @ memory.value, weights


@wrong(
    "the Gaussian is float32 at least, and so are the weights that it returns for bfloat16 scores; only the context is cast back",
    "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    "weights have the wrong dtype",
    subtle=True,
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        wide = torch.promote_types(query.dtype, torch.float32)
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(logit.to(wide))
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - centre[..., None]).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights * gauss
        return weights.to(memory.value.dtype) @ memory.value, weights
