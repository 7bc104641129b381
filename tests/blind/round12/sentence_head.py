import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong

AVERAGE = "So average the states over the real tokens of the sentence first."
NETWORK = "Then apply a small network:"
ANYWHERE = "Padding may be anywhere in a sentence."
EMPTY = "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite."
DTYPE = "The logits must have the dtype of the states, so convert the mask to numbers with `mask.to(states.dtype)`."
MODES = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."
KEEP = "Do not change the inputs."
EXACT = "Positions and counts, however, must be exact in every dtype."
LOGITS = "Logits (B, num_labels)."


# wrong, plain


@wrong(
    "averages over all positions, padding included",
    AVERAGE,
    "mask ignored",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        context = states.mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "no tanh between the two maps",
    NETWORK,
    "tanh forgotten",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        context = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(self.inner(context)))


@wrong(
    "F.dropout drops in eval mode, too",
    MODES,
    "dropout in eval mode",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        context = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.outer(F.dropout(torch.tanh(self.inner(context)), self.dropout.p))


# wrong, subtle


@wrong(
    "divides by 0 for an empty sentence, and replaces the result only afterwards",
    EMPTY,
    "NaN in the gradient of an empty sentence",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        count = real.sum(dim=1)  # (B, 1)
        mean = (states * real).sum(dim=1) / count
        context = torch.where(count > 0, mean, torch.zeros_like(mean))
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "counts the real tokens, and averages that many states from the left",
    ANYWHERE,
    "padding expected at the end",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        lengths = mask.sum(dim=1)  # (B,)
        contexts = [
            row[:length].sum(dim=0) / max(length, 1)
            for row, length in zip(states, lengths.tolist())
        ]
        context = torch.stack(contexts)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "sets the logits of an empty sentence to 0, although only its context is 0",
    EMPTY,
    "logits instead of context set to 0",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        context = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        logits = self.outer(self.dropout(torch.tanh(self.inner(context))))
        return logits.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


@wrong(
    "sets the states of padding to 0 in the caller's tensor",
    KEEP,
    "states changed in place",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        states.masked_fill_(~mask.unsqueeze(-1), 0.0)
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        context = states.sum(dim=1) / count
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "turns the mask into float32, and with it bfloat16 states",
    DTYPE,
    "mask.float() in place of the states' dtype",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.float().unsqueeze(-1)
        context = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "counts token by token in the dtype of the states: bfloat16 does not get beyond 256",
    EXACT,
    "inexact count of many tokens",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype)
        total = torch.einsum("bs,bsd->bd", real, states)
        count = states.new_zeros(states.size(0))
        for s in range(states.size(1)):
            count = count + real[:, s]
        context = total / count.clamp(min=1).unsqueeze(1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "squeezes the context, so that a batch of one sentence loses its axis",
    LOGITS,
    "axis of a single sentence lost",
    subtle=True,
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(1).to(states.dtype)  # (B, 1, S)
        count = real.sum(dim=2, keepdim=True).clamp(min=1)
        context = ((real @ states) / count).squeeze()
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


# right


@right("a loop over the sentences, each cut to its real tokens")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        contexts = []
        for row, real in zip(states, mask):
            chosen = row[real]
            contexts.append(chosen.sum(0) / max(1, len(chosen)))
        hidden = self.inner(torch.stack(contexts, dim=0)).tanh()
        return self.outer(self.dropout(hidden))


@right("adds the real tokens of the whole batch to their sentences, in float64")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        sentence, _ = mask.nonzero(as_tuple=True)
        wide = states.double()
        sums = wide.new_zeros(states.size(0), states.size(2))
        sums = sums.index_add(0, sentence, wide[mask])
        count = torch.bincount(sentence, minlength=states.size(0)).clamp(min=1)
        context = (sums / count[:, None]).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@right("shares that sum to one, in a product of matrices, and maps as functions")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        count = mask.sum(dim=-1, keepdim=True)
        shares = mask.double() / torch.where(count == 0, 1, count)
        context = torch.bmm(shares[:, None], states.double())[:, 0].to(states.dtype)
        hidden = torch.tanh(F.linear(context, self.inner.weight, self.inner.bias))
        hidden = F.dropout(hidden, p=self.dropout.p, training=self.training)
        return F.linear(hidden, self.outer.weight, self.outer.bias)


@right("zeros in place of padding by where, and the maps as a chain of modules")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        zeros = torch.zeros((), dtype=states.dtype, device=states.device)
        total = torch.where(mask[:, :, None], states, zeros).sum(dim=-2)
        count = mask.long().sum(dim=1).clamp_min(1).reshape(-1, 1)
        network = nn.Sequential(self.inner, nn.Tanh(), self.dropout, self.outer)
        return network(total.div(count))
