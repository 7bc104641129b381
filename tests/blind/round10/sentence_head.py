import torch
import torch.nn.functional as F
from blind import right, wrong
from torch import nn


@right(
    'each sentence picks its real tokens with a boolean index, in a Python loop'
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        means = []
        for vectors, real in zip(states, mask):
            words = vectors[real]
            means.append(words.sum(dim=0) / max(len(words), 1))
        h = torch.stack(means)
        for layer in (self.inner, torch.tanh, self.dropout, self.outer):
            h = layer(h)
        return h


@right(
    'padding gets the state 0 by torch.where, and the share of each sentence is a reciprocal'
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        words = torch.where(mask[:, :, None], states, torch.zeros_like(states))
        number = mask.long().sum(dim=1, keepdim=True)
        one = torch.ones_like(number)
        share = 1 / torch.where(number == 0, one, number).double()
        c = words.sum(dim=1, dtype=torch.float64) * share
        inside = self.inner(c.to(states.dtype)).tanh()
        return self.outer(self.dropout(inside))


@right(
    'a matrix product with weights that are 1 / n at real tokens and 0 at padding'
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask, smallest=1):
        number = mask.count_nonzero(dim=1).clamp(min=smallest)
        weights = mask.to(states.dtype) / number.unsqueeze(1)
        c = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
        hidden = F.dropout(
            torch.tanh(F.linear(c, self.inner.weight, self.inner.bias)),
            self.dropout.p,
            self.training,
        )
        return torch.addmm(self.outer.bias, hidden, self.outer.weight.T)


@right(
    'all real tokens as one flat list, added to the row of their sentence with index_add'
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def average(states, mask):
        b, s = mask.nonzero(as_tuple=True)
        zeros = states.new_zeros(states.size(0), states.size(2))
        sums = zeros.index_add(0, b, states[b, s])
        return sums / mask.sum(dim=1).clamp_min(1).to(states.dtype).unsqueeze(-1)

    def forward(self, states, mask):
        network = nn.Sequential(self.inner, nn.Tanh(), self.dropout, self.outer)
        return network(self.average(states, mask))


@wrong(
    'averages over all S positions, padding included: wrong for a batch with padding',
    'So average the states over the real tokens of the sentence first.',
    'Padding counts in the average',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'divides by the number of real tokens even if it is 0: NaN for a sentence without any',
    'For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.',
    'Division by zero for an empty sentence',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(dim=1) / m.sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'F.dropout without `training`, which drops in eval mode as well: logits differ from call to call in eval mode',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'Dropout is active in eval mode',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(F.dropout(torch.tanh(self.inner(c)), self.dropout.p))


@wrong(
    'counts the real tokens and takes that many from the beginning: right with padding at the end, wrong with padding before or between the words',
    'Padding may be anywhere in a sentence.',
    'Assumes padding at the end',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.sum(dim=1, keepdim=True)
        first = torch.arange(mask.size(1), device=mask.device) < n  # (B, S)
        m = first.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(dim=1) / n.clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'turns the mask into float32 numbers: float32 and float64 states are fine, bfloat16 states become float32 and do not fit the weights',
    'The logits must have the dtype of the states, so convert the mask to numbers with `mask.to(states.dtype)`.',
    'Mask turned into float32',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).float()
        c = (states * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'lets 0 / 0 happen and replaces the NaN by 0: the logits are right, but the gradient of the states of a sentence without real tokens is NaN',
    'For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.',
    'NaN hidden in the result, not in the gradient',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(dim=1) / m.sum(dim=1)
        c = torch.where(c.isnan(), torch.zeros_like(c), c)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'squeezes the logits, which drops the axis of labels if there is one label, and the axis of sentences if there is one sentence',
    'Logits (B, num_labels).',
    'Axes of length one are dropped',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c)))).squeeze()


@wrong(
    'drops numbers of the average instead of those after tanh: right in eval mode and with dropout 0, wrong in train mode',
    'dropout: the share of the numbers between the maps that is dropped in training.',
    'Dropout before the first map',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(torch.tanh(self.inner(self.dropout(c))))


@wrong(
    'averages with a softmax over scores that are 0 at words and the smallest number at padding: right for every sentence with a word, but one without any gets the average of its padding instead of 0',
    'For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.',
    'Empty sentence averages its padding',
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        scores = torch.zeros_like(mask, dtype=states.dtype)
        scores = scores.masked_fill(~mask, torch.finfo(states.dtype).min)
        weights = scores.softmax(dim=1)  # 1 / n at each word
        c = (weights.unsqueeze(1) @ states).squeeze(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    'sets the padding to zero in the given states: the logits are right, but the input of a caller who goes on with it has changed (and states that are leaves with a gradient raise)',
    'Do not change the inputs.',
    "Overwrites the padding's states",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.sum(dim=1, keepdim=True).clamp(min=1).to(states.dtype)
        states[~mask] = 0
        c = states.sum(dim=1) / n
        return self.outer(self.dropout(torch.tanh(self.inner(c))))
