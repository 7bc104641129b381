import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

FIRST = "So average the states over the real tokens of the sentence first. Then apply a small network:"
FORMULA = r"c_b = \frac{1}{n_b} \sum_{s:\ m_{bs}} h_{bs}, \qquad \text{logits}_b = W_2\, \mathrm{dropout}\big(\tanh(W_1 c_b + b_1)\big) + b_2"
REAL = "$n_b$ is the number of real tokens of sentence b."
ANYWHERE = "Padding may be anywhere in a sentence."
EMPTY = "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite."
COUNT = "Count the tokens before you convert: in bfloat16, a sum of ones stops at 256."
MODES = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
SHAPE = "Logits (B, num_labels)."


@right("masked_fill and a sum, functional linear maps")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        total = states.masked_fill(~mask[:, :, None], 0).sum(dim=1)
        number = mask.sum(dim=1, keepdim=True).clamp(min=1)
        center = (total / number).to(states.dtype)
        hidden = torch.tanh(F.linear(center, self.inner.weight, self.inner.bias))
        return F.linear(self.dropout(hidden), self.outer.weight, self.outer.bias)


@right("shares of the mask in float64, einsum, and back")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        number = mask.sum(dim=1, keepdim=True, dtype=torch.int64)
        share = mask.double() / torch.where(number == 0, 1, number)
        center = torch.einsum("bs,bsd->bd", share, states.double()).to(states.dtype)
        return self.outer(self.dropout(self.inner(center).tanh()))


@right("a loop over the sentences, boolean indexing")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        centers = []
        for sentence, real in zip(states, mask):
            tokens = sentence[real]  # (n, D)
            centers.append(tokens.sum(dim=0) / max(len(tokens), 1))
        return self.outer(self.dropout(torch.tanh(self.inner(torch.stack(centers)))))


@right("collects the real tokens of all sentences, index_add in float64")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        batch, place = mask.nonzero(as_tuple=True)
        total = torch.zeros(
            states.size(0), states.size(2), dtype=torch.float64, device=states.device
        )
        total = total.index_add(0, batch, states[batch, place].double())
        number = torch.bincount(batch, minlength=states.size(0)).clamp(min=1)
        center = (total / number.unsqueeze(1)).to(states.dtype)
        hidden = self.dropout((center @ self.inner.weight.T + self.inner.bias).tanh())
        return hidden @ self.outer.weight.T + self.outer.bias


@wrong('divides by the number of positions, padding included', breaks=REAL, name='divides by S')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        center = (states * mask.unsqueeze(-1).to(states.dtype)).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(center))))


@wrong('averages the first n_b positions, as if all padding were at the end', breaks=ANYWHERE, name='padding taken to be at the end')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        number = mask.sum(dim=1, keepdim=True)
        first = torch.arange(states.size(1), device=states.device) < number  # (B, S)
        total = (states * first.unsqueeze(-1).to(states.dtype)).sum(dim=1)
        center = total / number.clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(center))))


@wrong('drops numbers before the tanh, which differs in train mode only', breaks=FORMULA, name='dropout before the tanh')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        center = (states * real.to(states.dtype)).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.outer(torch.tanh(self.dropout(self.inner(center))))


@wrong('counts in the dtype of the states, one position after the other', breaks=COUNT, name='counts in bfloat16')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype)
        number = torch.zeros_like(real[:, 0])
        for s in range(real.size(1)):
            number = number + real[:, s]
        total = (states * real.unsqueeze(-1)).sum(dim=1)
        center = total / number.clamp(min=1).unsqueeze(-1)
        return self.outer(self.dropout(torch.tanh(self.inner(center))))


@wrong('F.dropout drops in eval mode, too, because its training is True by default', breaks=MODES, name='dropout in eval mode')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        center = (states * real.to(states.dtype)).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        hidden = torch.tanh(self.inner(center))
        return self.outer(F.dropout(hidden, self.dropout.p))


@wrong('divides by zero and replaces the nan afterwards, so the gradient is nan', breaks=EMPTY, name='nan_to_num after a division by zero')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        total = (states * real.to(states.dtype)).sum(dim=1)
        center = (total / real.sum(dim=1)).nan_to_num(0.0)
        return self.outer(self.dropout(torch.tanh(self.inner(center))))


@wrong('sets the logits of an empty sentence to 0, although the formula with c = 0 gives others', breaks=EMPTY, name='logits instead of c set to 0')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        number = mask.sum(dim=1, keepdim=True)
        total = (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1)
        logits = self.outer(self.dropout(torch.tanh(self.inner(total / number.clamp(min=1)))))
        return logits.masked_fill(number == 0, 0.0)


@wrong('squeeze() removes the batch axis, too, if there is one sentence', breaks=SHAPE, name='squeeze of a batch of one')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        weights = mask.unsqueeze(1).to(states.dtype)  # (B, 1, S)
        total = torch.bmm(weights, states).squeeze()
        center = total / mask.sum(dim=1, keepdim=True).clamp(min=1).squeeze()[..., None]
        return self.outer(self.dropout(torch.tanh(self.inner(center))))


@wrong('applies the first map and the tanh to every state, and averages then', breaks=FIRST, name='averages after the tanh')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        hidden = torch.tanh(self.inner(states)) * real.to(states.dtype)
        empty = torch.tanh(self.inner.bias) * (~mask.any(dim=1, keepdim=True)).to(states.dtype)
        hidden = hidden.sum(dim=1) / real.sum(dim=1).clamp(min=1) + empty
        return self.outer(self.dropout(hidden))


@wrong('averages under no_grad, so that a body which is not frozen gets no gradient', breaks=GRADIENTS, name='average without gradients')
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        with torch.no_grad():  # nothing to learn in a mean
            number = mask.sum(dim=1, keepdim=True).clamp(min=1)
            center = (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1) / number
        return self.outer(self.dropout(torch.tanh(self.inner(center))))
