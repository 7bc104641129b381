import torch
from torch import nn
from torch.nn import functional as F
from blind import right, wrong


@right("loops over the sentences and averages the chosen rows")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        means = states.new_zeros(states.size(0), states.size(2))
        for b in range(states.size(0)):
            real = states[b][mask[b]]
            if len(real):
                means[b] = real.mean(dim=0)
        return self.outer(self.dropout(self.inner(means).tanh()))


@right("weights 1/n for real tokens, and a batched matrix product")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def average(self, states, mask):
        share = mask.to(states.dtype)
        share = share / mask.sum(dim=1, keepdim=True).clamp(min=1).to(states.dtype)
        clean = states.masked_fill(~mask[:, :, None], 0)
        return torch.bmm(share[:, None, :], clean)[:, 0]

    def forward(self, states, mask):
        hidden = torch.tanh(
            F.linear(self.average(states, mask), self.inner.weight, self.inner.bias)
        )
        return self.outer(self.dropout(hidden))


@right("lists the real tokens of the whole batch and adds them up with index_add")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        sentence, place = mask.nonzero(as_tuple=True)
        sums = torch.zeros_like(states[:, :0]).sum(dim=1)  # (B, D) of zeros
        sums = sums.index_add(0, sentence, states[sentence, place])
        count = torch.bincount(sentence, minlength=len(states)).clamp(min=1)
        c = sums / count.to(states.dtype)[:, None]
        return nn.Sequential(self.inner, nn.Tanh(), self.dropout, self.outer)(c)


@right("einsum, with torch.where in place of a product and a safe divisor")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask, activation=torch.tanh):
        real = torch.where(mask.unsqueeze(-1), states, torch.zeros_like(states))
        total = torch.einsum("bsd->bd", real)
        n = torch.einsum("bs->b", mask.long())
        safe = torch.where(n == 0, torch.ones_like(n), n)
        c = total / safe.to(states.dtype).unsqueeze(1)
        return self.outer(self.dropout(activation(self.inner(c))))


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "divides by S, padding included: sentences shorter than the batch get a mean that"
    " is too small",
    "So first the states of a sentence are averaged over its real tokens only; then"
    " comes a small network:",
    "divides by all positions, not the real ones",
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
    "no protection of the divisor: a sentence without real tokens gives nan",
    "A sentence without any real token has $c_b = 0$, and finite gradients.",
    "divides by zero for an empty sentence",
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
    "`mask.float()`: with float64 states on a float64 head fine, but with float16 or"
    " bfloat16 states the mean is float32 and the head raises an error",
    "The logits have the dtype of the states: where you turn the mask into numbers,"
    " write `mask.to(states.dtype)`.",
    "mask turned into float32",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.float().unsqueeze(-1)
        c = (states * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


# --- corners -----------------------------------------------------------------------


@wrong(
    "takes the first n_b states: wrong if padding stands at the front or in the middle",
    "Padding may stand anywhere in a sentence.",
    "takes padding to stand at the end",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        n = mask.sum(dim=1)
        total = torch.stack(
            [row[:k].sum(dim=0) for row, k in zip(states, n.tolist())]
        )
        c = total / n.clamp(min=1).to(states.dtype).unsqueeze(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "repairs 0/0 with nan_to_num after the division: the logits are right, but the"
    " gradient of an empty sentence's states is nan",
    "A sentence without any real token has $c_b = 0$, and finite gradients.",
    "nan is hidden forwards but not backwards",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        c = torch.nan_to_num((states * m).sum(dim=1) / m.sum(dim=1))
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "softmax over masked zeros as weights: a sentence without real tokens gets the mean"
    " of its padding instead of 0",
    "A sentence without any real token has $c_b = 0$, and finite gradients.",
    "empty sentence averages its padding",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        low = torch.finfo(states.dtype).min
        flat = states.new_zeros(mask.shape).masked_fill(~mask, low)
        weights = flat.softmax(dim=-1)
        c = (weights.unsqueeze(1) @ states).squeeze(1)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


@wrong(
    "sets the states on padding to zero in place: the caller's states change",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "writes zeros into the given states",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        with torch.no_grad():
            states[~mask] = 0
        n = mask.sum(dim=1, keepdim=True).clamp(min=1).to(states.dtype)
        c = states.sum(dim=1) / n
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "maps every token with `inner` and averages afterwards: the same for all sentences"
    " with tokens, but an empty one gets tanh(0) in place of tanh(b_1)",
    "A sentence without any real token has $c_b = 0$, and finite gradients.",
    "averages after W1: empty sentence loses b1",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.unsqueeze(-1).to(states.dtype)
        hidden = (self.inner(states) * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        return self.outer(self.dropout(torch.tanh(hidden)))


@wrong(
    "functional dropout with the default probability 0.1 written in: a head made with"
    " dropout=0.5 (or 0) drops a tenth all the same",
    "dropout: share of the numbers between the two maps that training drops.",
    "dropout of 0.1 whatever was asked for",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        m = mask.to(states.dtype)
        c = torch.einsum("bs,bsd->bd", m, states) / m.sum(1, keepdim=True).clamp(min=1)
        hidden = F.dropout(torch.tanh(self.inner(c)), p=0.1, training=self.training)
        return self.outer(hidden)


@wrong(
    "counts the tokens whose states are not all zero instead of those of the mask: a"
    " real token with a state of zeros is not counted in n_b",
    "$n_b$ is the number of real tokens of sentence b.",
    "n counts non-zero states, not the mask",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        kept = states.masked_fill(~mask.unsqueeze(-1), 0)
        n = (kept != 0).any(dim=-1).sum(dim=1, keepdim=True)
        c = kept.sum(dim=1) / n.clamp(min=1).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(self.inner(c))))
