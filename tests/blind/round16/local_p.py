import torch
import torch.nn.functional as F
from torch import nn
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
COUNT = "In this formula, $S$ is the number of tokens in the sentence, without its padding."
WINDOW = "Apply the softmax only to the positions in the window."
COMBINE = "The window is a mask, and `&` combines it with the mask of the memory."
AFTER = "Multiply the weights by the Gaussian *after* the softmax."
GAUSSIAN = "Only the Gaussian gives $p_t$ a gradient."
MOST = "In the method *local-p*, each query predicts a position $p_t$ and attends only to the source positions that are at most $w$ away from it:"
FORMULA_P = r"p_t = S\, \sigma\big(u^\top \tanh(W h_t)\big), \qquad"
FORMULA_A = r"\alpha_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts}) \cdot \exp\Big(-\frac{(s - p_t)^2}{2\, (w/2)^2}\Big)"


class Given(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)


def share(self, query):
    """The predicted share of the sentence, (B, T, 1)."""
    return torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))


def places(scores):
    return torch.arange(scores.shape[-1], device=scores.device)


@right("one sentence after the other, without its padding, and zeros behind it")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        contexts, weights = [], []
        w, size = self.half_width, scores.shape[-1]
        for b, count in enumerate(memory.mask.flatten(1).sum(dim=-1).tolist()):
            p = count * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query[b]))))
            gap = torch.arange(count, device=scores.device) - p
            a = masked_softmax(scores[b, :, :count], gap.abs() <= w) * torch.exp(-2 * gap**2 / w**2)
            contexts.append(a @ memory.value[b, :count])
            weights.append(F.pad(a, (0, size - count)))
        return torch.stack(contexts), torch.stack(weights)


@right("one exponential for both factors: the logarithm of the softmax plus the logarithm of the Gaussian, written out in float64")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        rate = share(self, query).double()
        p = rate * memory.mask.sum(dim=-1, keepdim=True)
        gap = places(scores) - p
        inside = memory.mask & gap.detach().square().le(self.half_width**2)
        e = scores.double().masked_fill(~inside, -torch.inf)
        top = e.amax(dim=-1, keepdim=True).detach()
        e = e - top.masked_fill(top == -torch.inf, 0)
        total = e.exp().sum(dim=-1, keepdim=True)
        total = total.masked_fill(total == 0, 1)
        weights = torch.exp(e - total.log() - gap.square() / (2 * (self.half_width / 2) ** 2))
        return (weights @ memory.value.double()).to(scores.dtype), weights.to(scores.dtype)


@right("the window as p - w <= s <= p + w; einsum everywhere; sigmoid by tanh")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        hidden = torch.tanh(torch.einsum("btd,hd->bth", query, self.hidden_proj.weight))
        logit = torch.einsum("bth,h->bt", hidden, self.position_proj.weight[0])
        p = (memory.mask.sum(dim=-1) * (1 + torch.tanh(logit / 2)) / 2)[..., None]
        s = places(scores).expand_as(scores)
        inside = (s >= p - self.half_width) & (s <= p + self.half_width) & memory.mask
        weights = masked_softmax(scores, inside).mul(torch.exp(-0.5 * ((s - p) / (0.5 * self.half_width)) ** 2))
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


@right("weights the values by attend, with the Gaussian as its 'dropout', one query at a time")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        contexts, rows = [], []
        count = memory.mask.sum(dim=-1, keepdim=True)
        for t in range(scores.shape[1]):
            gap = places(scores) - count * share(self, query[:, t : t + 1])
            bell = torch.exp(-gap.square().mul(2).div(self.half_width * self.half_width))
            inside = torch.logical_and(memory.mask, gap.abs() <= self.half_width)
            context, flat = attend(scores[:, t : t + 1], memory.value, inside, dropout=Times(bell))
            contexts.append(context)
            rows.append(flat * bell)
        return torch.cat(contexts, dim=1), torch.cat(rows, dim=1)


