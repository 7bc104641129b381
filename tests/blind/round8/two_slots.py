import torch

from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right("one gather with both positions of every sentence")
def two_slots(states, lengths):
    n = lengths.to(states.device)
    places = torch.stack([(n - 1) // 2, n - 1], dim=1)
    return states.gather(1, places[:, :, None].expand(-1, -1, states.size(2)))


@right("a sentence of the first (n + 1) // 2 tokens ends in the middle: at_end twice")
def two_slots(states, lengths):
    half = lengths.add(1).div(2, rounding_mode="floor")
    return torch.stack([at_end(states, half), at_end(states, lengths)], dim=1)


@right("Python numbers and slices with a step: 0, middle and end of each sentence")
def two_slots(states, lengths):
    kept = []
    for row, n in zip(states, lengths.tolist()):
        kept.append(torch.cat([row[(n - 1) >> 1][None], row[n - 1 : n]]))
    return torch.stack(kept)


@right("boolean masks, which pick one position of each row, in row order")
def two_slots(states, lengths):
    here = torch.arange(states.size(1), device=states.device)
    n = lengths.to(states.device)[:, None]
    middle = here == torch.bitwise_right_shift(n - 1, 1)
    return torch.stack((states[middle], states[here == n - 1]), dim=1)


@wrong(
    "the middle at n // 2: one too far for even lengths (position 2 of four tokens)",
    "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down.",
    "middle off by one for even lengths",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], at_end(states, lengths)], dim=1)


@wrong(
    "the middle of the rectangle for all sentences; wrong for those shorter than S",
    "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down.",
    "middle of the padded batch",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "the end first, then the middle",
    "Slot 0 holds the state in the middle of the sentence. Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    "slots exchanged",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = states[rows, (lengths - 1) // 2]
    return torch.stack([at_end(states, lengths), middle], dim=1)


@wrong(
    "rounds to the nearest even number: right for 1, 2, 3, 5, 6, 7 tokens, one too far for 4, 8, 12 tokens",
    "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down.",
    "rounds instead of rounding down",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = ((lengths - 1) / 2).round().long()
    return torch.stack([states[rows, middle], at_end(states, lengths)], dim=1)


@wrong(
    "sums what zeros and ones let through: NaN in the padding gets into both slots",
    "The padding does not count: it may hold anything, even NaN, and none of it may get into the result.",
    "NaN times zero is NaN",
)
def two_slots(states, lengths):
    here = torch.arange(states.size(1), device=states.device)
    n = lengths.to(states.device)
    places = torch.stack([(n - 1) // 2, n - 1], dim=1)
    picks = (here == places[:, :, None]).to(states.dtype)
    return picks @ states


@wrong(
    "halves the lengths in place after the end is picked: the caller's lengths are changed",
    "Do not change the inputs that your code is given.",
    "lengths changed in place",
)
def two_slots(states, lengths):
    end = at_end(states, lengths)
    lengths.sub_(1).floor_divide_(2)
    middle = states[torch.arange(states.size(0)), lengths]
    return torch.stack([middle, end], dim=1)


@wrong(
    "gathers with an index on the CPU: raises for states on a GPU",
    "The lengths are on the CPU, and the states may be on a GPU.",
    "index not moved to the device",
)
def two_slots(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    return states.gather(1, places[:, :, None].expand(-1, -1, states.size(2)))


@wrong(
    "looks for the middle between two whole numbers by averaging the states on both sides: right for odd lengths only",
    "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down.",
    "averages two states for even lengths",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    low, high = states[rows, (lengths - 1) // 2], states[rows, lengths // 2]
    middle = low + (high - low) / 2
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "clamps the middle to at least position 1, so that the slots differ from the start: a sentence of one token gets padding (or raises for S = 1), one of two tokens gets its end",
    "Positions count from 0, so the middle of five tokens is position 2, the middle of four tokens is position 1, and the middle of a single token is position 0.",
    "middle never at position 0",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = ((lengths - 1) // 2).clamp(min=1)
    return torch.stack([states[rows, middle], at_end(states, lengths)], dim=1)


@wrong(
    "repairs NaN with nan_to_num before it multiplies: an infinity in a sentence's own states comes out as the largest finite number",
    "Slot 0 holds the state in the middle of the sentence. Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    "nan_to_num changes real values",
)
def two_slots(states, lengths):
    here = torch.arange(states.size(1), device=states.device)
    n = lengths.to(states.device)
    places = torch.stack([(n - 1) // 2, n - 1], dim=1)
    picks = (here == places[:, :, None]).to(states.dtype)
    return picks @ states.nan_to_num()
