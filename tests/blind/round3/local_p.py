import torch
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory  # noqa: F401
from blind import right, wrong


class Given(nn.Module):
    """The __init__ of the notebook, and the centres as most will write them."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def share(self, query):
        return torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))


@right("softmax of its own; the Gaussian by a power of two widths")
class OwnSoftmax(Given):
    def forward(self, scores, query, position, memory):
        n = memory.mask.sum(-1, keepdim=True)
        offset = torch.arange(scores.size(-1), device=scores.device) - n * self.share(
            query
        )
        inside = memory.mask & ~(offset.abs() > self.half_width)
        weights = scores.masked_fill(~inside, -torch.inf).softmax(-1)
        weights = weights.masked_fill(~inside, 0) * (-2 * (offset / self.half_width).square()).exp()
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("two sides of the window as two comparisons; queries one after the other")
class QueryByQuery(Given):
    def forward(self, scores, query, position, memory):
        where = torch.arange(scores.size(-1), device=scores.device)[None]
        length = memory.mask.flatten(1).sum(dim=1, keepdim=True)
        contexts, rows = [], []
        for t in range(query.size(1)):
            p = length * self.share(query[:, t])
            window = (where - p <= self.half_width) & (where - p >= -self.half_width)
            mask = memory.mask & window[:, None]
            row = masked_softmax(scores[:, t : t + 1], mask)
            sigma = self.half_width / 2
            row = row * torch.exp(-((where - p) ** 2) / (2 * sigma**2))[:, None]
            rows.append(row)
            contexts.append(row @ memory.value)
        return torch.cat(contexts, dim=1), torch.cat(rows, dim=1)


@right("v and W by einsum, the sigmoid by tanh, and the context by a weighted sum")
class Einsum(Given):
    def forward(self, scores, query, position, memory):
        hidden = torch.einsum("btd,hd->bth", query, self.hidden_proj.weight).tanh()
        logit = hidden @ self.position_proj.weight[0]
        share = (1 + torch.tanh(logit / 2)) / 2
        centre = memory.mask.count_nonzero(dim=-1) * share
        s = torch.arange(scores.shape[2], device=centre.device)
        distance = (s.view(1, 1, -1) - centre.unsqueeze(2)).abs()
        weights = masked_softmax(
            scores, torch.logical_and(memory.mask, distance <= self.half_width)
        )
        weights = weights * torch.exp(-0.5 * (2 * distance / self.half_width) ** 2)
        context = (weights[..., None] * memory.value[:, None]).sum(dim=2)
        return context, weights


@right("attends with the window, and puts the Gaussian on weights afterwards; sentences"
       " one by one")
class SentenceBySentence(Given):
    def forward(self, scores, query, position, memory):
        contexts, weights = [], []
        for e, q, mask, value in zip(scores, query, memory.mask, memory.value):
            p = self.share(q) * int(mask.sum())
            s = torch.arange(value.size(0), device=p.device).to(p)
            d = torch.abs(s - p)
            _, w = attend(e, value, mask & d.le(self.half_width))
            w = w * torch.exp(-d.pow(2) / (0.5 * self.half_width**2))
            weights.append(w)
            contexts.append(w.matmul(value))
        return torch.stack(contexts), torch.stack(weights)


@wrong(
    "S is the width of the padded batch",
    breaks="$S$ is the number of tokens of the sentence itself; padding is no part of"
    " it.",
    name="counts the padding",
    subtle=True,
)
class Padded(Given):
    def forward(self, scores, query, position, memory):
        centre = scores.size(-1) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "the mask is the window alone, so that the last window reaches into the padding",
    breaks="a window is a mask, and two masks are combined with `&`",
    name="window without the memory's mask",
    subtle=True,
)
class WindowOnly(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, distance <= self.half_width)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "divides the width by two in whole numbers",
    breaks="\\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big)",
    name="w // 2 for w / 2",
    subtle=True,
)
class WholeSigma(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        sigma = max(self.half_width // 2, 1)
        weights = weights * torch.exp(-(distance**2) / (2 * sigma**2))
        return weights @ memory.value, weights


@wrong(
    "the Gaussian is made from a centre without gradient",
    breaks="it is through the Gaussian that $p_t$ gets a gradient",
    name="centre detached",
    subtle=True,
)
class Detached(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre.detach()).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "forms the context before the Gaussian, from the weights of the window",
    breaks="The Gaussian multiplies the weights *after* the softmax. They need not sum"
    " to one; it is through the Gaussian that $p_t$ gets a gradient.",
    name="context without the Gaussian",
)
class ContextFirst(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        mask = memory.mask & (distance <= self.half_width)
        context, weights = attend(scores, memory.value, mask)
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return context, weights * gauss


@wrong(
    "makes the weights sum to one again",
    breaks="They need not sum to one",
    name="normalised after the Gaussian",
)
class Renormalised(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ memory.value, weights


@wrong(
    "narrows the memory's own mask for a single query",
    breaks="What comes in stays as it is",
    name="memory's mask changed in place",
    subtle=True,
)
class MaskInPlace(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        window = distance <= self.half_width
        mask = memory.mask
        if mask.shape == window.shape:
            mask &= window
        else:
            mask = mask & window
        weights = masked_softmax(scores, mask)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "the softmax runs over the whole sentence, and the window cuts weights out of it",
    breaks="The softmax runs over the window only",
    name="window after the softmax",
)
class WindowAfter(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, memory.mask) * (distance <= self.half_width)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "the ends of the window are outside: less than w for at most w",
    breaks="looks at most $w$ tokens to each side of it",
    name="< for <=",
    subtle=True,
)
class Open(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "positions are made as floats in the default dtype",
    breaks="what goes out has its dtype and its device",
    name="arange in float32",
    subtle=True,
)
class Float32Positions(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(dim=-1, keepdim=True) * self.share(query)
        s = torch.arange(scores.size(-1), dtype=torch.float32, device=scores.device)
        distance = (s - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights.to(memory.value.dtype) @ memory.value, weights
