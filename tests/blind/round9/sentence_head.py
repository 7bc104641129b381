import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong


@right("each sentence by itself, with the real states picked by the mask")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        means = []
        for sentence, real in zip(states, mask):
            words = sentence[real]
            means.append(words.sum(dim=0) / max(len(words), 1))
        h = self.inner(torch.stack(means)).tanh()
        return self.outer(self.dropout(h))


@right("weights 1/n as a row of a batched matrix product")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        share = mask.to(states.dtype)
        share = share / share.sum(dim=1, keepdim=True).clamp(min=1)
        mean = torch.bmm(share.unsqueeze(1), states).squeeze(1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@right("masked_fill and torch.where, functional maps")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        total = states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
        count = mask.sum(dim=1, keepdim=True)
        count = torch.where(count > 0, count, torch.ones_like(count)).to(states.dtype)
        h = F.linear(total / count, self.inner.weight, self.inner.bias)
        h = F.dropout(h.tanh(), self.dropout.p, training=self.training)
        return F.linear(h, self.outer.weight, self.outer.bias)


@right("index_add over the real tokens of the whole batch, the maps in a list")
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def average(self, states, mask):
        sentence, position = mask.nonzero(as_tuple=True)
        count = torch.bincount(sentence, minlength=len(states)).clamp(min=1)
        share = states[sentence, position] / count[sentence, None].to(states.dtype)
        mean = states.new_zeros(states.size(0), states.size(2))
        return mean.index_add(0, sentence, share)

    def forward(self, states, mask):
        x = self.average(states, mask)
        for step in (self.inner, torch.tanh, self.dropout, self.outer):
            x = step(x)
        return x


@wrong(
    "averages over all positions, padding included",
    "So average the states over the real tokens of the sentence first.",
    "padding counts in the average",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mean = states.mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "applies dropout before tanh: what is kept is scaled before tanh, so the logits in train mode have another distribution (in eval mode nothing differs)",
    r"\text{logits}_b = W_2\, \mathrm{dropout}\big(\tanh(W_1 c_b + b_1)\big) + b_2",
    "dropout inside tanh instead of outside",
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
        mean = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.outer(torch.tanh(self.dropout(self.inner(mean))))


@wrong(
    "makes float32 numbers of the mask: with a bfloat16 or float16 body and head, the linear map gets float32 and raises",
    "The logits must have the dtype of the states, so convert the mask to numbers with `mask.to(states.dtype)`.",
    "mask.float() promotes the dtype",
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
        mean = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "sets the states of padding to zero in the caller's tensor",
    "Do not change the inputs.",
    "states changed in place",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        states.data[~mask] = 0
        mean = states.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "squeezes all axes of length one: for one sentence (or width 1) the result has another shape",
    "Logits (B, num_labels).",
    "squeeze removes the batch axis",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        share = mask.to(states.dtype)
        share = share / share.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (share.unsqueeze(1) @ states).squeeze()
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "keeps the count from 0 with 1e-9, which is 0 in float16: an empty sentence gives NaN there",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "1e-9 vanishes in half precision",
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
        count = torch.maximum(real.sum(dim=1), torch.tensor(1e-9).to(real))
        mean = (states * real).sum(dim=1) / count
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "counts the real tokens and averages the first n states, so padding between or before the tokens is taken for a token",
    "Padding may be anywhere in a sentence.",
    "assumes that padding is at the end",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        count = mask.sum(dim=1, keepdim=True)
        first = torch.arange(states.size(1), device=states.device) < count
        real = first.unsqueeze(-1).to(states.dtype)
        mean = (states * real).sum(dim=1) / count.clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "divides by zero for an empty sentence and puts 0 in afterwards: the logits are right, the gradient with respect to the states is NaN",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "NaN repaired forwards, but not in the gradient",
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
        mean = (states * real).sum(dim=1) / real.sum(dim=1)
        mean = torch.nan_to_num(mean, nan=0.0)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "averages with a softmax over scores 0 and the lowest number: an empty sentence gets the mean of its padding instead of 0",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "empty sentence averages its padding",
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        scores = torch.zeros_like(mask, dtype=states.dtype)
        scores = scores.masked_fill(~mask, torch.finfo(states.dtype).min)
        share = scores.softmax(dim=1)
        mean = torch.einsum("bs,bsd->bd", share, states)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong(
    "gives an empty sentence logits of 0, but a mean of 0 still goes through the network and its biases",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "logits instead of the mean are set to zero",
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
        mean = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        logits = self.outer(self.dropout(torch.tanh(self.inner(mean))))
        return logits * mask.any(dim=1, keepdim=True)
