from itertools import chain, zip_longest

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import PAD
from blind import right, wrong

LONGEST = (
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as"
    " the longest one."
)
MAY_BE_EMPTY = "There is at least one row, and a row may be empty."
ALL_EMPTY = "If all rows are empty, return a tensor of shape (B, 0)."
LONG = (
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."
)
INPUTS = "Do not change the inputs."
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)

BUFFERS = {}


@right("makes the columns with zip_longest and transposes them")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    if not columns:
        return torch.zeros(len(rows), 0, dtype=torch.long)
    return torch.tensor(columns, dtype=torch.long).T


@right("writes all ids at once through a mask")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    result = torch.full(mask.shape, PAD, dtype=torch.long)
    result[mask] = torch.tensor([*chain.from_iterable(rows)], dtype=torch.long)
    return result


@right("pads each row on its own with F.pad and stacks the rows")
def pad(rows):
    size = len(max(rows, key=len))
    return torch.stack(
        [
            F.pad(torch.tensor(list(row), dtype=torch.long), (0, size - len(row)), value=PAD)
            for row in rows
        ]
    )


@right("looks each cell up in one flat list whose last entry is PAD")
def pad(rows):
    flat = torch.tensor([*chain(*rows), PAD], dtype=torch.long)
    size, start, index = max(map(len, rows)), 0, []
    for row in rows:
        n = len(row)
        index += [*range(start, start + n), *[len(flat) - 1] * (size - n)]
        start += n
    return flat[torch.tensor(index, dtype=torch.long)].reshape(len(rows), size)


@wrong(
    "puts the padding in front of the row",
    breaks=LONGEST,
    name="padding on the wrong side",
)
def pad(rows):
    size = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (size - len(row)) + list(row) for row in rows], dtype=torch.long
    )


@wrong(
    "fills a float tensor",
    breaks=LONG,
    name="ids are not whole numbers",
)
def pad(rows):
    result = torch.zeros(len(rows), max(len(row) for row in rows))
    for b, row in enumerate(rows):
        for t, token in enumerate(row):
            result[b, t] = token
    return result


@wrong(
    "makes every row as long as the first one, and cuts the longer ones",
    breaks=LONGEST,
    name="the length of the first row",
)
def pad(rows):
    size = len(rows[0])
    return torch.tensor(
        [(list(row) + [PAD] * size)[:size] for row in rows], dtype=torch.long
    ).reshape(len(rows), size)


@wrong(
    "appends PAD to the caller's own lists",
    breaks=INPUTS,
    name="the rows of the caller grow",
)
def pad(rows):
    size = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (size - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "uses pad_sequence on tensors without a dtype: floats if the first row is empty",
    breaks=MAY_BE_EMPTY,
    name="an empty first row decides the dtype",
)
def pad(rows):
    return pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD
    )


@wrong(
    "keeps at least one column",
    breaks=ALL_EMPTY,
    name="one column of padding too many if all rows are empty",
)
def pad(rows):
    size = max([1, *map(len, rows)])
    return torch.tensor(
        [[*row, *[PAD] * (size - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "fills a float32 tensor and makes it long at the end: ids above 2**24 are rounded",
    breaks=SIZES,
    name="large ids pass through float32",
)
def pad(rows):
    result = torch.full((len(rows), max(len(row) for row in rows)), float(PAD))
    for b, row in enumerate(rows):
        result[b, : len(row)] = torch.tensor(list(row), dtype=torch.float32)
    return result.long()


@wrong(
    "cuts off columns at the end that hold only the id of PAD, even as a token",
    breaks=LONGEST,
    name="a token with the id 0 at the end is taken for padding",
)
def pad(rows):
    size = max(len(row) for row in rows)
    while size and all(len(row) < size or row[size - 1] == PAD for row in rows):
        size -= 1
    return torch.tensor(
        [(list(row) + [PAD] * size)[:size] for row in rows], dtype=torch.long
    )


@wrong(
    "squeezes the result, so one sentence, or one column, loses its axis",
    breaks=SIZES,
    name="axes of length one are lost",
)
def pad(rows):
    size = max(len(row) for row in rows)
    padded = [[*row, *[PAD] * (size - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).squeeze()


@wrong(
    "uses one buffer for each shape again, with the ids of the last call in it",
    breaks=CALLS,
    name="ids of an earlier batch stand in the padding",
)
def pad(rows):
    shape = len(rows), max(len(row) for row in rows)
    if shape not in BUFFERS:
        BUFFERS[shape] = torch.full(shape, PAD, dtype=torch.long)
    result = BUFFERS[shape]
    for b, row in enumerate(rows):
        result[b, : len(row)] = torch.tensor(list(row), dtype=torch.long)
    return result.clone()
