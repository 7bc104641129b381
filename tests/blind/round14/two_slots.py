"""Answers to `two_slots`."""
import torch

from blind import right, wrong


def at_end(x, lengths):
    """The at_end of section 1."""
    return x[torch.arange(x.size(0)), lengths - 1]


@right('one gather with both positions')
def two_slots_right1(states, lengths):
    last = lengths.sub(1)
    index = torch.stack([last.div(2, rounding_mode="floor"), last], dim=1).to(states.device)
    return states.gather(1, index[:, :, None].expand(-1, -1, states.size(2)))


@right('at_end for the first half, whose length is the length minus its half')
def two_slots_right2(states, lengths):
    return torch.stack([at_end(states, lengths - lengths // 2), at_end(states, lengths)], dim=1)


@right('slices each sentence in a loop: from the middle to the end in one stride')
def two_slots_right3(states, lengths):
    pairs = []
    for sentence, n in zip(states, lengths.tolist()):
        middle, end = (n - 1) >> 1, n - 1
        pairs.append(torch.cat([sentence.narrow(0, middle, 1), sentence.narrow(0, end, 1)]))
    return torch.stack(pairs)


@right('two comparisons make a mask (B, 2, S); everything else becomes 0 before the sum')
def two_slots_right4(states, lengths):
    n = lengths.to(states.device)[:, None, None]
    position = torch.arange(states.size(1), device=states.device)[None, None]
    wanted = torch.cat([(2 * position <= n - 1) & (2 * position + 2 > n - 1), position == n - 1], dim=1)
    return states[:, None].masked_fill(~wanted[..., None], 0).sum(2, dtype=states.dtype)


@wrong(
    'Takes n / 2 for the middle, one position too far if n is even.',
    'The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.',
    'middle is n over two',
)
def two_slots_wrong1(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], states[rows, lengths - 1]], dim=1)


@wrong(
    'Takes the middle of the padded row.',
    'Slot 0 holds the state in the middle of the sentence.',
    'middle of the padded row',
)
def two_slots_wrong2(states, lengths):
    return torch.stack([states[:, (states.size(1) - 1) // 2], at_end(states, lengths)], dim=1)


@wrong(
    'Hands the middle position to at_end as if it were a length, so it gets the position before, or the last column.',
    'The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.',
    'position passed as length',
)
def two_slots_wrong3(states, lengths):
    middle = at_end(states, (lengths - 1) // 2)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    'Concatenates the two states to one vector.',
    '(B, 2, E): the state in the middle first, then the state at the end.',
    'slots joined to one vector',
)
def two_slots_wrong4(states, lengths):
    return torch.cat([at_end(states, (lengths + 1) // 2), at_end(states, lengths)], dim=-1)


@wrong(
    'Uses torch.round, which rounds halves to the even number, so the middle of four tokens becomes 2.',
    'The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.',
    'halves rounded to even',
)
def two_slots_wrong5(states, lengths):
    middle = torch.round((lengths - 1) / 2).long()
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    'Computes positions in the dtype of the states, and bfloat16 cannot hold every position above 256.',
    'Positions and counts must be exact in every dtype.',
    'positions in low precision',
)
def two_slots_wrong6(states, lengths):
    n = lengths.to(states)
    rows = torch.arange(states.size(0), device=states.device)
    middle, end = ((n - 1) / 2).floor().long(), (n - 1).long()
    return torch.stack([states[rows, middle], states[rows, end]], dim=1)


@wrong(
    'Multiplies by ones and zeros and adds up, so NaN in the padding reaches both slots.',
    'The padding may hold any values, even NaN, and must not influence the result.',
    'NaN times zero',
)
def two_slots_wrong7(states, lengths):
    index = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    chosen = index[..., None] == torch.arange(states.size(1))
    return chosen.to(states) @ states


@wrong(
    "Subtracts one from the caller's lengths.",
    'Do not change the inputs.',
    'lengths are changed in place',
)
def two_slots_wrong8(states, lengths):
    lengths -= 1
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], states[rows, lengths]], dim=1)


@wrong(
    'Takes the last column for the end if all sentences are equally long, although the batch may be padded further.',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'shortcut for equal lengths',
)
def two_slots_wrong9(states, lengths):
    middle = at_end(states, (lengths + 1) // 2)
    if lengths.unique().numel() == 1:
        return torch.stack([middle, states[:, -1]], dim=1)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    'Copies into a tensor of the default dtype on the CPU.',
    'The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.',
    'result has default dtype',
)
def two_slots_wrong10(states, lengths):
    slots = torch.zeros(states.size(0), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        slots[b, 0], slots[b, 1] = states[b, (n - 1) // 2], states[b, n - 1]
    return slots
