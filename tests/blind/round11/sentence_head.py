import torch
from torch import nn
from torch.nn import functional as F

from blind import right, wrong


@right("maps every state with W1 first and averages then; the bias comes after the mean")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        mapped = F.linear(states, self.inner.weight)  # (B, S, D), no bias yet
        mapped = mapped.to(torch.promote_types(states.dtype, torch.float32))
        total = torch.einsum("bs,bsd->bd", mask.to(mapped.dtype), mapped)
        count = mask.count_nonzero(dim=-1).clamp(min=1)
        mean = (total / count[:, None]).to(states.dtype)
        return self.outer(self.dropout(torch.tanh(mean + self.inner.bias)))


@right("one sentence after the other, with Python counts")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        means = []
        for sentence, real in zip(states, mask):
            words = sentence[real]  # (n, D), n may be 0
            means.append(words.sum(dim=0) / max(len(words), 1))
        hidden = self.inner(torch.stack(means)).tanh()
        return self.outer(self.dropout(hidden))


@right("masked_fill instead of a product, the mean in float64, F.dropout")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def average(self, states, mask):
        padding = mask.logical_not()[..., None]
        total = states.masked_fill(padding, 0).sum(dim=1, dtype=torch.float64)
        count = mask.sum(dim=1, keepdim=True)
        return total.div(torch.where(count == 0, 1, count)).to(states.dtype)

    def forward(self, states, mask):
        hidden = torch.tanh(self.inner(self.average(states, mask)))
        hidden = F.dropout(hidden, self.dropout.p, training=self.dropout.training)
        return self.outer(hidden)


@right("adds the real states up with index_add, in float64")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        which = mask.nonzero()[:, 0]  # the sentence of each real token
        size = states.size(0)
        total = torch.zeros(
            size, states.size(2), dtype=torch.float64, device=states.device
        )
        total = total.index_add(0, which, states[mask].double())
        count = torch.bincount(which, minlength=size).clamp_min(1).unsqueeze(1)
        context = (total / count).type_as(states)
        layers = (self.inner, nn.Tanh(), self.dropout, self.outer)
        for layer in layers:
            context = layer(context)
        return context


@wrong(
    "divides by the number of positions, padding included",
    "$n_b$ is the number of real tokens of sentence b.",
    "padding counts in the mean",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(-1)
        context = (states * real).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "0 / 0 for a sentence without a real token",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "NaN for an empty sentence",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(-1)
        context = (states * real).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "mask.float(): the mean of bfloat16 states becomes float32",
    "The logits must have the dtype of the states, so convert the mask to numbers with `mask.to(states.dtype)`.",
    "float32 mask",
)
class SentenceHead(nn.Module):
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
    "squeeze() after bmm also removes a batch axis of length one",
    "Logits (B, num_labels).",
    "squeeze removes the batch axis of a single sentence",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(1)  # (B, 1, S)
        count = mask.sum(dim=1).clamp(min=1).view(-1, 1, 1)
        context = (torch.bmm(real, states) / count).squeeze()
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "takes the first n positions, as if padding were always at the end",
    "Padding may be anywhere in a sentence.",
    "padding is expected at the end",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        lengths = mask.sum(dim=1)
        context = torch.stack(
            [s[:n].sum(dim=0) / max(n, 1) for s, n in zip(states, lengths.tolist())]
        )
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "F.dropout without training=..., so that numbers are dropped in eval mode, too",
    "dropout: the share of the numbers between the maps that is dropped in training.",
    "dropout in eval mode",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(-1)
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        context = (states * real).sum(dim=1) / count
        hidden = torch.tanh(self.inner(context))
        return self.outer(F.dropout(hidden, p=self.dropout.p))


@wrong(
    "counts the tokens one by one in the dtype of the states: in bfloat16 the count stays at 256",
    "Positions and counts, however, must be exact in every dtype.",
    "counts in the dtype of the states",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(-1)
        count = states.new_zeros(states.size(0), 1)
        for position in range(states.size(1)):
            count = count + real[:, position]
        context = (states * real).sum(dim=1) / count.clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "replaces the 0 / 0 of an empty sentence by 0 with where: the logits are right, but the gradients of the states are NaN",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "NaN gradients for an empty sentence",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(-1)
        count = mask.sum(dim=1, keepdim=True)
        mean = (states * real).sum(dim=1) / count
        context = torch.where(count > 0, mean, torch.zeros_like(mean))
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "clamp(min=1e-9) on a count in the dtype of the states: in float16 1e-9 is 0, and an empty sentence gives NaN",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "a clamp too small for float16",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.unsqueeze(-1).expand(states.size()).to(states.dtype)
        context = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1e-9)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "sets the logits of an empty sentence to 0 instead of its c",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "zero logits instead of a zero mean",
)
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        real = mask.to(states.dtype).unsqueeze(-1)
        count = mask.sum(dim=1, keepdim=True)
        context = (states * real).sum(dim=1) / count.clamp(min=1)
        logits = self.outer(self.dropout(torch.tanh(self.inner(context))))
        return logits.masked_fill(count == 0, 0)
