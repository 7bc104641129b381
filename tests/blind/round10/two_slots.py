import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.to(x.device) - 1]


@right('at_end of the first ceil(n / 2) tokens, then of all')
def two_slots(states, lengths):
    return torch.stack([at_end(states, n) for n in ((lengths + 1) // 2, lengths)], dim=1)


@right('one gather with an index (B, 2, E); halves with a bit shift')
def two_slots(states, lengths):
    last = lengths - 1
    index = torch.stack([last >> 1, last], dim=-1).to(states.device)
    return torch.gather(states, 1, index.unsqueeze(-1).expand(-1, -1, states.size(-1)))


@right('Python loop with slices, no tensor of indices')
def two_slots(states, lengths):
    kept = []
    for sentence, n in zip(states.unbind(0), lengths.tolist()):
        sentence = sentence[:n]
        kept.append(torch.cat([sentence[: (n + 1) // 2][-1:], sentence[-1:]]))
    return torch.stack(kept)


@right('advanced indexing with two broadcast index tensors; the positions by torch.div')
def two_slots(states, lengths):
    end = (lengths - 1).to(states.device)
    middle = torch.div(end, 2, rounding_mode="floor")
    rows = torch.arange(len(states), device=states.device)
    return states[rows.view(-1, 1), torch.column_stack((middle, end))]


@wrong(
    'n // 2: one too far for sentences of even length',
    'Positions count from 0, so the middle of five tokens is position 2, and the middle of four tokens is position 1.',
    'middle is one too far for even lengths',
)
def two_slots(states, lengths):
    rows, n = torch.arange(states.size(0)), lengths.to(states.device)
    return torch.stack([states[rows, n // 2], states[rows, n - 1]], dim=1)


@wrong(
    'gives at_end the position instead of a number of tokens: one too early, and the last column for n = 1 and n = 2',
    'The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.',
    'forgets that at_end subtracts one',
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "middle of the padded batch instead of each sentence's own middle",
    'The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.',
    'middle of the batch, not the sentence',
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    'round() rounds half to even: n = 4, 8, 12 ... give one too far, while n = 2, 6, 10 are right',
    'The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.',
    'rounds half to even instead of down',
)
def two_slots(states, lengths):
    middle = torch.round((lengths - 1) / 2).long()
    return torch.stack([at_end(states, middle + 1), at_end(states, lengths)], dim=1)


@wrong(
    'product with one-hot rows: NaN in the padding times zero is NaN',
    'The padding may hold any values, even NaN, and must not influence the result.',
    'multiplies the padding by zero, NaN survives',
)
def two_slots(states, lengths):
    last = lengths - 1
    pick = F.one_hot(torch.stack([last // 2, last], dim=1), states.size(1))
    return pick.to(states) @ states


@wrong(
    "subtracts one in place, so the caller's lengths are changed",
    'Do not change the inputs.',
    'changes lengths in place',
)
def two_slots(states, lengths):
    lengths -= 1
    last = lengths.to(states.device)
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, last // 2], states[rows, last]], dim=1)


@wrong(
    'filled into torch.zeros: float32 on the CPU for bfloat16, float64 or GPU states',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'result always float32 on the CPU',
)
def two_slots(states, lengths):
    slots = torch.zeros(states.size(0), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        slots[b, 0] = states[b, (n - 1) // 2]
        slots[b, 1] = states[b, n - 1]
    return slots


@wrong(
    'view() of the states: raises an error if the states are not contiguous, for example transposed from (S, B, E)',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'view needs contiguous states',
)
def two_slots(states, lengths):
    B, S, E = states.shape
    last = lengths - 1
    where = torch.stack([last // 2, last], dim=1) + S * torch.arange(B)[:, None]
    return states.view(B * S, E)[where.to(states.device)]


@wrong(
    'positions are computed in the dtype of the states: in bfloat16 long sentences (above 256 tokens) get another position',
    'Slot 0 holds the state in the middle of the sentence. Slot 1 holds the state at its end, at position `lengths[b] - 1`.',
    'computes positions in low precision',
)
def two_slots(states, lengths):
    last = lengths.to(states) - 1
    middle = (last / 2).floor()
    index = torch.stack([middle, last], dim=1).long().clamp(max=states.size(1) - 1)
    return states[torch.arange(states.size(0))[:, None], index]


_positions = {}


@wrong(
    'keeps the positions of the first batch with these many sentences and columns: other lengths in the same shape get old positions',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'caches the positions by shape',
)
def two_slots(states, lengths):
    last = _positions.setdefault(states.shape[:2], lengths - 1).to(states.device)
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, last // 2], states[rows, last]], dim=1)
