import torch
from torch import nn

from blind import right, wrong


# ---------------------------------------------------------------- right


@right("einsum of the states with the shares 1/n, in float64")
class SentenceHead(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        count = mask.sum(dim=-1, keepdim=True).clamp(min=1)
        share = mask.to(torch.float64) / count
        context = torch.einsum("bs,bsd->bd", share, states.double()).to(states.dtype)
        return self.outer(self.dropout(self.inner(context).tanh()))


@right("collects the real tokens of the whole batch and adds them with index_add")
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        which = mask.nonzero(as_tuple=True)[0]
        real = states[mask].double()
        total = real.new_zeros(states.size(0), states.size(2)).index_add(0, which, real)
        count = torch.bincount(which, minlength=states.size(0)).clamp(min=1)
        context = (total / count[:, None]).to(states.dtype)
        squashed = torch.tanh(self.inner(context))
        return self.outer(self.dropout(squashed))


@right("a loop over the sentences, each with its own mean, tanh, dropout and logits")
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        rows = []
        for h, m in zip(states.unbind(0), mask.unbind(0)):
            real = h[m]
            if real.size(0):
                context = real.double().mean(dim=0).to(h.dtype)
            else:
                context = (h[:1] * 0).sum(dim=0)
            rows.append(self.outer(self.dropout(torch.tanh(self.inner(context)))))
        return torch.stack(rows)


@right("maps the mean by matrix products with the weights, scaled token by token before summing")
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        wide = torch.float64
        count = torch.count_nonzero(mask, dim=1).clamp_min(1)[:, None, None]
        each = torch.where(mask[:, :, None], states.to(wide) / count, 0.0)
        inner = each.sum(dim=1) @ self.inner.weight.to(wide).mT
        inner = torch.tanh(inner + self.inner.bias.to(wide))
        inner = self.dropout(inner)
        outer = torch.addmm(
            self.outer.bias.to(wide), inner, self.outer.weight.to(wide).mT
        )
        return outer.to(states.dtype)


# ---------------------------------------------------------------- wrong


@wrong(
    "divides by the number of positions S",
    "So average the states over the real tokens of the sentence first.",
    "divides by all positions, padding included",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        keep = mask.unsqueeze(-1).to(states.dtype)
        context = (states * keep).mean(dim=1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "takes the first n states, so the padding must be at the end",
    "Padding may be anywhere in a sentence.",
    "assumes padding at the end",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        count = mask.sum(dim=1, keepdim=True)
        place = torch.arange(states.size(1), device=states.device)
        keep = (place < count).unsqueeze(-1).to(states.dtype)
        context = (states * keep).sum(dim=1) / count.clamp(min=1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "functional dropout without `training`, so it also drops in eval mode",
    "dropout: the share of the numbers between the maps that is dropped in training.",
    "dropout is on in eval mode",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        keep = mask.unsqueeze(-1).to(states.dtype)
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        context = (states * keep).sum(dim=1) / count
        hidden = torch.tanh(self.inner(context))
        return self.outer(nn.functional.dropout(hidden, self.dropout.p))


@wrong(
    "divides 0 by 0 and repairs it with nan_to_num: the logits are right, but the gradients of an empty sentence are NaN",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "NaN gradients behind nan_to_num",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        keep = mask.unsqueeze(-1).to(states.dtype)
        context = (states * keep).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        empty = ~mask.any(dim=1, keepdim=True)
        context = torch.where(empty, torch.zeros_like(context), context)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "counts the tokens one after another in the dtype of the states: in bfloat16 the count stops at 256",
    "Count the tokens before you convert: in bfloat16, a sum of ones stops at 256.",
    "counts tokens in bfloat16",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        keep = mask.to(states.dtype)
        total = (states * keep.unsqueeze(-1)).sum(dim=1)
        count = torch.zeros_like(keep[:, 0])
        for column in keep.unbind(dim=1):
            count = count + column
        context = total / count.clamp(min=1).unsqueeze(-1)
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "applies dropout before the tanh (differs only in train mode)",
    "Then apply a small network:",
    "dropout before tanh",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        keep = mask.unsqueeze(-1).to(states.dtype)
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        context = (states * keep).sum(dim=1) / count
        return self.outer(torch.tanh(self.dropout(self.inner(context))))


@wrong(
    "counts the states that are not zero after masking, so a real token whose state is all zeros is not counted",
    "$n_b$ is the number of real tokens of sentence b.",
    "counts nonzero states, not real tokens",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        kept = states * mask.unsqueeze(-1).to(states.dtype)
        count = (kept != 0).any(dim=-1).sum(dim=1, keepdim=True).clamp(min=1)
        context = kept.sum(dim=1) / count
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "averages under no_grad, so no gradient reaches the states and the body",
    "Gradients must be right, too.",
    "no gradient reaches the states",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        with torch.no_grad():  # the mean has no parameters
            keep = mask.unsqueeze(-1).to(states.dtype)
            count = mask.sum(dim=1, keepdim=True).clamp(min=1)
            context = (states * keep).sum(dim=1) / count
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "squeezes all axes of length one after the matrix product, so one sentence gives logits without the axis B",
    "Logits (B, num_labels).",
    "squeeze removes the batch axis",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        count = mask.sum(dim=1).clamp(min=1)
        keep = mask.unsqueeze(1).to(states.dtype)
        context = (keep @ states / count[:, None, None]).squeeze()
        return self.outer(self.dropout(torch.tanh(self.inner(context))))


@wrong(
    "sets the logits of a sentence without real tokens to 0, instead of its mean",
    "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite.",
    "zero logits for empty sentences",
)
class SentenceHead(nn.Module):  # noqa: F811
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        keep = mask.unsqueeze(-1).to(states.dtype)
        count = mask.sum(dim=1, keepdim=True)
        context = (states * keep).sum(dim=1) / count.clamp(min=1)
        logits = self.outer(self.dropout(torch.tanh(self.inner(context))))
        return logits * (count > 0).to(logits.dtype)