@wrong("takes the length of the padded axis for the number of tokens: right without padding", breaks=COUNT, name="padding counted as tokens")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - scores.shape[-1] * share(self, query)
        inside = memory.mask & (gap.abs() <= self.half_width)
        weights = masked_softmax(scores, inside) * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("counts the tokens of the whole batch: right for a single sentence", breaks=COUNT, name="tokens of all sentences")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum() * share(self, query)
        inside = memory.mask & (gap.abs() <= self.half_width)
        weights = masked_softmax(scores, inside) * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("adds the logarithm of the Gaussian to the scores: the rows sum to one", breaks=AFTER, name="Gaussian before the softmax")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum(dim=-1, keepdim=True) * share(self, query)
        inside = memory.mask & (gap.abs() <= self.half_width)
        weights = masked_softmax(scores - gap**2 / (2 * (self.half_width / 2) ** 2), inside)
        return weights @ memory.value, weights


@wrong("applies the softmax to the whole sentence and cuts the window out of its weights", breaks=WINDOW, name="window after the softmax")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum(dim=-1, keepdim=True) * share(self, query)
        weights = masked_softmax(scores, memory.mask).masked_fill(gap.abs() > self.half_width, 0)
        weights = weights * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("rounds the predicted position to a whole number, as in local-m: the window is another one, and the network gets no gradient", breaks=GAUSSIAN, name="position rounded")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - (memory.mask.sum(dim=-1, keepdim=True) * share(self, query)).round()
        inside = memory.mask & (gap.abs() <= self.half_width)
        weights = masked_softmax(scores, inside) * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("halves the width by whole-number division: right for an even w, too narrow for an odd w, and 0 / 0 for w = 1", breaks=FORMULA_A, name="half of an odd width")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum(dim=-1, keepdim=True) * share(self, query)
        inside = memory.mask & (gap.abs() <= self.half_width)
        sigma = self.half_width // 2
        bell = torch.exp(-gap**2 / torch.tensor(2 * sigma**2, dtype=gap.dtype, device=gap.device))
        weights = masked_softmax(scores, inside) * bell
        return weights @ memory.value, weights


@wrong("leaves out the positions that are exactly w away: the predicted position is a whole number if the query is zero (half of an even count)", breaks=MOST, name="window without its ends")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum(dim=-1, keepdim=True) * share(self, query)
        inside = memory.mask & (gap.abs() < self.half_width)
        weights = masked_softmax(scores, inside) * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("for a single query, narrows the memory's own mask in place: later steps see only this window", breaks=INPUTS, name="mask of the memory narrowed")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum(dim=-1, keepdim=True) * share(self, query)
        inside = memory.mask
        if query.shape[1] == 1:
            inside &= gap.abs() <= self.half_width
        else:
            inside = inside & (gap.abs() <= self.half_width)
        weights = masked_softmax(scores, inside) * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("keeps the whole window inside the sentence: positions near its ends are moved to w or S - 1 - w", breaks=FORMULA_P, name="window kept inside the sentence")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        count = memory.mask.sum(dim=-1, keepdim=True)
        p = count * share(self, query)
        last = (count - 1 - self.half_width).to(p.dtype)
        low = torch.full_like(last, self.half_width)
        moved = torch.minimum(torch.maximum(p, low), last)
        gap = places(scores) - torch.where(low <= last, moved, p)
        inside = memory.mask & (gap.abs() <= self.half_width)
        weights = masked_softmax(scores, inside) * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights


@wrong("uses the window alone as the mask: padding just behind the end of a sentence gets weight", breaks=COMBINE, name="padding inside the window")
class LocalP(Given):
    def forward(self, scores, query, position, memory):
        gap = places(scores) - memory.mask.sum(dim=-1, keepdim=True) * share(self, query)
        weights = masked_softmax(scores, gap.abs() <= self.half_width)
        weights = weights * torch.exp(-gap**2 / (2 * (self.half_width / 2) ** 2))
        return weights @ memory.value, weights
