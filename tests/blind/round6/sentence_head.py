import torch
from blind import bugs
from torch import nn


def make(bug):
    class SentenceHead(nn.Module):
        def __init__(self, dim, num_labels, dropout=0.1):
            super().__init__()
            self.inner = nn.Linear(dim, dim)
            self.outer = nn.Linear(dim, num_labels)
            self.dropout = nn.Dropout(dropout)

        def forward(self, states, mask):
            real = mask.to(states.dtype)[..., None]
            count = real.sum(1)
            if bug == "mean over all positions":
                c = states.mean(1)
            elif bug == "padding as zeros in the mean":
                c = (states * real).mean(1)
            elif bug == "not a number without tokens":
                c = (states * real).sum(1) / count
            elif bug == "one token more in the denominator":
                c = (states * real).sum(1) / (count + 1)
            elif bug == "1e-2 in the denominator":
                c = (states * real).sum(1) / (count + 1e-2)
            elif bug == "the sum":
                c = (states * real).sum(1)
            elif bug == "the first state":
                c = states[:, 0]
            elif bug == "the first real state":
                first = mask.long().argmax(1)
                c = states[torch.arange(len(states), device=states.device), first]
            elif bug == "padding at the end alone":
                n = mask.sum(1)
                place = torch.arange(states.size(1), device=states.device)
                head = (place < n[:, None]).to(states.dtype)[..., None]
                c = (states * head).sum(1) / n.clamp(min=1)[:, None]
            elif bug == "the largest entries":
                c = states.masked_fill(~mask[..., None], -1e9).amax(1)
            elif bug == "one denominator for the batch":
                c = (states * real).sum(1) / count.max().clamp(min=1)
            else:
                c = (states * real).sum(1) / count.clamp(min=1)
            hidden = self.inner(c)
            if bug == "relu":
                hidden = hidden.relu()
            elif bug != "no tanh":
                hidden = hidden.tanh()
            if bug == "dropout before the tanh":
                hidden = self.dropout(self.inner(c)).tanh()
            elif bug == "dropout on the states":
                hidden = self.inner(self.dropout(c)).tanh()
            elif bug != "no dropout":
                hidden = self.dropout(hidden)
            if bug == "dropout in eval mode, too":
                hidden = nn.functional.dropout(hidden, self.dropout.p, True)
            logits = self.outer(hidden)
            if bug == "probabilities":
                logits = logits.softmax(-1)
            if bug == "float32":
                logits = logits.float()
            if bug == "squeezed":
                logits = logits.squeeze()
            if bug == "body gets no gradient":
                logits = logits - logits + self.outer(self.inner(c.detach()).tanh())
            return logits

    return SentenceHead


RULE = "the formula of c and of the logits; a sentence without any real token has c = 0"
bugs(
    make,
    {
        name: RULE
        for name in (
            "mean over all positions",
            "padding as zeros in the mean",
            "not a number without tokens",
            "one token more in the denominator",
            "1e-2 in the denominator",
            "the sum",
            "the first state",
            "the first real state",
            "padding at the end alone",
            "the largest entries",
            "one denominator for the batch",
            "relu",
            "no tanh",
            "dropout before the tanh",
            "dropout on the states",
            "no dropout",
            "dropout in eval mode, too",
            "probabilities",
            "float32",
            "squeezed",
            "body gets no gradient",
        )
    },
)
