import itertools

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

APPEND = (
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as"
    " the longest one."
)
MAY_BE_EMPTY = "There is at least one row, and a row may be empty."
DTYPE = "Append PAD to lists of ids: a tensor (B, T) of whole numbers (`torch.long`)."
INPUTS = "Do not change the inputs."
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("reads the columns with zip_longest, and returns a transposed tensor")
def pad(rows):
    columns = list(itertools.zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T


@right("writes all ids at once to the places that a mask marks")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([*itertools.chain(*rows)], dtype=torch.long)
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    return torch.full(mask.shape, PAD).masked_scatter(mask, ids)


@right("fills a tensor id by id, in two loops")
def pad(rows):
    width = 0
    for row in rows:
        if len(row) > width:
            width = len(row)
    padded = torch.empty(len(rows), width, dtype=torch.int64)
    for b in range(len(rows)):
        for t in range(width):
            padded[b, t] = rows[b][t] if t < len(rows[b]) else PAD
    return padded


@right("pads each row as a tensor of its own, and stacks the rows")
def pad(rows):
    rows = [torch.tensor(row, dtype=torch.long) for row in rows]
    width = max(row.numel() for row in rows)
    return torch.stack([F.pad(row, (0, width - row.numel()), value=PAD) for row in rows])


@wrong(
    "puts the padding in front",
    breaks=APPEND,
    name="padding in front instead of at the end",
)
def pad(rows):
    width = max(map(len, rows))
    rows = [[PAD] * (width - len(row)) + row for row in rows]
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "appends the padding to the lists that it was given",
    breaks=INPUTS,
    name="input lists changed",
)
def pad(rows):
    width = max(len(row) for row in rows)
    for row in rows:
        while len(row) < width:
            row.append(PAD)
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "cuts all rows to the length of the shortest one",
    breaks=APPEND,
    name="cut to the shortest row",
)
def pad(rows):
    columns = list(zip(*rows))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T


@wrong(
    "returns 32-bit numbers",
    breaks=DTYPE,
    name="int32 instead of long",
)
def pad(rows):
    width = max(len(row) for row in rows)
    rows = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(rows, dtype=torch.int)


@wrong(
    "repeats the last id of a row instead of PAD",
    breaks=APPEND,
    name="last token repeated",
)
def pad(rows):
    width = max(len(row) for row in rows)
    rows = [
        [*row, *(row[-1:] or [PAD]) * (width - len(row))] for row in rows
    ]
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "names no dtype, so a batch of empty rows becomes float32",
    breaks=DTYPE,
    name="floats if all rows are empty",
)
def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


_buffers = {}


@wrong(
    "uses one tensor again for all batches of the same shape, without clearing it",
    breaks=STATE,
    name="buffer shared between calls",
)
def pad(rows):
    shape = len(rows), max(len(row) for row in rows)
    if shape not in _buffers:
        _buffers[shape] = torch.full(shape, PAD)
    padded = _buffers[shape]
    for b, row in enumerate(rows):
        padded[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded.clone()


@wrong(
    "collects the ids as float32, which rounds ids above 2 ** 24",
    breaks=SIZES,
    name="large ids rounded by float32",
)
def pad(rows):
    padded = torch.zeros(len(rows), max(len(row) for row in rows))
    for b, row in enumerate(rows):
        padded[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded.long()


@wrong(
    "leaves out rows that are empty",
    breaks=MAY_BE_EMPTY,
    name="empty rows dropped",
)
def pad(rows):
    filled = [torch.tensor(row, dtype=torch.long) for row in rows if row]
    if not filled:
        return torch.zeros(len(rows), 0, dtype=torch.long)
    return nn.utils.rnn.pad_sequence(filled, batch_first=True, padding_value=PAD)


@wrong(
    "removes all axes of length one at the end, also the axis of a single row",
    breaks=SIZES,
    name="batch axis lost for a single row",
)
def pad(rows):
    width = max(len(row) for row in rows)
    padded = torch.full((len(rows), width, 1), PAD)
    for b, row in enumerate(rows):
        padded[b, : len(row), 0] = torch.tensor(row, dtype=torch.long)
    return padded.squeeze()
