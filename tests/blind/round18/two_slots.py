import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


def pick_last(x, lengths):
    """The lab's `at_end`, rightly."""
    rows = torch.arange(x.size(0), device=x.device)
    return x[rows, lengths.to(x.device) - 1]


@right("one gather for both positions, with shifts of bits")
def two_slots(states, lengths):
    last = lengths.to(states.device) - 1
    index = torch.stack([last >> 1, last], dim=1)
    return torch.take_along_dim(states, index[..., None], dim=1)


@right(
    "boolean masks: where twice the position is n - 1 or n - 2, and where the mask ends"
)
def two_slots(states, lengths):
    n = lengths[:, None]
    s = torch.arange(states.size(1))[None]
    middle = ((2 * s == n - 1) | (2 * s == n - 2)).to(states.device)
    end = (s + 1 == n).to(states.device)
    return torch.cat([states[middle], states[end]], dim=1).reshape(len(states), 2, -1)


@right("one-hot weights and nansum, which leaves NaN times zero out")
def two_slots(states, lengths):
    ends = torch.stack([(lengths + 1) // 2, lengths], dim=1)
    hot = F.one_hot(ends - 1, states.size(1)).to(states)
    return (hot[:, :, :, None] * states[:, None]).nansum(dim=2)


@right("a slow and a fast pointer, sentence by sentence")
def two_slots(states, lengths):
    def walk(sentence):
        slow = fast = 0
        while fast + 1 < len(sentence):
            slow += fast % 2
            fast += 1
        return sentence[[slow, fast]]

    return torch.stack([walk(x[:n]) for x, n in zip(states, lengths.tolist())])


@wrong(
    "takes n // 2 for the middle",
    breaks="The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    name="rounds the middle up",
)
def two_slots(states, lengths):
    middle = states[torch.arange(len(states)), lengths // 2]
    return torch.stack([middle, pick_last(states, lengths)], dim=1)


@wrong(
    "takes the middle of the padded batch",
    breaks="Slot 0 holds the state in the middle of the sentence.",
    name="middle of the batch instead of the sentence",
)
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, pick_last(states, lengths)], dim=1)


@wrong(
    "puts the end first",
    breaks="(B, 2, E): the state in the middle first, then the state at the end.",
    name="slots in the wrong order",
)
def two_slots(states, lengths):
    middle = pick_last(states, (lengths + 1) // 2)
    return torch.stack([pick_last(states, lengths), middle], dim=1)


@wrong(
    "passes the position of the middle to at_end, which expects a length",
    breaks="The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    name="position used as a length",
)
def two_slots(states, lengths):
    middle = pick_last(states, (lengths - 1) // 2)
    return torch.stack([middle, pick_last(states, lengths)], dim=1)


@wrong(
    "averages the two states next to the middle if the number of tokens is even",
    breaks="The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    name="averages the two middle states",
)
def two_slots(states, lengths):
    rows = torch.arange(len(states))
    middle = (states[rows, (lengths - 1) // 2] + states[rows, lengths // 2]) / 2
    return torch.stack([middle, pick_last(states, lengths)], dim=1)


@wrong(
    "uses torch.round, which rounds halves to the even number: right for n = 2 and 6, wrong for n = 4 and 8",
    breaks="The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    name="rounds to the nearest even number",
)
def two_slots(states, lengths):
    positions = torch.round((lengths - 1) / 2).long()
    middle = pick_last(states, positions + 1)
    return torch.stack([middle, pick_last(states, lengths)], dim=1)


@wrong(
    "halves the lengths in the dtype of the states, so bfloat16 misses the middle of long sentences",
    breaks="Positions and counts must be exact in every dtype.",
    name="positions in the dtype of the states",
)
def two_slots(states, lengths):
    positions = ((lengths.to(states.dtype) - 1) / 2).floor().long()
    middle = pick_last(states, positions + 1)
    return torch.stack([middle, pick_last(states, lengths)], dim=1)


@wrong(
    "leaves slot 0 empty for a sentence of one token, which has no first half",
    breaks="The middle of a sentence of n tokens is position (n - 1) / 2, rounded down.",
    name="no middle for one token",
)
def two_slots(states, lengths):
    slots = states.new_zeros(len(states), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        slots[b, 1] = states[b, n - 1]
        if n > 1:
            slots[b, 0] = states[b, (n - 1) // 2]
    return slots


@wrong(
    "clears the padding in place to get rid of NaN",
    breaks="Do not change the inputs.",
    name="changes the states",
)
def two_slots(states, lengths):
    mask = padding_mask(lengths.to(states.device), states.size(1))
    states.data.masked_fill_(~mask.transpose(1, 2), 0)
    hot = F.one_hot(torch.stack([(lengths - 1) // 2, lengths - 1], 1), states.size(1))
    return hot.to(states) @ states


@wrong(
    "an early exit for a batch of one sentence takes the last column as its end, though it may be padding",
    breaks="Slot 1 holds the state at its end, at position `lengths[b] - 1`.",
    name="a single sentence is taken as unpadded",
)
def two_slots(states, lengths):
    if len(states) == 1:
        size = states.size(1)
        return states[:, [(size - 1) // 2, size - 1]]
    middle = pick_last(states, (lengths + 1) // 2)
    return torch.stack([middle, pick_last(states, lengths)], dim=1)
