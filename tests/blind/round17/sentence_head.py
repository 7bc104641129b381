import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

AVERAGE = "So average the states over the real tokens of the sentence first."
NUMBER = "$n_b$ is the number of real tokens of sentence b."
FORMULA = r"c_b = \frac{1}{n_b} \sum_{s:\ m_{bs}} h_{bs}, \qquad \text{logits}_b = W_2\, \mathrm{dropout}\big(\tanh(W_1 c_b + b_1)\big) + b_2"
DROPOUT = "dropout: the share of the numbers between the maps that is dropped in training."
ANYWHERE = "Padding may be anywhere in a sentence."
EMPTY = "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite."
INPUTS = "Do not change the inputs."
SHAPE = "Logits (B, num_labels)."


# ---------------------------------------------------------------- right answers


@right("weights of 1/n on the real tokens, contracted with einsum")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        number = mask.sum(dim=1, keepdim=True).clamp(min=1)  # integers
        shares = (mask.double() / number).to(states.dtype)
        mean = torch.einsum("bs,bsd->bd", shares, states)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@right("one sentence after the other, with boolean indexing; an empty one sums no rows")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.share = dropout

    def forward(self, states, mask):
        logits = []
        for rows, real in zip(states, mask):
            mean = rows[real].sum(dim=0) / max(int(real.sum()), 1)
            thought = F.dropout(self.inner(mean).tanh(), self.share, self.training)
            logits.append(self.outer(thought))
        return torch.stack(logits)


@right("the inner map without its bias is applied to every token before the average")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mapped = F.linear(states, self.inner.weight)
        mapped = mapped.masked_fill(~mask[:, :, None], 0.0)
        number = torch.count_nonzero(mask, dim=1).clamp(min=1)
        mean = mapped.sum(dim=1) / number[:, None].to(states.device)
        thought = torch.tanh(mean.to(states.dtype) + self.inner.bias)
        return F.linear(self.dropout(thought), self.outer.weight, self.outer.bias)


@right("scatters all real tokens of the batch into their sentences with index_add")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)
        self.rest = nn.Sequential(self.inner, nn.Tanh(), self.dropout, self.outer)

    def forward(self, states, mask):
        sentence = mask.nonzero()[:, 0]
        number = torch.bincount(sentence, minlength=len(states)).clamp(min=1)
        wide = torch.float64 if states.dtype == torch.float64 else torch.float32
        total = torch.zeros(len(states), states.size(-1), dtype=wide, device=states.device)
        total = total.index_add(0, sentence, states[mask].to(wide))
        return self.rest((total / number[:, None]).to(states.dtype))


# ---------------------------------------------------------------- wrong answers


@wrong("sets the states of padding to zero and divides by S",
       breaks=NUMBER, name="divides by all positions")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mean = (states * mask.unsqueeze(-1).to(states.dtype)).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("takes the state of the first token, as BERT's pooler does",
       breaks=AVERAGE, name="the first token instead of the average")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        first = states[:, 0] * mask[:, :1].to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(first))))


@wrong("applies dropout before the tanh",
       breaks=FORMULA, name="dropout and tanh have changed places")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        number = real.sum(dim=1).clamp(min=1)
        mean = (states * real.to(states.dtype)).sum(dim=1) / number.to(states.dtype)
        return self.outer(torch.tanh(self.dropout(self.inner(mean))))


@wrong("calls F.dropout without training=self.training",
       breaks=DROPOUT, name="drops numbers in eval mode, too")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.p = dropout

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        number = real.sum(dim=1).clamp(min=1)
        mean = (states * real.to(states.dtype)).sum(dim=1) / number.to(states.dtype)
        return self.outer(F.dropout(torch.tanh(self.inner(mean)), self.p))


@wrong("divides by zero and repairs the result with torch.where",
       breaks=EMPTY, name="NaN in the gradients of an empty sentence")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        number = real.sum(dim=1)
        mean = (states * real.to(states.dtype)).sum(dim=1) / number.to(states.dtype)
        mean = torch.where(number > 0, mean, torch.zeros_like(mean))
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("counts the real tokens and averages that many from the first position on",
       breaks=ANYWHERE, name="takes padding to be at the end")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        lengths = mask.sum(dim=1, keepdim=True)
        real = torch.arange(mask.size(1), device=mask.device) < lengths
        total = states.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=1)
        mean = total / lengths.clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("multiplies mask and states as matrices and squeezes the result",
       breaks=SHAPE, name="a batch of one sentence loses its axis")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        number = mask.sum(dim=1).clamp(min=1).to(states.dtype)
        shares = mask.to(states.dtype) / number[:, None]
        mean = shares[:, None] @ states  # (B, 1, D)
        return self.outer(self.dropout(torch.tanh(self.inner(mean)))).squeeze()


@wrong("makes equal weights with a softmax over scores of -1e9 and 0",
       breaks=EMPTY, name="an empty sentence gets the average of its padding")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        scores = torch.zeros_like(states[:, :, 0]).masked_fill(~mask, -1e9)
        mean = (scores.softmax(dim=1).unsqueeze(-1) * states).sum(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("keeps the library's share of 0.1 whatever share is asked for",
       breaks=DROPOUT, name="the argument dropout is not used")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(0.1)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1)
        number = real.sum(dim=1).clamp(min=1)
        mean = (states * real.to(states.dtype)).sum(dim=1) / number.to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


@wrong("writes zeros into the states of padding, past autograd, before it sums them",
       breaks=INPUTS, name="overwrites the caller's states")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        states.data[~mask] = 0.0
        number = mask.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (states * mask.unsqueeze(-1)).sum(dim=1) / number.to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))
