import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right('mask as a factor, counted before it is converted')
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)  # (B, S, 1)
        count = real.sum(dim=1).clamp(min=1)  # (B, 1), integers
        c = (states * real.to(states.dtype)).sum(dim=1) / count.to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@right('a loop over the sentences, also through the network, with choice by the mask')
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        rows = []
        for h, m in zip(states, mask):
            real = h[m]  # (n, D), perhaps without any row
            c = real.sum(dim=0) / max(len(real), 1)
            rows.append(self.outer(self.dropout(self.inner(c).tanh())))
        return torch.stack(rows)


@right('float64 and einsum inside, then columns: W (D, D) times (D, B)')
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.long().sum(dim=-1)
        share = mask.double() / n.clamp(min=1)[:, None]  # (B, S)
        c = torch.einsum("bs,bsd->db", share, states.double())
        z = self.inner.weight.double() @ c + self.inner.bias.double()[:, None]
        z = F.dropout(torch.tanh(z), self.dropout.p, self.dropout.training)
        out = self.outer.weight.double() @ z + self.outer.bias.double()[:, None]
        return out.T.to(states.dtype)


def average(states, mask):
    sentence, position = mask.nonzero(as_tuple=True)
    tokens = states[sentence, position].double()  # (N, D)
    total = tokens.new_zeros(states.size(0), states.size(-1))
    total = total.index_add(0, sentence, tokens)
    count = torch.bincount(sentence, minlength=states.size(0))
    count = torch.where(count == 0, 1, count)
    return (total / count.unsqueeze(1)).to(states.dtype)


@right('flat list of the real tokens, index_add and bincount in a helper; tanh from sigmoid')
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        hidden = self.inner(average(states, mask))
        hidden = (2 * torch.sigmoid(2 * hidden.double()) - 1).to(states.dtype)
        return self.outer(self.dropout(hidden))


@wrong(
    'divides by the number of real tokens of the whole batch',
    breaks='$n_b$ is the number of real tokens of sentence b.',
    name='count of the whole batch',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        total = (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1)
        c = total / mask.sum().clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'averages the first n_b positions, as if padding were always at the end',
    breaks='Padding may be anywhere in a sentence.',
    name='padding taken to be at the end',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.sum(dim=1, keepdim=True)  # (B, 1)
        first = torch.arange(states.size(1), device=states.device) < n  # (B, S)
        total = (states * first.unsqueeze(-1).to(states.dtype)).sum(dim=1)
        c = total / n.clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'F.dropout(x, p) without training=, which also drops in eval mode',
    breaks='Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode.',
    name='dropout in eval mode',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        total = (states * real.to(states.dtype)).sum(dim=1)
        c = total / real.sum(dim=1).clamp(min=1).to(states.dtype)
        hidden = torch.tanh(self.inner(c))
        return self.outer(F.dropout(hidden, self.dropout.p))


@wrong(
    'tanh(dropout(...)) instead of dropout(tanh(...)): differs in train mode only',
    breaks='\\text{logits}_b = W_2\\, \\mathrm{dropout}\\big(\\tanh(W_1 c_b + b_1)\\big) + b_2',
    name='dropout before tanh',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        total = (states * real.to(states.dtype)).sum(dim=1)
        c = total / real.sum(dim=1).clamp(min=1).to(states.dtype)
        return self.outer(torch.tanh(self.dropout(self.inner(c))))


@wrong(
    'softmax over masked zeros: without a real token, it averages the padding',
    breaks='For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.',
    name='empty sentence averages its padding',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        scores = torch.zeros_like(mask, dtype=states.dtype)
        scores = scores.masked_fill(~mask, torch.finfo(states.dtype).min)
        share = scores.softmax(dim=-1).unsqueeze(1)  # (B, 1, S)
        c = (share @ states).squeeze(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'divides by 0 and repairs c with torch.where: right numbers, NaN in the gradients',
    breaks='For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.',
    name='NaN gradients behind torch.where',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.sum(dim=1, keepdim=True)
        total = (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1)
        c = torch.where(n > 0, total / n.to(states.dtype), 0.0)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'counts one by one in the dtype of the states: stops at 256 in bfloat16',
    breaks='Count the tokens before you convert: in bfloat16, a sum of ones stops at 256.',
    name='counts in bfloat16',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype)
        n = torch.zeros_like(real[:, 0])
        for s in range(real.size(1)):
            n = n + real[:, s]
        total = (states * real.unsqueeze(-1)).sum(dim=1)
        c = total / n.clamp(min=1).unsqueeze(-1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'zeroes the logits, not only c, of a sentence without tokens',
    breaks='\\text{logits}_b = W_2\\, \\mathrm{dropout}\\big(\\tanh(W_1 c_b + b_1)\\big) + b_2',
    name='empty sentence gets logits of 0',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        n = real.sum(dim=1)
        c = (states * real.to(states.dtype)).sum(dim=1) / n.clamp(min=1).to(states.dtype)
        logits = self.outer(self.dropout(torch.tanh(self.inner(c))))
        return logits.masked_fill(n == 0, 0.0)


@wrong(
    'squeeze() at the end removes the batch axis of a single sentence',
    breaks='Logits (B, num_labels).',
    name='squeeze of a batch of one',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(1)  # (B, 1, S)
        n = mask.sum(dim=1).clamp(min=1).view(-1, 1, 1).to(states.dtype)
        c = (real @ states) / n  # (B, 1, D)
        return self.outer(self.dropout(torch.tanh(self.inner(c)))).squeeze()


@wrong(
    'multiplies first and counts the states that are not zero: a real token with a zero state is not counted',
    breaks='$n_b$ is the number of real tokens of sentence b.',
    name='real zero states not counted',
)
class SentenceHead(nn.Module):
    """One answer for a whole sentence, from a body's states.

    Args:
        dim: D, width of the states.
        num_labels: the number of possible answers.
        dropout: the share of the numbers between the maps that is dropped in training.
    """

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        kept = states * mask.unsqueeze(-1).to(states.dtype)
        n = kept.ne(0).any(dim=-1).sum(dim=1, keepdim=True)
        c = kept.sum(dim=1) / n.clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))
