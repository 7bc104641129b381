import torch
from torch import nn

from attention_course.attention import attend, masked_softmax
from blind import right, wrong


class Given(nn.Module):
    """The lines of LocalP that the lab gives."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def share(self, query):
        """Where the network points, between 0 and 1: (B, T, 1)."""
        return torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))


@right("a loop over the queries")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        number = memory.mask.sum(dim=-1)  # (B, 1)
        places = torch.arange(scores.size(-1), device=scores.device)
        rows = []
        for t in range(scores.size(1)):
            centre = number * self.share(query[:, t])  # (B, 1)
            off = places - centre
            window = (off.abs() <= self.half_width) & memory.mask[:, 0]
            row = masked_softmax(scores[:, t : t + 1], window[:, None])
            rows.append(row * torch.exp(-2 * (off / self.half_width) ** 2)[:, None])
        weights = torch.cat(rows, dim=1).to(scores.dtype)
        return weights @ memory.value, weights


@right("einsum with the weights themselves, the window as two comparisons")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        u, W, w = self.position_proj.weight[0], self.hidden_proj.weight, self.half_width
        centre = torch.einsum("bth,h->bt", torch.tanh(query @ W.T), u).sigmoid() * memory.mask.sum(-1)
        s = torch.arange(scores.size(-1), device=scores.device)[None, None]
        low, high = (centre - w)[..., None], (centre + w)[..., None]
        inside = memory.mask & (s >= low) & (s <= high)
        gauss = (-((s - centre[..., None]).square()) / (w * w / 2)).exp()
        weights = masked_softmax(scores, inside) * gauss
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("own softmax with -inf and a repair of empty rows")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        length = memory.mask.count_nonzero(dim=-1).unsqueeze(-1)  # (B, 1, 1)
        off = torch.arange(scores.size(-1), device=scores.device) - length * self.share(query)
        allowed = memory.mask & ~(off.abs() > self.half_width)
        empty = ~allowed.any(dim=-1, keepdim=True)
        soft = scores.masked_fill(~allowed & ~empty, -torch.inf).softmax(dim=-1).masked_fill(empty, 0)
        weights = soft * torch.exp(-off.pow(2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@right("one sentence after the other, on its own tokens alone")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        everything = []
        for e, q, m in zip(scores, query, memory.mask[:, 0]):
            off = torch.arange(len(m), device=m.device) - m.sum() * self.share(q)  # (T, S)
            soft = masked_softmax(e[None], (m & (off.abs() <= self.half_width))[None])[0]
            everything.append(soft * torch.exp(-0.5 * (2 * off / self.half_width) ** 2))
        weights = torch.stack(everything)
        return torch.bmm(weights, memory.value), weights


@wrong(
    "takes the padded length for S: wrong in padded sentences",
    "In this formula, $S$ is the number of the sentence's own tokens, without the padding.",
    "padded length instead of own tokens",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        S = scores.size(-1)
        off = (torch.arange(S, device=scores.device) - S * self.share(query)).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "divides the products by their sum again",
    "The Gaussian multiplies the weights *after* the softmax.",
    "normalises after the Gaussian",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query)
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)
        return weights @ memory.value, weights


@wrong(
    "standard deviation w instead of w / 2",
    r"\exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)",
    "Gaussian is too wide",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query)
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * self.half_width**2))
        return weights @ memory.value, weights


@wrong(
    "rounds the centre to a whole position: window and Gaussian are shifted, and no gradient reaches the network",
    "Only through the Gaussian does $p_t$ get a gradient.",
    "centre rounded",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = (memory.mask.sum(-1)[..., None] * self.share(query)).round()
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "computes the Gaussian from a detached centre: numbers right, but the two projections never learn",
    "Only through the Gaussian does $p_t$ get a gradient.",
    "no gradient for the predicted position",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = (memory.mask.sum(-1)[..., None] * self.share(query)).detach()
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "positions count from 1",
    "Positions count from 0.",
    "positions from 1",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query)
        off = (torch.arange(1, scores.size(-1) + 1, device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "softmax over the whole sentence, and then zeros outside the window: the weights inside are too small unless the window covers everything",
    "The softmax runs over the window only: a window is a mask, and two masks are combined with `&`.",
    "window applied after the softmax",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query)
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask) * (off <= self.half_width)
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "strictly less than w: differs only if a centre lies at exactly w from a position, as with projections of zeros (sigmoid 0.5) and an even number of tokens",
    r"\alpha_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts})",
    "border of the window left out",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query)
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off < self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "predicts the centre from the first query and uses it for all T: right for one query",
    "In *local-p*, each query predicts a position $p_t$ and looks at most $w$ tokens to each side of it:",
    "one centre for all queries",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query[:, :1])
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (off <= self.half_width))
        weights = weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "the context comes from attend, that is, from the weights before the Gaussian; only the returned weights are multiplied",
    "The Gaussian multiplies the weights *after* the softmax.",
    "context without the Gaussian",
)
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        centre = memory.mask.sum(-1)[..., None] * self.share(query)
        off = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        context, weights = attend(scores, memory.value, memory.mask & (off <= self.half_width))
        return context, weights * torch.exp(-(off**2) / (2 * (self.half_width / 2) ** 2))
