import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


@right("query by query, with a softmax written by hand")
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def one(self, scores, ask, lengths, memory):
        part = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(ask))))
        places = torch.arange(scores.size(-1), device=scores.device)
        apart = places - lengths * part
        inside = memory.mask[:, 0] & (apart.abs() <= self.half_width)
        lowest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~inside, lowest).softmax(dim=-1)
        bell = torch.exp(-2 * apart**2 / self.half_width**2)
        return torch.where(inside, weights * bell, torch.zeros_like(weights))

    def forward(self, scores, query, position, memory):
        lengths = memory.mask[:, 0].sum(dim=-1, keepdim=True)
        rows = [
            self.one(row, ask, lengths, memory)
            for row, ask in zip(scores.unbind(1), query.unbind(1))
        ]
        weights = torch.stack(rows, dim=1)
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("everything in functions; matrix products with the weights")
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        hidden = (query @ self.hidden_proj.weight.mT).tanh()
        part = (hidden @ self.position_proj.weight.mT).sigmoid()  # (B, T, 1)
        centre = part * memory.mask.sum(dim=-1, keepdim=True)
        places = torch.arange(
            scores.size(2), device=scores.device, dtype=scores.dtype
        ).view(1, 1, -1)
        window = (places >= centre - self.half_width).logical_and(
            places <= centre + self.half_width
        )
        weights = masked_softmax(scores, window.logical_and(memory.mask))
        sigma = self.half_width / 2
        weights = weights * (-((places - centre) / sigma).square() / 2).exp()
        return weights.bmm(memory.value), weights


@right("one sentence after the other; the window is cut out by a second mask")
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def centre(self, query, length):
        energy = self.position_proj(self.hidden_proj(query).tanh())
        return length * energy.sigmoid()

    def forward(self, scores, query, position=None, memory=None):
        contexts, all_weights = [], []
        for i in range(scores.size(0)):
            mask = memory.mask[i]
            p = self.centre(query[i], mask.sum())
            distance = torch.arange(mask.size(-1), device=scores.device) - p
            near = distance.abs().le(self.half_width)
            weights = masked_softmax(scores[i], near & mask)
            weights = weights.mul(distance.pow(2).div(-0.5 * self.half_width**2).exp())
            contexts.append(weights @ memory.value[i])
            all_weights.append(weights)
        return torch.stack(contexts), torch.stack(all_weights)


@right("uses attend for the weights and multiplies the values afterwards")
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        lengths = torch.count_nonzero(memory.mask, dim=-1)
        network = nn.Sequential(self.hidden_proj, nn.Tanh(), self.position_proj)
        centres = torch.mul(network(query)[..., 0].sigmoid(), lengths)
        steps = torch.ones_like(scores).cumsum(dim=-1) - 1
        distance = torch.sub(steps, centres[..., None])
        allowed = memory.mask & ~(distance.abs() > self.half_width)
        _, sharp = attend(scores, memory.value, allowed)
        bell = torch.exp(distance * distance / (-2 * (0.5 * self.half_width) ** 2))
        weights = sharp * bell
        return torch.matmul(weights, memory.value), weights


@wrong(
    "takes the width of the padded batch for S: all windows of a short sentence stand too far to the right, even in the padding",
    "In this formula, $S$ is the number of the sentence's own tokens, without the padding.",
    "padding counted as length of the sentence",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = scores.size(-1) * torch.sigmoid(energy)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "adds the exponent of the Gaussian to the scores: the weights sum to one again, and a window at the wrong place loses nothing",
    "The Gaussian multiplies the weights *after* the softmax.",
    "Gaussian before the softmax",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        scores = scores - distance**2 / (2 * (self.half_width / 2) ** 2)
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        return weights @ memory.value, weights


@wrong(
    "makes the context with the weights before the Gaussian: the returned weights are right, the context is not",
    "The context is weights times values.",
    "context without the Gaussian",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        context, weights = attend(
            scores, memory.value, memory.mask & (distance <= self.half_width)
        )
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return context, weights


@wrong(
    "halves the width with //: right for even widths, too narrow a Gaussian for 3 or 5, and nan (0 / 0) or 0 for 1",
    "\\cdot \\exp\\Big(-\\frac{(s - p_t)^2}{2\\, (w/2)^2}\\Big)",
    "half of the width is rounded down",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width // 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "squeeze() also removes the axis of a single query: with T = 1 and B > 1 every sentence gets the centres of all others, or it raises",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "squeeze removes the axis of one query",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query))).squeeze()
        centre = (memory.mask.sum(dim=-1) * torch.sigmoid(energy))[..., None]
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "the sigmoid as exp(x) / (1 + exp(x)): for a large x infinity divided by infinity, so the centre is nan and all weights are nan",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "sigmoid by exponentials overflows",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        power = self.position_proj(torch.tanh(self.hidden_proj(query))).exp()
        centre = memory.mask.sum(dim=-1, keepdim=True) * power / (1 + power)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "< instead of <=: with a centre on a whole number (a sentence of 8 tokens and u = 0) the two positions at distance w are missing",
    "In *local-p*, each query predicts a position $p_t$ and looks at most $w$ tokens to each side of it:",
    "window without its edges",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance < self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "softmax over the whole sentence, then everything outside of the window set to 0: right if the window covers the sentence, otherwise too small",
    "The softmax runs over the window only: a window is a mask, and two masks are combined with `&`.",
    "softmax runs over the whole sentence",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask)
        weights = weights.masked_fill(distance > self.half_width, 0)
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "detaches the centre: context and weights are right, but the two maps never get a gradient and never learn",
    "They need not sum to one; it is through the Gaussian that $p_t$ gets a gradient.",
    "no gradient reaches the position",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    @torch.no_grad()
    def distance(self, query, memory):
        energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
        centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        return (torch.arange(memory.mask.size(-1), device=query.device) - centre).abs()

    def forward(self, scores, query, position, memory):
        distance = self.distance(query, memory)
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong(
    "takes `position` for the centre where it is given and predicts only for None: right for everyone who passes None, wrong in a decoder that counts its positions",
    "`position` is for windows that move by themselves, and not needed here.",
    "uses the position that is handed in",
)
class LocalP(nn.Module):
    """Attend around a source position that the query predicts."""

    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        if position is None:
            energy = self.position_proj(torch.tanh(self.hidden_proj(query)))
            centre = memory.mask.sum(dim=-1, keepdim=True) * torch.sigmoid(energy)
        else:
            centre = torch.as_tensor(position, device=scores.device)[..., None]
        distance = (torch.arange(scores.size(-1), device=scores.device) - centre).abs()
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
