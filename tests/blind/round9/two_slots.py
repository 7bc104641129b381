import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from blind import right, wrong


def at_end(x, lengths):
    """Pick the vector of the last token of each sentence."""
    return x[torch.arange(x.size(0)), lengths - 1]


@right("a Python loop over the sentences, positions as Python numbers")
def two_slots(states, lengths):
    rows = []
    for sentence, n in zip(states, lengths.tolist()):
        rows.append(torch.stack([sentence[(n - 1) // 2], sentence[n - 1]]))
    return torch.stack(rows)


@right("gather along the positions, after moving the positions to the device")
def two_slots(states, lengths):
    last = lengths.long() - 1
    positions = torch.stack([last // 2, last], dim=1).to(states.device)
    index = positions[:, :, None].expand(-1, -1, states.size(-1))
    return states.gather(1, index)


@right("index_select in the flattened batch, with offsets")
def two_slots(states, lengths, *, device=None):
    batch, size, width = states.shape
    last = lengths - 1
    first = torch.arange(batch) * size
    where = torch.stack([first + (last >> 1), first + last], dim=1)
    flat = states.reshape(batch * size, width)
    where = where.flatten().to(device or states.device)
    return flat.index_select(0, where).unflatten(0, (batch, 2))


@right("everything but the wanted position becomes 0, then the sum over positions")
def two_slots(states, lengths):
    columns = torch.arange(states.size(1), device=states.device)

    def pick(position):
        hit = columns == position.to(states.device)[:, None]
        return torch.where(hit[..., None], states, torch.zeros_like(states)).sum(1)

    # the middle is where two steps forward are still inside the sentence
    last = lengths - 1
    middle = torch.div(last, 2, rounding_mode="floor")
    return torch.cat([pick(middle)[:, None], pick(last)[:, None]], dim=1)


@wrong(
    "The middle is n // 2, one position too late for every even length (position 2 of four tokens, position 1 of two).",
    "so the middle of five tokens is position 2, and the middle of four tokens is position 1.",
    "middle off by one for even lengths",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], at_end(states, lengths)], dim=1)


@wrong(
    "The slots are exchanged: the end comes first.",
    "Slot 0 holds the state in the middle of the sentence.",
    "slots in the wrong order",
)
def two_slots(states, lengths):
    end = at_end(states, lengths)
    middle = at_end(states, (lengths + 1) // 2)
    return torch.stack([end, middle], dim=1)


@wrong(
    "The middle of the padded batch is taken for all sentences; wrong for every sentence that is shorter than the batch.",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "middle of the batch, not of the sentence",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong(
    "One-hot product: 0 times NaN is NaN, so NaN in the padding reaches both slots.",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "multiplies padding by zero instead of skipping it",
)
def two_slots(states, lengths):
    columns = torch.arange(states.size(1))
    positions = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    choose = (columns == positions[..., None]).to(states.device, states.dtype)
    return choose @ states


@wrong(
    "round() rounds halves to the even number: 1.5 becomes 2 for four tokens and 3.5 becomes 4 for eight, while two and six tokens are right.",
    "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    "rounds halves to even instead of down",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    middle = ((lengths - 1) / 2).round().long()
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "lengths -= 1 changes the tensor of the caller.",
    "Do not change the inputs.",
    "changes the lengths in place",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    lengths -= 1
    return torch.stack([states[rows, lengths // 2], states[rows, lengths]], dim=1)


@wrong(
    "pack_padded_sequence insists on sentences sorted from long to short: for any other order of the lengths it raises.",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "works only for batches sorted by length",
)
def two_slots(states, lengths):
    packed = pack_padded_sequence(states, lengths, batch_first=True)
    clean, sizes = pad_packed_sequence(packed, batch_first=True)
    rows = torch.arange(clean.size(0))
    return torch.stack([clean[rows, (sizes - 1) // 2], clean[rows, sizes - 1]], dim=1)


@wrong(
    "The positions are computed in the dtype of the states: bfloat16 has no 257 and no 299, so sentences of more than 256 tokens get a neighbouring state or an index error.",
    "Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    "positions computed in a low-precision dtype",
)
def two_slots(states, lengths):
    rows = torch.arange(states.size(0), device=states.device)
    last = lengths.to(states) - 1
    middle = (last / 2).floor()
    return torch.stack([states[rows, middle.long()], states[rows, last.long()]], dim=1)


@wrong(
    "Only NaN is removed from the padding; infinity times 0 is NaN again, so a padding of inf reaches both slots.",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "guards against NaN but not against infinity",
)
def two_slots(states, lengths):
    mask = padding_mask(lengths, states.size(1)).mT.to(states.device)
    clean = torch.where(states.isnan() & ~mask, 0, states)
    columns = torch.arange(states.size(1))
    positions = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    choose = (columns == positions[..., None]).to(clean.device, clean.dtype)
    return torch.einsum("bks,bsd->bkd", choose, clean)


@wrong(
    "The result lives in a buffer that is kept for each shape: the next call with the same shape overwrites the result of the call before.",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "reuses one buffer for all results",
)
def two_slots(states, lengths, buffers={}):
    key = (states.size(0), states.size(2), states.dtype, states.device)
    if key not in buffers:
        buffers[key] = states.new_empty(states.size(0), 2, states.size(2))
    out = buffers[key].detach()
    for b, n in enumerate(lengths.tolist()):
        out[b, 0] = states[b, (n - 1) // 2]
        out[b, 1] = states[b, n - 1]
    return out
