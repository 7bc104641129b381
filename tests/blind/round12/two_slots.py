import torch

from attention_course.rnn import at_end

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "the middle is n // 2, which for four tokens is position 2",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "middle of an even length rounded up",
)
def two_slots(states, lengths):
    middle = at_end(states, lengths // 2 + 1)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "slot 1 is the last column of the batch",
    "Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    "last column",
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2 + 1)
    return torch.stack([middle, states[:, -1]], dim=1)


@wrong(
    "the end first",
    "(B, 2, E): the state in the middle first, then the state at the end.",
    "slots swapped",
)
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2 + 1)
    return torch.stack([at_end(states, lengths), middle], dim=1)


@wrong(
    "the middle of the padded row, the same column for all sentences",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "middle of the row, not of the sentence",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "torch.round rounds 1.5 to 2: right for 1, 2, 3, 5 and 6 tokens, wrong for 4",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "rounded to the nearest even number",
    subtle=True,
)
def two_slots(states, lengths):
    middle = torch.round((lengths - 1) / 2).long()
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "computes the positions in the dtype of the states: in bfloat16, 515 is 516",
    "Positions and counts, however, must be exact in every dtype.",
    "positions rounded",
    subtle=True,
)
def two_slots(states, lengths):
    n = lengths.to(states)
    middle = torch.floor((n - 1) / 2).long()
    rows = torch.arange(states.size(0), device=states.device)
    return torch.stack([states[rows, middle], at_end(states, lengths)], dim=1)


@wrong(
    "a matrix of zeros and ones times the states: NaN in the padding spreads",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "0 times NaN",
    subtle=True,
)
def two_slots(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1).to(states.device)
    columns = torch.arange(states.size(1), device=states.device)
    return (columns == places[..., None]).to(states.dtype) @ states


@wrong(
    "turns the caller's lengths into positions in place",
    "Do not change the inputs.",
    "lengths changed in place",
    subtle=True,
)
def two_slots(states, lengths):
    end = at_end(states, lengths)
    middle = lengths.sub_(1).div_(2, rounding_mode="floor")
    return torch.stack([at_end(states, middle + 1), end], dim=1)


@wrong(
    "leaves the index of take_along_dim on the CPU",
    "The lengths are on the CPU, but the states may be on a GPU.",
    "index on the CPU",
    subtle=True,
)
def two_slots(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    return torch.take_along_dim(states, places[..., None], dim=1)


@wrong(
    "fills torch.empty(B, 2, E), which is float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result always float32",
    subtle=True,
)
def two_slots(states, lengths):
    out = torch.empty(states.size(0), 2, states.size(2), device=states.device)
    out[:, 0] = at_end(states, (lengths - 1) // 2 + 1)
    out[:, 1] = at_end(states, lengths)
    return out


# ---------------------------------------------------------------- right answers


@right("the half of the sentence, rounded up, ends at the middle")
def two_slots(states, lengths):
    first_halves = (lengths + 1) // 2
    return torch.stack((at_end(states, first_halves), at_end(states, lengths)), 1)


@right("one gather for both slots, bits shifted")
def two_slots(states, lengths):
    last = lengths.to(states.device) - 1
    places = torch.stack([last >> 1, last], dim=-1)
    return states.gather(1, places[:, :, None].expand(-1, -1, states.size(-1)))


@right("a loop with Python numbers")
def two_slots(states, lengths):
    slots = []
    for b, n in enumerate(lengths.tolist()):
        slots += [states[b, int((n - 1) / 2)], states[b, n - 1]]
    return torch.stack(slots).unflatten(0, (-1, 2))


@right("cuts each sentence off, and walks two steps for one")
def two_slots(states, lengths):
    pairs = []
    for row, n in zip(states, lengths):
        slow = 0
        for _ in range(2, int(n), 2):
            slow += 1
        sentence = row[:n]
        pairs.append(torch.cat([sentence[slow : slow + 1], sentence[-1:]]))
    return torch.stack(pairs)
