import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong

REAL = "So first the states of a sentence are averaged, over its real tokens alone; then comes a small network:"
EMPTY = "A sentence without any has $c_b = 0$, and finite gradients."
DTYPE = "The logits have the dtype of the states: where you turn the mask into numbers, write `mask.to(states.dtype)`."


@right("shares of one, einsum")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        share = mask.to(states.dtype)
        share = share / share.sum(-1, keepdim=True).clamp(min=1)
        mean = torch.einsum("bs,bsd->bd", share, states.masked_fill(~mask[..., None], 0))
        return self.outer(self.dropout(self.inner(mean).tanh()))


@right("sentence by sentence")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        means = []
        for sentence, real in zip(states, mask):
            some = sentence[real]
            means.append((some / max(len(some), 1)).sum(dim=0))
        mean = torch.stack(means) if means else states.new_zeros(0, states.size(2))
        hidden = torch.tanh(self.inner(mean))
        return self.outer(self.dropout(hidden))


@right("a product of matrices, the maps written out")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        zero = states.new_zeros(())
        states = torch.where(mask.unsqueeze(2), states, zero)
        count = mask.sum(dim=1, keepdim=True)
        share = torch.where(count > 0, mask.to(states.dtype) / count.clamp_min(1), zero)
        mean = torch.bmm(share.unsqueeze(1), states).squeeze(1)
        hidden = F.dropout(F.linear(mean, self.inner.weight, self.inner.bias).tanh(), self.dropout.p, self.training)
        return F.linear(hidden, self.outer.weight, self.outer.bias)


@right("a running mean over the positions")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mean = states.new_zeros(states.size(0), states.size(2), dtype=torch.float64)
        count = mean.new_zeros(states.size(0), 1)
        for s in range(states.size(1)):
            here = mask[:, s, None]
            count = count + here
            step = (states[:, s] - mean) / count.clamp(min=1)
            mean = torch.where(here, mean + step, mean)
        return self.outer(self.dropout(torch.tanh(self.inner(mean.to(states.dtype)))))


@wrong("padding is averaged, too", breaks=REAL, name="mean over all positions", subtle=False)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mean = states.mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("divided by S", breaks="$n_b$ is the number of real tokens of sentence b.", name="divided by the length of the batch", subtle=False)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * real).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("no tanh", breaks="then comes a small network:", name="tanh forgotten", subtle=False)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        count = real.sum(dim=1).clamp(min=1)
        mean = (states * real / count.unsqueeze(1)).sum(dim=1)
        return self.outer(self.dropout(self.inner(mean)))


@wrong("NaN repaired afterwards", breaks=EMPTY, name="c is 0, but its gradient is NaN", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        mean = ((states * real).sum(dim=1) / real.sum(dim=1)).nan_to_num(0.0)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("counts, then takes the first n", breaks="Padding may stand anywhere in a sentence.", name="padding expected at the end", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        length = mask.sum(dim=1, keepdim=True)
        mask = torch.arange(states.size(1), device=states.device) < length
        real = mask.unsqueeze(-1).to(states.dtype)
        count = real.sum(dim=1).clamp(min=1)
        mean = (states * real / count.unsqueeze(1)).sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("the mask becomes float32", breaks=DTYPE, name="mask.float()", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).float()
        count = real.sum(dim=1).clamp(min=1)
        mean = (states * real / count.unsqueeze(1)).sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("F.dropout without the mode", breaks="dropout: share of the numbers between the two maps that training drops.", name="drops in eval mode, too", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        count = real.sum(dim=1).clamp(min=1)
        mean = (states * real / count.unsqueeze(1)).sum(dim=1)
        return self.outer(F.dropout(torch.tanh(self.inner(mean)), self.dropout.p))


@wrong("axes of length one squeezed away", breaks="Logits (B, num_labels).", name="one sentence or one label loses its axis", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).to(states.dtype)
        count = real.sum(dim=1).clamp(min=1)
        mean = (states * real / count.unsqueeze(1)).sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean)))).squeeze()


@wrong("writes zeros into the states", breaks="and your answer has good manners, which is one point (what it was handed is unchanged, and the dtype and the device are kept).", name="input changed in place", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        states.data[~mask] = 0
        count = mask.sum(dim=1, keepdim=True).clamp(min=1).to(states.dtype)
        mean = (states / count.unsqueeze(1)).sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("a sentence of padding gets the mean of all its positions", breaks=EMPTY, name="empty sentences read padding", subtle=True)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mask = mask | ~mask.any(dim=1, keepdim=True)
        real = mask.unsqueeze(-1).to(states.dtype)
        count = real.sum(dim=1).clamp(min=1)
        mean = (states * real / count.unsqueeze(1)).sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))
