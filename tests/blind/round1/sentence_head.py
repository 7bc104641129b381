import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right('mask as numbers, sum over count')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@right('einsum with weights that sum to one')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        share = mask.to(states.dtype)
        share = share / share.sum(dim=1, keepdim=True).clamp_min(1.0)
        c = torch.einsum("bsd,bs->bd", states, share)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@right('sentence by sentence, boolean picking')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        rows = []
        for h, m in zip(states, mask):
            picked = h[m]
            rows.append(picked.sum(dim=0) / max(len(picked), 1))
        c = torch.stack(rows)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@right('masked_fill, and a divisor that is 1 where there is nothing; maps written out')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        kept = states.masked_fill(~mask[..., None], 0)
        count = mask.sum(1)
        count = torch.where(count > 0, count, torch.ones_like(count)).to(states.dtype)
        c = kept.sum(1) / count[:, None]
        h = F.linear(c, self.inner.weight, self.inner.bias).tanh()
        return F.linear(self.dropout(h), self.outer.weight, self.outer.bias)


@wrong(
    'mean over all positions',
    breaks='So first the states of a sentence are averaged, over its real tokens alone; then comes a small network:',
    name='padding averaged in',
    subtle=False,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        c = states.mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'padding is zeroed, but the sum is divided by S',
    breaks='$n_b$ is the number of real tokens of sentence b.',
    name='divided by all positions',
    subtle=False,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        c = (states * mask.unsqueeze(-1).to(states.dtype)).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'no tanh',
    breaks='\\text{logits}_b = W\\, \\mathrm{dropout}\\big(\\tanh(U c_b + u)\\big) + w',
    name='tanh forgotten',
    subtle=False,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return self.outer(self.dropout(self.inner(c)))


@wrong(
    '0/0 mended afterwards: the value is right, the gradient is NaN',
    breaks='A sentence without any has $c_b = 0$, and finite gradients.',
    name='NaN gradient of an empty sentence',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = torch.nan_to_num((states * real).sum(1) / real.sum(1))
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'the mask becomes float32 whatever the states are',
    breaks='The logits have the dtype of the states: where you turn the mask into numbers, write `mask.to(states.dtype)`.',
    name='mask as float32: half states fail',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).float()
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'dropout before the tanh',
    breaks='\\text{logits}_b = W\\, \\mathrm{dropout}\\big(\\tanh(U c_b + u)\\big) + w',
    name='dropout inside the tanh',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return self.outer(torch.tanh(self.dropout(self.inner(c))))


@wrong(
    'drops a tenth whatever share was asked for',
    breaks='dropout: share of the numbers between the two maps that training drops.',
    name='share of dropout fixed',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return self.outer(F.dropout(torch.tanh(self.inner(c)), 0.1, self.training))


@wrong(
    'takes the first n positions for the real ones',
    breaks='The mask (B, S) is True where a token is real.',
    name='padding assumed at the end',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.sum(1, keepdim=True)
        mask = torch.arange(mask.size(1), device=mask.device) < n
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'one sentence alone loses its axis',
    breaks='Logits (B, num_labels).',
    name='axis lost for B = 1',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)
        c = c.squeeze(0)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'an empty sentence gets logits 0 instead of c = 0',
    breaks='A sentence without any has $c_b = 0$, and finite gradients.',
    name='logits instead of the average set to zero',
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        c = (states * real).sum(1) / real.sum(1).clamp(min=1)

        logits = self.outer(self.dropout(torch.tanh(self.inner(c))))
        return logits.masked_fill(~mask.any(1, keepdim=True), 0)
