import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import masked_softmax
from blind import right, wrong

COUNT = "In this formula, $S$ is the number of tokens in the sentence, without its padding."
WINDOW = "Apply the softmax only to the positions in the window."
AND = "The window is a mask, and `&` combines it with the mask of the memory."
PRODUCTS = "The products are the weights that you return and compute the context from, and they need not sum to one."
GAUSS = "Multiply the weights by the Gaussian *after* the softmax."
GRADIENT = "Only the Gaussian gives $p_t$ a gradient."
AWAY = "In the method *local-p*, each query predicts a position $p_t$ and attends only to the source positions that are at most $w$ away from it:"
HALF = "half_width: w, a whole number of tokens, at least 1."
INPUTS = "Do not change the inputs."


@right("one sentence and one query after the other, over a slice of the source")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        contexts, tables = [], []
        for b in range(query.size(0)):
            length = int(memory.mask[b].sum())
            for one, row in zip(query[b], scores[b]):
                logit = self.position_proj(self.hidden_proj(one).tanh())
                center = length * logit.sigmoid()
                apart = torch.arange(length, device=row.device) - center
                near = (apart.abs() <= self.half_width).nonzero()[:, 0]
                share = row[near].softmax(dim=0)
                share = share * torch.exp(-2 * apart[near] ** 2 / self.half_width**2)
                weights = torch.zeros_like(row).index_add(0, near, share)
                tables.append(weights)
                contexts.append(weights @ memory.value[b])
        weights = torch.stack(tables).reshape(scores.shape)
        return torch.stack(contexts).reshape(*scores.shape[:2], -1), weights


@right("the Gaussian joins the logarithm of the softmax, in float64")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        logit = self.position_proj(hidden)[..., 0].double()
        center = torch.sigmoid(logit) * memory.mask[:, 0].sum(dim=1, keepdim=True)
        places = torch.arange(scores.size(2), device=scores.device)
        apart = places.view(1, 1, -1) - center[:, :, None]
        outside = ~memory.mask | (apart.abs() > self.half_width)
        shares = scores.double().masked_fill(outside, -1e300).log_softmax(dim=2)
        bell = -(apart**2) / (2 * (self.half_width / 2) ** 2)
        weights = torch.exp((shares + bell).masked_fill(outside, float("-inf")))
        context = torch.einsum("bts,bse->bte", weights, memory.value.double())
        return context.to(scores.dtype), weights.to(scores.dtype)


@right("counts the padding instead of the tokens, and compares with both borders")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = F.linear(query, self.hidden_proj.weight).tanh()
        logit = hidden @ self.position_proj.weight[0]
        padding = (~memory.mask).sum(dim=-1)
        center = ((scores.size(-1) - padding) * logit.sigmoid()).unsqueeze(-1)
        places = torch.arange(scores.size(-1), device=scores.device)
        apart = center - places
        after = apart <= self.half_width
        window = after & (apart >= -self.half_width) & memory.mask
        bell = torch.exp(-0.5 * (apart / (0.5 * self.half_width)) ** 2)
        weights = masked_softmax(scores, window).mul(bell)
        return torch.bmm(weights, memory.value), weights


@right("two softmax weights stand for the sigmoid, and the values are added up in a loop")
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        logit = self.position_proj(torch.tanh(self.hidden_proj(query)))
        pair = torch.cat([logit, torch.zeros_like(logit)], dim=-1)
        center = pair.softmax(dim=-1)[..., :1] * memory.mask.sum(dim=-1, keepdim=True)
        places = torch.arange(scores.size(-1), device=scores.device).expand(1, 1, -1)
        apart = torch.maximum(places - center, center - places)
        window = torch.logical_and(memory.mask, apart.le(self.half_width))
        shares = masked_softmax(scores, window)
        weights = shares * (-(apart**2) * 2 / self.half_width**2).exp()
        context = 0
        for s in range(scores.size(-1)):
            context = context + weights[..., s, None] * memory.value[:, s, None]
        return context, weights


@wrong(
    "multiplies the sigmoid by the length of the padded source",
    breaks=COUNT,
    name="padding counts as part of the sentence",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = scores.size(-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "divides the products by their sum",
    breaks=PRODUCTS,
    name="the weights are normalized again after the Gaussian",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / total.clamp(min=torch.finfo(weights.dtype).tiny)
        return weights @ memory.value, weights


@wrong(
    "computes the context from the weights before the Gaussian",
    breaks=PRODUCTS,
    name="the Gaussian has no effect on the context",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        context = weights @ memory.value
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return context, weights


@wrong(
    "leaves out positions that are exactly w away",
    breaks=AWAY,
    name="smaller than w instead of at most w",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "halves the width with //",
    breaks=HALF,
    name="an odd w above 1 is halved to a smaller whole number",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        deviation = max(self.half_width // 2, 0.5)
        bell = torch.exp(-(distance**2) / (2 * deviation**2))
        weights = weights * bell
        return weights @ memory.value, weights


@wrong(
    "combines the masks with &= in what may be the memory's own mask",
    breaks=INPUTS,
    name="for a single query, the window is written into the memory",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        mask = memory.mask.expand(distance.shape).contiguous()
        mask &= distance <= self.half_width
        weights = masked_softmax(scores, mask)
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "cuts the window out of the softmax over the sentence and divides by the rest",
    breaks=WINDOW,
    name="underflow if the largest score lies outside the window",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, memory.mask)
        weights = weights * (distance <= self.half_width)
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / total.clamp(min=torch.finfo(weights.dtype).tiny)
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "gives the softmax the window only",
    breaks=AND,
    name="padding in the window gets weight at the end of a sentence",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        weights = masked_softmax(scores, distance <= self.half_width)
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "rounds the center of the window, but not that of the Gaussian",
    breaks=AWAY,
    name="the window lies around a rounded position",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs()
        near = (places - center.round().unsqueeze(-1)).abs() <= self.half_width
        weights = masked_softmax(scores, memory.mask & near)
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights


@wrong(
    "detaches the distance, which the mask needs, before the Gaussian",
    breaks=GRADIENT,
    name="the network that predicts the position never learns",
)
class LocalP(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(self.hidden_proj(query))
        share = torch.sigmoid(self.position_proj(hidden)).squeeze(-1)
        center = memory.mask.sum(dim=-1) * share
        places = torch.arange(scores.size(-1), device=scores.device)
        distance = (places - center.unsqueeze(-1)).abs().detach()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-2 * (distance / self.half_width) ** 2)
        return weights @ memory.value, weights
