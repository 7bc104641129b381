import torch
from torch import nn

from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0), device=x.device), (lengths - 1).to(x.device)]


@right("the middle is the end of the first half: at_end with (n + 1) // 2 tokens")
def two_slots(states, lengths):
    halves = (lengths + 1) // 2
    return torch.stack([at_end(states, halves), at_end(states, lengths)], dim=1)


@right("both positions of all sentences in one index of shape (B, 2)")
def two_slots(states, lengths):
    ends = lengths.long() - 1
    columns = torch.stack([ends >> 1, ends], dim=1)
    return states[torch.arange(len(states))[:, None], columns]


@right("a loop that cuts each sentence to its length and steps through it by negative index")
def two_slots(states, lengths):
    pairs = []
    for sentence, n in zip(states, lengths.tolist()):
        words = sentence[:n]
        pairs.append(torch.cat([words[[-(n // 2) - 1]], words[[-1]]]))
    return torch.stack(pairs)


@right("the lower median of each sentence's positions, and gather")
def two_slots(states, lengths):
    middle = [torch.arange(int(n)).median() for n in lengths]
    end = [torch.arange(int(n)).max() for n in lengths]
    where = torch.stack([torch.stack(middle), torch.stack(end)], dim=1)
    where = where.to(states.device).unsqueeze(-1).expand(-1, -1, states.shape[-1])
    return states.gather(1, where)


@wrong(
    "the slots are the wrong way round: the end first",
    "Slot 0 holds the state in the middle of the sentence.",
    "end and middle swapped",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    ends = lengths - 1
    return torch.stack([states[rows, ends], states[rows, ends // 2]], dim=1)


@wrong(
    "n // 2 in place of (n - 1) // 2: one too far for an even number of tokens (position 2 of four)",
    "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down.",
    "middle is n // 2",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], states[rows, lengths - 1]], dim=1)


@wrong(
    "takes the middle of the padded batch for all sentences",
    "Slot 0 holds the state in the middle of the sentence.",
    "middle of the batch, not of each sentence",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = (states.size(1) - 1) // 2
    return torch.stack([states[:, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "rounds (n - 1) / 2 to the nearest even number: right for 2 and 6 tokens, one too far for 4 and 8",
    "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down.",
    "rounds to nearest in place of down",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = ((lengths - 1) / 2).round().long()
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "n // 2 - 1, cut off at 0: right for even numbers of tokens and for one, wrong for 3, 5, 7",
    "Positions count from 0, so the middle of five tokens is position 2, the middle of four tokens is position 1, and the middle of a single token is position 0.",
    "middle one too early for odd lengths",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = (lengths // 2 - 1).clamp(min=0)
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "picks by a product with ones and zeros: NaN in the padding gets into both slots",
    "The padding has no part in this: it may hold anything, even NaN, and none of it may get into the result.",
    "weighted sum lets NaN of the padding through",
)
def two_slots(states, lengths):
    where = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1).to(states.device)
    pick = nn.functional.one_hot(where, states.size(1)).to(states.dtype)
    return pick @ states


@wrong(
    "new tensor of torch.zeros without a dtype: float32 for states of float64",
    "What you return has the dtype of the vectors or parameters that it is made from, and is on their device.",
    "result is always float32",
)
def two_slots(states, lengths):
    out = torch.zeros(states.size(0), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        out[b, 0] = states[b, (n - 1) // 2]
        out[b, 1] = states[b, n - 1]
    return out


@wrong(
    "takes the end as twice the middle: right for odd numbers of tokens, one too early for even ones",
    "Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    "end computed from the rounded middle",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = torch.div(lengths - 1, 2, rounding_mode="floor")
    return torch.stack([states[rows, middle], states[rows, 2 * middle]], dim=1)


@wrong(
    "writes into a view of the states: the first two columns of the caller's tensor are overwritten",
    "Leave what you are handed unchanged.",
    "overwrites the first columns of the states",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle, end = states[rows, (lengths - 1) // 2], states[rows, lengths - 1]
    with torch.no_grad():
        out = states[:, :2] if states.size(1) > 1 else states.repeat(1, 2, 1)
        out[:, 0], out[:, 1] = middle, end
    return out


@wrong(
    "at_end with n // 2 tokens: a single token has a first half of no tokens, and position -1 is the last column of the padding",
    "Positions count from 0, so the middle of five tokens is position 2, the middle of four tokens is position 1, and the middle of a single token is position 0.",
    "half of one token is none: last column",
)
def two_slots(states, lengths):
    odd = (lengths > 1) & (lengths % 2 == 1)
    halves = lengths // 2 + odd.long()
    return torch.stack([at_end(states, halves), at_end(states, lengths)], dim=1)
