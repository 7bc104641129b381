from functools import lru_cache

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from blind import right, wrong

TRUE = (
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding."
)
SHAPE = (
    "Here, all queries may use the same positions, so this axis has length one and the"
    " mask has the shape (B, 1, S)."
)
ZERO = "lengths: (B,), of `torch.long`, number of tokens in each sentence, which may be 0."
SIZE = "size: S, the length of the padded rows; the longest sentence may be shorter."
DEVICE = "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token."
INPUTS = "Do not change the inputs."
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("marks the first position of padding and counts the marks with cumsum")
def padding_mask(lengths, size):
    ends = torch.zeros(len(lengths), size + 1, dtype=torch.long, device=lengths.device)
    ends.scatter_(1, lengths[:, None], 1)
    return (ends.cumsum(1) == 0)[:, None, :size]


@right("pads runs of True with pad_sequence, and fills up to S")
def padding_mask(lengths, size):
    runs = [
        torch.ones(n, dtype=torch.bool, device=lengths.device)
        for n in lengths.tolist()
    ]
    mask = pad_sequence(runs, batch_first=True, padding_value=False)
    return F.pad(mask, (0, size - mask.size(1)), value=False).unsqueeze(1)


@right("counts down what is left of each sentence, and looks at the sign")
def padding_mask(lengths, size):
    positions = torch.ones(1, 1, size, dtype=torch.long, device=lengths.device)
    left = lengths.reshape(-1, 1, 1) - positions.cumsum(-1)
    return left.sign() >= 0


@right("fills a mask row by row in a loop")
def padding_mask(lengths, size):
    mask = lengths.new_zeros((lengths.size(0), 1, size), dtype=torch.bool)
    for row, n in zip(mask, lengths):
        row[..., : int(n)] = True
    return mask


@wrong(
    "compares with <=, so the first position of padding is True",
    breaks=TRUE,
    name="one position too many",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong(
    "returns (B, S)",
    breaks=SHAPE,
    name="the axis of the queries is missing",
)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    "is True on the padding",
    breaks=TRUE,
    name="the mask is the wrong way round",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None]


@wrong(
    "makes the mask as wide as the longest sentence",
    breaks=SIZE,
    name="the width of the longest sentence",
)
def padding_mask(lengths, size):
    longest = int(lengths.max())
    return (torch.arange(longest, device=lengths.device) < lengths[:, None])[:, None]


@wrong(
    "marks the last token at lengths - 1 and fills to the left: -1 is the last column",
    breaks=ZERO,
    name="a sentence without tokens gets a full row",
)
def padding_mask(lengths, size):
    last = torch.zeros(len(lengths), size, dtype=torch.long, device=lengths.device)
    rows = torch.arange(len(lengths), device=lengths.device)
    last[rows, lengths - 1] = 1
    return (last.flip(1).cumsum(1).flip(1) > 0)[:, None]


@wrong(
    "inserts the axis into the caller's lengths with unsqueeze_",
    breaks=INPUTS,
    name="the lengths of the caller get a second axis",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.unsqueeze_(1)).unsqueeze(1)


@wrong(
    "builds the mask from Python lists, so it is always on the CPU",
    breaks=DEVICE,
    name="the mask is left on the CPU",
)
def padding_mask(lengths, size):
    rows = [[[s < n for s in range(size)]] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool)


@wrong(
    "compares in half precision, in which 2049 is 2048",
    breaks=EXACT,
    name="positions in half precision",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).half()
    return (positions < lengths.half()[:, None])[:, None]


@wrong(
    "remembers the mask of each tensor of lengths, though its values may change",
    breaks=CALLS,
    name="a stale mask from an earlier call",
)
@lru_cache(maxsize=8)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]


@wrong(
    "squeezes before it inserts the axis, so one sentence gives (S, 1)",
    breaks=SIZES,
    name="the axis of a batch of one is lost",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    mask = (positions.view(1, -1) < lengths.reshape(-1, 1)).squeeze(0)
    return mask.unsqueeze(1)
