import torch

from blind import right, wrong

ORDER = (
    "Slot 0 holds the state in the middle of the sentence. Slot 1 holds the state at"
    " its end, at position `lengths[b] - 1`."
)
MIDDLE = "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down."
PADDING = "The padding may hold any values, even NaN, and must not influence the result."
PADDED = "A batch may be padded to more positions than its longest sentence has tokens."
INPUTS = "Do not change the inputs."
LAYOUT = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
GRADIENTS = "Gradients must be right, too."
EXACT = "Positions and counts must be exact in every dtype."


def pick(states, positions):
    return states[torch.arange(states.size(0)), positions]


@right("looks both positions up at once with take_along_dim")
def two_slots(states, lengths):
    last = lengths - 1
    places = torch.stack([last >> 1, last], dim=1).to(states.device)
    return torch.take_along_dim(states, places[:, :, None], dim=1)


@right("cuts each sentence to its length, and indexes it with a list")
def two_slots(states, lengths):
    slots = []
    for n, row in zip(lengths.tolist(), states):
        sentence = row[:n]
        slots.append(sentence[[-(-n // 2) - 1, n - 1]])
    return torch.stack(slots)


@right("replaces all other states by zeros with masked_fill, and adds up")
def two_slots(states, lengths):
    n = lengths.to(states.device)[:, None]
    s = torch.arange(states.size(1), device=states.device)
    is_middle = (2 * s + 1 == n) | (2 * s + 2 == n)
    keep = torch.stack([is_middle, s + 1 == n], dim=1)  # (B, 2, S)
    return states[:, None].masked_fill(~keep[..., None], 0).sum(2)


@right("flattens the batch and selects 2 B rows, first all ends and then all middles")
def two_slots(states, lengths):
    B, S, E = states.shape
    first = torch.arange(B) * S
    ends = first + lengths - 1
    middles = first + torch.div(lengths + 1, 2, rounding_mode="floor") - 1
    rows = states.reshape(B * S, E).index_select(
        0, torch.cat([ends, middles]).to(states.device)
    )
    return rows.reshape(2, B, E).flip(0).transpose(0, 1)


@wrong(
    "takes n // 2 as the middle, which is one too far if n is even",
    breaks=MIDDLE,
    name="the middle of an even number of tokens",
)
def two_slots(states, lengths):
    middle = (lengths // 2).clamp(max=states.size(1) - 1)
    return torch.stack([pick(states, middle), pick(states, lengths - 1)], dim=1)


@wrong(
    "takes the middle of the padded batch for all sentences",
    breaks=MIDDLE,
    name="the middle of the batch",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, pick(states, lengths - 1)], dim=1)


@wrong(
    "puts the end first",
    breaks=ORDER,
    name="the slots are swapped",
)
def two_slots(states, lengths):
    return torch.stack(
        [pick(states, lengths - 1), pick(states, (lengths - 1) // 2)], dim=1
    )


@wrong(
    "multiplies by one-hot weights, and zero times NaN is NaN",
    breaks=PADDING,
    name="NaN from the padding gets through a matrix product",
)
def two_slots(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    weights = torch.nn.functional.one_hot(places, states.size(1))
    return weights.to(states) @ states


@wrong(
    "rounds with torch.round, which rounds 1.5 up to 2: wrong for 4, 8, 12 tokens",
    breaks=MIDDLE,
    name="rounded to the even neighbour",
)
def two_slots(states, lengths):
    middle = torch.round((lengths - 1) / 2).long()
    return torch.stack([pick(states, middle), pick(states, lengths - 1)], dim=1)


@wrong(
    "halves the positions in the dtype of the states: bfloat16 has no 257",
    breaks=EXACT,
    name="the middle in low precision",
)
def two_slots(states, lengths):
    middle = ((lengths.to(states.dtype) - 1) / 2).floor().long()
    return torch.stack([pick(states, middle), pick(states, lengths - 1)], dim=1)


@wrong(
    "subtracts one from the caller's lengths with sub_",
    breaks=INPUTS,
    name="the lengths of the caller shrink",
)
def two_slots(states, lengths):
    end = lengths.sub_(1)
    return torch.stack([pick(states, end // 2), pick(states, end)], dim=1)


@wrong(
    "takes fixed columns if all sentences have the same length, even with padding",
    breaks=PADDED,
    name="sentences of equal length are taken for unpadded ones",
)
def two_slots(states, lengths):
    if bool((lengths == lengths[0]).all()):
        S = states.size(1)
        return states[:, [(S - 1) // 2, S - 1]]
    return torch.stack(
        [pick(states, (lengths - 1) // 2), pick(states, lengths - 1)], dim=1
    )


@wrong(
    "reads the memory with as_strided, as if the states were contiguous",
    breaks=LAYOUT,
    name="relies on the layout in memory",
)
def two_slots(states, lengths):
    B, S, E = states.shape
    flat = torch.as_strided(states, (B * S, E), (E, 1))
    first = torch.arange(B) * S
    return torch.stack(
        [flat[first + (lengths - 1) // 2], flat[first + lengths - 1]], dim=1
    )


@wrong(
    "detaches the state in the middle, because the last state depends on it anyway",
    breaks=GRADIENTS,
    name="no gradient through slot 0",
)
def two_slots(states, lengths):
    middle = pick(states.detach(), (lengths - 1) // 2)
    return torch.stack([middle, pick(states, lengths - 1)], dim=1)
