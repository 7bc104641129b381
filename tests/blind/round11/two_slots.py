import torch
from torch.nn import functional as F

from blind import right, wrong


def _at_end(x, lengths):
    rows = torch.arange(x.size(0), device=x.device)
    return x[rows, lengths.to(x.device) - 1]


@right("at_end twice, the middle as the end of the first half, written into a new tensor")
def two_slots(states, lengths):
    slots = states.new_empty(states.size(0), 2, states.size(2))
    slots[:, 1] = _at_end(states, lengths)
    slots[:, 0] = _at_end(states, (lengths + 1) // 2)
    return slots


@right("one gather with both positions")
def two_slots(states, lengths):
    end = lengths.to(states.device).long() - 1
    positions = torch.stack([torch.div(end, 2, rounding_mode="floor"), end], dim=-1)
    index = positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])
    return torch.take_along_dim(states, index, dim=1)


@right("Python loop over the sentences, whole numbers by divmod")
def two_slots(states, lengths):
    kept = []
    for b, n in enumerate(lengths.tolist()):
        middle, _ = divmod(n - 1, 2)
        kept.append(torch.cat([states[b, middle : middle + 1], states[b, n - 1 : n]]))
    return torch.stack(kept)


@right("look the two positions up in the flattened batch as if it were an embedding")
def two_slots(states, lengths):
    size = states.size(1)
    flat = [
        [b * size + ((n - 1) >> 1), b * size + n - 1]
        for b, n in enumerate(lengths.tolist())
    ]
    return F.embedding(torch.tensor(flat, device=states.device), states.flatten(0, 1))


@wrong(
    "n // 2 as the middle, one too far for an even n",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "middle off by one for even lengths",
)
def two_slots(states, lengths):
    middle = _at_end(states, lengths // 2 + 1)
    return torch.stack([middle, _at_end(states, lengths)], dim=1)


@wrong(
    "the end comes first and the middle second",
    "Slot 0 holds the state in the middle of the sentence.",
    "slots swapped",
)
def two_slots(states, lengths):
    end = _at_end(states, lengths)
    middle = _at_end(states, (lengths - 1) // 2 + 1)
    return torch.stack([end, middle], dim=1)


@wrong(
    "takes the middle of the padded batch instead of each sentence's own",
    "Slot 0 holds the state in the middle of the sentence.",
    "middle of the columns, not of the sentence",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, _at_end(states, lengths)], dim=1)


@wrong(
    "rounds halves to the nearest even position, so that four tokens have their middle"
    " at position 2",
    "Positions count from 0, so the middle of five tokens is position 2, and the middle"
    " of four tokens is position 1.",
    "rounds to even instead of down",
)
def two_slots(states, lengths):
    end = (lengths - 1).to(states.device)
    middle = torch.round(end.double() / 2).long()
    rows = torch.arange(states.size(0), device=states.device)
    return torch.stack([states[rows, middle], states[rows, end]], dim=1)


@wrong(
    "a matrix of ones and zeros times the states, in which zero times NaN is NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "multiplies the padding by zero instead of leaving it out",
)
def two_slots(states, lengths):
    end = lengths.to(states.device) - 1
    positions = torch.stack([end // 2, end], dim=1)
    pick = F.one_hot(positions, states.size(1)).to(states.dtype)
    return pick @ states


@wrong(
    "collects the slots in a float32 tensor, whatever the dtype of the states",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "result always float32",
)
def two_slots(states, lengths):
    slots = torch.zeros(states.size(0), 2, states.size(2), device=states.device)
    for b, n in enumerate(lengths.tolist()):
        slots[b, 0] = states[b, (n - 1) // 2]
        slots[b, 1] = states[b, n - 1]
    return slots


@wrong(
    "gathers with an index that stays on the CPU",
    "The lengths are on the CPU, but the states may be on a GPU.",
    "index on the wrong device",
)
def two_slots(states, lengths):
    end = lengths - 1
    index = torch.stack([end // 2, end], dim=1)[:, :, None]
    return states.gather(1, index.expand(-1, -1, states.size(2)))


@wrong(
    "lengths.to(states) also casts the lengths, so that long sentences have rounded"
    " positions in bfloat16",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in a floating dtype of low precision",
)
def two_slots(states, lengths):
    last = lengths.to(states) - 1
    positions = torch.stack([torch.floor(last / 2), last], dim=1).long()
    positions = positions.clamp(max=states.size(1) - 1)
    rows = torch.arange(states.size(0), device=states.device)[:, None]
    return states[rows, positions]


@wrong(
    "wants the two slots to differ, so for a sentence of one token slot 1 is position 1,"
    " which is padding",
    "Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    "sentence of one token reads its padding",
)
def two_slots(states, lengths):
    end = lengths.to(states.device) - 1
    middle = end // 2
    end = torch.maximum(end, middle + 1)
    rows = torch.arange(states.size(0), device=states.device)
    return torch.stack([states[rows, middle], states[rows, end]], dim=1)


@wrong(
    "replaces NaN in the caller's own states in place",
    "Do not change the inputs.",
    "cleans the padding in place",
)
def two_slots(states, lengths):
    end = lengths.to(states.device) - 1
    clean = states.nan_to_num_()
    pick = F.one_hot(torch.stack([end // 2, end], dim=1), states.size(1))
    return torch.bmm(pick.to(states.dtype), clean)
