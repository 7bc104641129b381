import torch
from torch import nn

from attention_course.rnn import at_end
from blind import right, wrong


@right("at_end of a half-length (n + 1) // 2, then cat of two (B, 1, E)")
def two_slots(states, lengths):
    halves = torch.div(lengths + 1, 2, rounding_mode="floor")
    middle = at_end(states, halves).unsqueeze(1)
    end = at_end(states, lengths).unsqueeze(1)
    return torch.cat((middle, end), dim=1)


@right("one gather for both slots")
def two_slots(states, lengths):
    last = lengths - 1
    index = torch.stack((last >> 1, last), dim=-1).to(states.device)  # (B, 2)
    return torch.gather(states, 1, index[:, :, None].repeat(1, 1, states.size(-1)))


@right("nested Python loops and slices of each sentence")
def two_slots(states, lengths):
    batch = []
    for b in range(states.size(0)):
        n = int(lengths[b])
        sentence = states[b, :n]
        middle = -(-n // 2) - 1  # half of n, rounded up, counted from 0
        batch.append(torch.stack([sentence[middle], sentence[-1]]))
    return torch.stack(batch)


@right("torch.where over all positions and a sum, with float64 inside")
def two_slots(states, lengths):
    last = lengths.to(states.device) - 1
    wanted = torch.stack([last.div(2, rounding_mode="trunc"), last], dim=1)  # (B, 2)
    positions = torch.arange(states.size(1), device=states.device)
    hit = (wanted[:, :, None] == positions)[..., None]  # (B, 2, S, 1)
    wide = states.double()[:, None]  # (B, 1, S, E)
    picked = torch.where(hit, wide, torch.zeros_like(wide))
    return picked.sum(dim=2).to(states.dtype)


@wrong(
    "puts the end into slot 0 and the middle into slot 1",
    "Slot 0 holds the state in the middle of the sentence.",
    "slots swapped",
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths + 1) // 2)
    return torch.stack([at_end(states, lengths), middle], dim=1)


@wrong(
    "stacks along axis 0, which gives (2, B, E)",
    "(B, 2, E): the state in the middle first, then the state at the end.",
    "wrong axis in stack",
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths + 1) // 2)
    return torch.stack([middle, at_end(states, lengths)])


@wrong(
    "takes the middle of the padded batch, the same for all sentences",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "middle of the columns, not of the sentence",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "hands at_end a position, although it expects a length and subtracts one more",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "one subtracted twice",
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "takes position n // 2, one too far for sentences with an even number of tokens",
    "Positions count from 0, so the middle of five tokens is position 2, and the middle"
    " of four tokens is position 1.",
    "n // 2 in place of (n - 1) // 2",
    subtle=True,
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], at_end(states, lengths)], dim=1)


@wrong(
    "rounds halves to the even number: 0.5 to 0, but 1.5 to 2 (n = 4)",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "torch.round in place of floor",
    subtle=True,
)
def two_slots(states, lengths):
    middle = torch.round((lengths - 1) / 2).long()
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, middle], at_end(states, lengths)], dim=1)


@wrong(
    "halves the position in the dtype of the states; bfloat16 turns 259 into 260",
    "Positions and counts, however, must be exact in every dtype.",
    "middle computed in bfloat16",
    subtle=True,
)
def two_slots(states, lengths):
    middle = ((lengths - 1).to(states.dtype) / 2).floor().long()
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, middle], at_end(states, lengths)], dim=1)


@wrong(
    "picks by a matrix product with one-hot rows, and 0 * NaN is NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "NaN from the padding leaks through a product with zero",
    subtle=True,
)
def two_slots(states, lengths):
    positions = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)  # (B, 2)
    pick = nn.functional.one_hot(positions, states.size(1)).to(states)  # (B, 2, S)
    return pick @ states


@wrong(
    "selects with one boolean mask; in a sentence of one token the middle is the end,"
    " so there is only one vector",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "middle and end of one token fall together",
    subtle=True,
)
def two_slots(states, lengths):
    last = lengths.to(states.device)[:, None] - 1
    positions = torch.arange(states.size(1), device=states.device)
    hits = (positions == last // 2) | (positions == last)  # (B, S)
    return states[hits].view(states.size(0), 2, -1)


@wrong(
    "fills a buffer of torch.zeros, which is float32 whatever the states are",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "buffer of the default dtype",
    subtle=True,
)
def two_slots(states, lengths):
    size, _, width = states.shape
    slots = torch.zeros(size, 2, width, device=states.device)
    for b, n in enumerate(lengths.tolist()):
        slots[b, 0] = states[b, (n - 1) // 2]
        slots[b, 1] = states[b, n - 1]
    return slots
