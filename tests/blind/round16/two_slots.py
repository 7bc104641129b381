import torch
from torch import nn
from blind import right, wrong

INPUTS = "Do not change the inputs."
GRAD = "Gradients must be right, too."
EXACT = "Positions and counts must be exact in every dtype."
SLOTS = "Slot 0 holds the state in the middle of the sentence. Slot 1 holds the state at its end, at position `lengths[b] - 1`."
MIDDLE = "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down."
FOUR = "Positions count from 0, so the middle of five tokens is position 2, and the middle of four tokens is position 1."
PADDING = "The padding may hold any values, even NaN, and must not influence the result."
RESULT = "(B, 2, E): the state in the middle first, then the state at the end."
DEVICES = "The lengths are on the CPU, but the states may be on a GPU."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right('the middle of n tokens is the end of their first (n + 1) // 2 tokens')
def two_slots(states, lengths):
    halves = at_end(states, (lengths + 1) // 2), at_end(states, lengths)
    return torch.stack(halves, dim=1)


@right('one index with two columns; the middle by a shift of bits')
def two_slots(states, lengths):
    end = lengths - 1
    columns = torch.stack((end >> 1, end), dim=-1)
    return states[torch.arange(len(lengths)).unsqueeze(-1), columns]


@right('gather with whole-number division that rounds down')
def two_slots(states, lengths):
    end = lengths.to(states.device).sub(1)
    columns = torch.stack([end.div(2, rounding_mode="floor"), end], 1)
    return states.gather(1, columns[:, :, None].repeat(1, 1, states.size(-1)))


@right('cuts each sentence to its length and takes every position that is needed from the cut')
def two_slots(states, lengths):
    pairs = []
    for b, n in enumerate(lengths.tolist()):
        sentence = states[b].narrow(0, 0, n)
        pairs.append(torch.cat([sentence[(n - 1) // 2 :][:1], sentence[n - 1 :]]))
    return torch.stack(pairs)


@wrong(
    'n // 2, which is one too far for an even number of tokens',
    breaks=FOUR,
    name='upper middle',
)
def two_slots(states, lengths):
    return torch.stack(
        [states[torch.arange(len(lengths)), lengths // 2], at_end(states, lengths)], 1
    )


@wrong(
    'rounds to the nearest, halves to even: wrong for four or eight tokens, right for two or six',
    breaks=MIDDLE,
    name='rounded to the nearest',
)
def two_slots(states, lengths):
    middle = ((lengths - 1) / 2).round().long()
    return torch.stack([at_end(states, middle + 1), at_end(states, lengths)], dim=1)


@wrong(
    'puts the end first',
    breaks=RESULT,
    name='slots swapped',
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2 + 1)
    return torch.stack([at_end(states, lengths), middle], dim=1)


@wrong(
    'takes the middle of the padded rows for all sentences',
    breaks=SLOTS,
    name='middle of the padded row',
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    'takes the mean of the two states around the middle if the number of tokens is even',
    breaks=FOUR,
    name='mean of two middle states',
)
def two_slots(states, lengths):
    low = at_end(states, (lengths - 1) // 2 + 1)
    high = at_end(states, lengths // 2 + 1)
    return torch.stack([(low + high) / 2, at_end(states, lengths)], dim=1)


@wrong(
    'selects with a matrix of zeros and ones; zero times NaN is NaN',
    breaks=PADDING,
    name='NaN in the padding',
)
def two_slots(states, lengths):
    columns = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1).to(states.device)
    chosen = nn.functional.one_hot(columns, states.size(1)).to(states.dtype)
    return chosen @ states


@wrong(
    'computes the middle in the dtype of the states: bfloat16 cannot count beyond 256',
    breaks=EXACT,
    name='position rounded',
)
def two_slots(states, lengths):
    middle = ((lengths.to(states.dtype) - 1) / 2).floor().long().cpu()
    middle = middle.clamp(max=states.size(1) - 1)
    return torch.stack([at_end(states, middle + 1), at_end(states, lengths)], dim=1)


@wrong(
    'a sentence of one token has no middle of its own and gets zeros in slot 0',
    breaks=MIDDLE,
    name='no middle for one token',
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2 + 1)
    short = (lengths < 2).to(states.device)
    middle = middle.masked_fill(short[:, None], 0)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "halves the caller's lengths in place after it has used them",
    breaks=INPUTS,
    name='lengths changed in place',
)
def two_slots(states, lengths):
    end = at_end(states, lengths)
    middle = at_end(states, lengths.add_(1).floor_divide_(2))
    return torch.stack([middle, end], dim=1)


@wrong(
    'detaches the middle, so no gradient reaches the first half',
    breaks=GRAD,
    name='no gradient through the middle',
)
def two_slots(states, lengths):
    middle = at_end(states.detach(), (lengths - 1) // 2 + 1)
    return torch.stack([middle, at_end(states, lengths)], dim=1)
