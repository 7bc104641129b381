import torch
from torch import nn

from blind import right, wrong


@right("goes through the sentences one by one, and takes the mean of the chosen rows")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        rows = []
        for sentence, real in zip(states, mask):
            if real.any():
                rows.append(sentence[real].mean(dim=0))
            else:
                rows.append((sentence * 0).sum(dim=0))
        c = torch.stack(rows)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@right("weights m / n in float64 and an einsum; the dropout multiplies by dropped ones")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        weights = mask.double()
        weights = weights / weights.sum(1, keepdim=True).clamp(min=1)
        c = torch.einsum("bs,bsd->bd", weights, states.double()).to(states.dtype)
        hidden = self.inner(c).tanh()
        return self.outer(hidden * self.dropout(torch.ones_like(hidden)))


@right("a running mean over the positions in float64, with the counts as integers")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)
        self.network = [self.inner, torch.tanh, self.dropout, self.outer]

    def forward(self, states, mask):
        mean = torch.zeros_like(states[:, 0], dtype=torch.float64)
        seen = torch.zeros_like(mask[:, :1], dtype=torch.long)
        for s in range(states.size(1)):
            real = mask[:, s, None]
            seen = seen + real.long()
            step = (states[:, s].double() - mean) / seen.clamp(min=1).double()
            mean = mean + torch.where(real, step, torch.zeros_like(step))
        x = mean.to(states.dtype)
        x = self.inner(x)
        x = torch.tanh(x)
        x = self.dropout(x)
        return self.outer(x)


@right("adds all real tokens of the batch into their sentences with index_add")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def pool(self, states, mask):
        owner = mask.nonzero()[:, 0]
        sums = states.new_zeros(len(states), states.size(2), dtype=torch.float64)
        sums = sums.index_add(0, owner, states[mask].double())
        counts = mask.long().sum(dim=1).clamp(min=1)
        return (sums / counts[:, None].double()).to(states)

    def forward(self, states, mask):
        c = self.pool(states, mask)
        hidden = torch.tanh(c @ self.inner.weight.T + self.inner.bias)
        return nn.functional.linear(
            nn.functional.dropout(hidden, self.dropout.p, training=self.dropout.training),
            self.outer.weight,
            self.outer.bias,
        )


@wrong(
    "ignores the mask: the mean of all positions",
    "So average the states over the real tokens of the sentence first.",
    "padding is in the mean",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        c = states.mean(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "sets padding to zero, but divides by S",
    "$n_b$ is the number of real tokens of sentence b.",
    "divides by the number of positions",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        c = (states * mask.unsqueeze(-1).to(states.dtype)).mean(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "calls functional.dropout without `training`, so it drops in eval mode, too",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "dropout in eval mode",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        hidden = torch.tanh(self.inner(c))
        return self.outer(nn.functional.dropout(hidden, self.dropout.p))


@wrong(
    "repairs 0 / 0 with torch.where afterwards: the result is right, but the gradient of the"
    " states of a sentence without tokens is NaN",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be"
    " finite.",
    "NaN gradients behind torch.where",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        sums = (states * mask.unsqueeze(-1).to(states.dtype)).sum(1)
        count = mask.sum(1, keepdim=True)
        c = torch.where(count > 0, sums / count, torch.zeros_like(sums))
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "takes the first n_b positions: right only if the padding is at the end",
    "Padding may be anywhere in a sentence.",
    "counts on padding at the end",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        lengths = mask.sum(1, keepdim=True)
        places = torch.arange(states.size(1), device=states.device)
        m = (places < lengths).unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / lengths.clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "drops before the tanh: in train mode, a kept number x becomes tanh(x / (1 - p)) and not"
    " tanh(x) / (1 - p)",
    r"W_2\, \mathrm{dropout}\big(\tanh(W_1 c_b + b_1)\big) + b_2",
    "dropout before the tanh",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return self.outer(torch.tanh(self.dropout(self.inner(c))))


@wrong(
    "squeeze() without an axis: a batch of one sentence gives logits (num_labels,)",
    "Logits (B, num_labels).",
    "squeezes the batch axis away",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.to(states.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
        c = torch.bmm(m.unsqueeze(1), states).squeeze()
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "sets the logits of a sentence without tokens to 0, not c: they should be"
    " W2 tanh(b1) + b2",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be"
    " finite.",
    "logits 0 instead of c 0",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        logits = self.outer(self.dropout(torch.tanh(self.inner(c))))
        return logits.masked_fill(~mask.any(1, keepdim=True), 0.0)


@wrong(
    "counts the tokens in a loop in the dtype of the states: in bfloat16, 256 + 1 is 256, so"
    " 600 tokens are counted as 256",
    "Positions and counts, however, must be exact in every dtype.",
    "bfloat16 count stops at 256",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.to(states.dtype)
        count = torch.zeros_like(m[:, :1])
        for s in range(m.size(1)):
            count = count + m[:, s : s + 1]
        c = (states * m.unsqueeze(-1)).sum(1) / count.clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "adds 1e-5 to the count instead of clamping it: in float64, a sentence of one token has"
    " c = h / 1.00001",
    "So average the states over the real tokens of the sentence first.",
    "epsilon in the mean of every sentence",
    subtle=True,
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = (states * m).sum(1) / (m.sum(1) + 1e-5)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))
