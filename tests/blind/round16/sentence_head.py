import torch
import torch.nn.functional as F
from blind import right, wrong
from torch import nn

AVERAGE = "So average the states over the real tokens of the sentence first."
ANYWHERE = "Padding may be anywhere in a sentence."
EMPTY = "For a sentence without any real token, $c_b$ must be 0, and all gradients must be finite."
DTYPE = "The logits must have the dtype of the states, so convert the mask to numbers with `mask.to(states.dtype)`."
COUNT = "Count the tokens before you convert: in bfloat16, a sum of ones stops at 256."
NUMBER = "$n_b$ is the number of real tokens of sentence b."
DROPOUT = "dropout: the share of the numbers between the maps that is dropped in training."
INPUTS = "Do not change the inputs."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
FORMULA = r"c_b = \frac{1}{n_b} \sum_{s:\ m_{bs}} h_{bs}, \qquad \text{logits}_b = W_2\, \mathrm{dropout}\big(\tanh(W_1 c_b + b_1)\big) + b_2"


class Given(nn.Module):
    """The given lines of the lab."""

    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def top(self, c):
        return self.outer(self.dropout(torch.tanh(self.inner(c))))


def mean(states, mask):
    number = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1) / number


@right("einsum in float64, and division by the exact number")
class SentenceHead(Given):
    def forward(self, states, mask):
        total = torch.einsum("bs,bsd->bd", mask.double(), states.double())
        number = mask.sum(1).clamp_min(1).unsqueeze(1)
        return self.top((total / number).to(states.dtype))


@right("one sentence after the other: the mean of the chosen rows, or zeros")
class SentenceHead(Given):
    def forward(self, states, mask):
        means = []
        for rows, real in zip(states, mask):
            chosen = rows[real]
            means.append(chosen.mean(dim=0) if len(chosen) else rows.sum(dim=0) * 0)
        hidden = self.inner(torch.stack(means)).tanh()
        return self.outer(self.dropout(hidden))


@right("adds the real tokens up by the number of their sentence")
class SentenceHead(Given):
    def forward(self, states, mask):
        sentence, _ = mask.nonzero(as_tuple=True)
        total = states.new_zeros(len(states), states.size(-1), dtype=torch.float64)
        total = total.index_add(0, sentence, states[mask].double())
        number = torch.bincount(sentence, minlength=len(states)).clamp(min=1)
        return self.top((total / number.double().unsqueeze(1)).to(states.dtype))


@right("a softmax over 0 and the most negative number gives the shares; rows without a token are set to 0 before the product")
class SentenceHead(Given):
    def forward(self, states, mask):
        low = torch.zeros(mask.shape, dtype=torch.float64, device=states.device)
        share = low.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0.0)
        c = torch.bmm(share.unsqueeze(1), states.double())[:, 0].to(states.dtype)
        return F.linear(
            self.dropout(F.linear(c, self.inner.weight, self.inner.bias).tanh()), self.outer.weight, self.outer.bias
        )


@wrong("averages over all positions, padding included", breaks=AVERAGE, name="mean with padding")
class SentenceHead(Given):
    def forward(self, states, mask):
        return self.top(states.mean(dim=1))


@wrong("takes the first n states, as if all padding were at the end", breaks=ANYWHERE, name="padding only at the end")
class SentenceHead(Given):
    def forward(self, states, mask):
        number = mask.sum(dim=1, keepdim=True)
        front = torch.arange(states.size(1), device=states.device) < number
        return self.top(mean(states, front))


@wrong("divides 0 by 0 for an empty sentence and repairs it with where: the logits are right, the gradients of the states are nan", breaks=EMPTY, name="where after a division by zero")
class SentenceHead(Given):
    def forward(self, states, mask):
        number = mask.sum(dim=1, keepdim=True)
        c = (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1) / number
        return self.top(torch.where(number > 0, c, torch.zeros_like(c)))


@wrong("an empty sentence gets logits of 0, rather than those of c = 0", breaks=EMPTY, name="empty sentences get no biases")
class SentenceHead(Given):
    def forward(self, states, mask):
        logits = self.top(mean(states, mask))
        return logits * mask.any(dim=1, keepdim=True).to(logits.dtype)


@wrong("counts in the dtype of the states, one token after the other: in bfloat16 the count stops at 256", breaks=COUNT, name="counts in bfloat16")
class SentenceHead(Given):
    def forward(self, states, mask):
        real = mask.to(states.dtype)
        number = states.new_zeros(len(states), 1)
        for s in range(states.size(1)):
            number = number + real[:, s : s + 1]
        total = (states * real.unsqueeze(-1)).sum(dim=1)
        return self.top(total / number.clamp(min=1))


@wrong("F.dropout without `training`: numbers are dropped in eval mode, too", breaks=DROPOUT, name="dropout in eval mode")
class SentenceHead(Given):
    def forward(self, states, mask):
        hidden = torch.tanh(self.inner(mean(states, mask)))
        return self.outer(F.dropout(hidden, self.dropout.p))


@wrong("squeezes all axes of length one: a batch of one sentence loses its axis B", breaks=LENGTHS, name="squeeze of a single sentence")
class SentenceHead(Given):
    def forward(self, states, mask):
        number = mask.sum(dim=1).clamp(min=1)
        share = mask.to(states.dtype).unsqueeze(1)
        total = (share @ states).squeeze()
        return self.top(total / (number.unsqueeze(-1) if total.dim() > 1 else number))


@wrong("sets the states of padding to zero in place", breaks=INPUTS, name="writes into the states")
class SentenceHead(Given):
    def forward(self, states, mask):
        with torch.no_grad():
            states[~mask] = 0
        return self.top(states.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1))


@wrong("applies inner and tanh to every token and averages afterwards; the same only for sentences of one token", breaks=AVERAGE, name="averages after the inner map")
class SentenceHead(Given):
    def forward(self, states, mask):
        return self.outer(self.dropout(mean(torch.tanh(self.inner(states)), mask)))


@wrong("keeps the numbers of tokens of the first call and uses them again for every mask of this shape", breaks=CALLS, name="counts kept from the first call")
class SentenceHead(Given):
    def forward(self, states, mask):
        kept = self.__dict__.setdefault("numbers", {})
        if mask.shape not in kept:
            kept[mask.shape] = mask.sum(dim=1, keepdim=True).clamp(min=1)
        total = (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1)
        return self.top(total / kept[mask.shape])
