import torch
from torch import nn
from torch.nn import functional as F

from blind import right, wrong


class Head(nn.Module):
    """The notebook's __init__; every answer has it."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)


# ---------------------------------------------------------------- right


@right("A loop over sentences; one without tokens gets zeros of the states' kind")
class Loop(Head):
    def forward(self, states, mask):
        rows = []
        for h, m in zip(states, mask):
            real = [h[s] for s in range(len(h)) if m[s]]
            rows.append(torch.stack(real).mean(0) if real else h.new_zeros(h.size(-1)))
        c = torch.stack(rows) if rows else states.new_zeros(0, states.size(-1))
        return self.outer(self.dropout(self.inner(c).tanh()))


@right("Weights 1/n on the real tokens, all maps as einsum")
class Einsum(Head):
    def forward(self, states, mask):
        share = mask.to(states.dtype)
        share = share / share.sum(1, keepdim=True).clamp(min=1)
        c = torch.einsum("bs,bsd->bd", share, states)
        hidden = torch.tanh(torch.einsum("ij,bj->bi", self.inner.weight, c) + self.inner.bias)
        hidden = F.dropout(hidden, self.dropout.p, self.training)
        return torch.einsum("li,bi->bl", self.outer.weight, hidden) + self.outer.bias


@right("Picks the real tokens out of all sentences, adds them up with index_add, divides by bincount")
class Scatter(Head):
    def forward(self, states, mask):
        B, _, D = states.shape
        which = mask.nonzero()[:, 0]
        total = torch.zeros(B, D, dtype=states.dtype, device=states.device)
        total = total.index_add(0, which, states[mask])
        n = torch.bincount(which, minlength=B).clamp_min(1).unsqueeze(1)
        c = total / n.to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@right("Puts padding to zero with where, replaces n = 0 by 1, strings the maps together in a Sequential made on the spot")
class Where(Head):
    def forward(self, states, mask):
        kept = torch.where(mask[..., None], states, torch.zeros_like(states))
        n = mask.sum(-1)
        n = n + n.eq(0)
        c = kept.sum(-2).div(n[:, None])
        return nn.Sequential(self.inner, nn.Tanh(), self.dropout, self.outer)(c)


# ---------------------------------------------------------------- wrong


@wrong(
    "counts the real tokens and takes that many from the front",
    breaks="Padding may stand anywhere in a sentence.",
    name="padding taken to be at the end",
    subtle=True,
)
class PaddingAtTheEnd(Head):
    def forward(self, states, mask):
        lengths = mask.sum(1)
        first = torch.arange(mask.size(1), device=mask.device) < lengths[:, None]
        total = (states * first.unsqueeze(-1).to(states.dtype)).sum(1)
        c = total / lengths.clamp(min=1).unsqueeze(1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "divides by zero and repairs it with nan_to_num: the gradients are NaN all the same",
    breaks="A sentence without any has $c_b = 0$, and finite gradients.",
    name="NaN gradients behind a repaired number",
    subtle=True,
)
class NanToNum(Head):
    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = torch.nan_to_num((states * m).sum(1) / m.sum(1))
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "drops before tanh instead of after it",
    breaks=r"\text{logits}_b = W\, \mathrm{dropout}\big(\tanh(U c_b + u)\big) + w",
    name="dropout inside tanh",
    subtle=True,
)
class DropoutFirst(Head):
    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / m.sum(1).clamp(min=1)
        return self.outer(torch.tanh(self.dropout(self.inner(c))))


@wrong(
    "F.dropout with its own default of a half",
    breaks="dropout: share of the numbers between the two maps that training drops.",
    name="the share of dropout is not the one given",
    subtle=True,
)
class HalfDropped(Head):
    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / m.sum(1).clamp(min=1)
        x = F.dropout(torch.tanh(self.inner(c)), training=self.training)
        return self.outer(x)


@wrong(
    "maps every state with `inner` and averages then: the same, but for a sentence without tokens, which loses u",
    breaks="A sentence without any has $c_b = 0$",
    name="averages after the first map",
    subtle=True,
)
class MapThenMean(Head):
    def forward(self, states, mask):
        m = mask.to(states.dtype).unsqueeze(-1)
        mapped = self.inner(states) * m
        mean = mapped.sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(mean)))


@wrong(
    "sets the states on padding to zero in place",
    breaks="what it was handed is unchanged",
    name="wipes the states it was handed",
    subtle=True,
)
class InPlace(Head):
    def forward(self, states, mask):
        states = states.masked_fill_(~mask.unsqueeze(-1), 0.0)
        n = mask.sum(1, keepdim=True).clamp(min=1).to(states.dtype)
        c = states.sum(1) / n
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "mask.float(): with states in half precision the mean is float32, and the map refuses it",
    breaks="The logits have the dtype of the states: where you turn the mask into numbers, write `mask.to(states.dtype)`.",
    name="the mask is float32",
    subtle=True,
)
class MaskFloat(Head):
    def forward(self, states, mask):
        m = mask.float().unsqueeze(-1)
        c = (states * m).sum(1) / m.sum(1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "squeezes the logits: one sentence, or one label, loses its axis",
    breaks="Logits (B, num_labels).",
    name="squeeze takes too much",
    subtle=True,
)
class Squeezed(Head):
    def forward(self, states, mask):
        n = mask.sum(1).clamp(min=1).to(states.dtype)
        c = (mask.to(states.dtype).unsqueeze(1) @ states).squeeze(1) / n[:, None]
        return self.outer(self.dropout(torch.tanh(self.inner(c)))).squeeze()


@wrong(
    "makes padding zero and calls mean: divides by S",
    breaks="So first the states of a sentence are averaged, over its real tokens alone",
    name="divides by S",
)
class DividesByS(Head):
    def forward(self, states, mask):
        c = (states * mask.unsqueeze(-1).to(states.dtype)).mean(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "divides by the number of real tokens of the longest sentence in the batch",
    breaks="$n_b$ is the number of real tokens of sentence b.",
    name="one n for the whole batch",
)
class OneCount(Head):
    def forward(self, states, mask):
        m = mask.to(states.dtype)
        n = m.sum(1).max().clamp(min=1)
        c = torch.einsum("bs,bsd->bd", m, states) / n
        return self.outer(self.dropout(torch.tanh(self.inner(c))))
