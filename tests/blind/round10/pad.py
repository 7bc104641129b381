from itertools import chain, zip_longest

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD

from blind import right, wrong


@right("fills a tensor of PAD row by row")
def pad(rows):
    longest = max(map(len, rows))
    padded = torch.full((len(rows), longest), PAD, dtype=torch.long)
    for line, row in zip(padded, rows):
        line[: len(row)] = torch.tensor(row, dtype=torch.long)
    return padded


@right("transposes with zip_longest, and treats the case of empty rows on its own")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    if not columns:
        return torch.zeros(len(rows), 0, dtype=torch.long)
    return torch.tensor(columns, dtype=torch.long).T.contiguous()


@right("writes all ids at once through a mask")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    here = torch.arange(int(lengths.max())) < lengths[:, None]
    padded = torch.zeros(here.shape, dtype=torch.long).fill_(PAD)
    padded[here] = torch.tensor([*chain.from_iterable(rows)], dtype=torch.long)
    return padded


@right("pad_sequence with explicit whole numbers")
def pad(rows, value=PAD):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)


@wrong(
    "puts the padding in front: [[5, 6], [7]] gives [[5, 6], [0, 7]]",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "padding in front instead of behind",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (longest - len(row)) + row for row in rows], dtype=torch.long
    )


@wrong(
    "appends to the lists of the caller, which are longer afterwards",
    "- Do not change the inputs.",
    "extends the caller's rows in place",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "takes the first row for the longest one: [[5], [6, 7]] raises",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "assumes that the first row is the longest",
)
def pad(rows):
    padded = torch.zeros(len(rows), len(rows[0]), dtype=torch.long)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded


@wrong(
    "no dtype: if all rows are empty, the tensor is of torch.float32",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "empty rows give a float tensor",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong(
    "pad_sequence takes the dtype of its first tensor, and torch.tensor([]) is float: if"
    " the first row is empty, the result is float32",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "empty first row gives a float tensor",
)
def pad(rows):
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD
    )


@wrong(
    "zip_longest has no columns if all rows are empty: the shape is (0,), not (B, 0)",
    "If all rows are empty, return a tensor of shape (B, 0).",
    "wrong shape if all rows are empty",
)
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).mT if columns else torch.tensor(
        columns, dtype=torch.long
    )


@wrong(
    "leaves out empty rows: [[5], []] gives one row",
    "A row may be empty.",
    "empty rows are dropped",
)
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows if row]
    if not tensors:
        return torch.zeros(len(rows), 0, dtype=torch.long)
    longest = max(len(row) for row in tensors)
    return torch.stack([F.pad(row, (0, longest - len(row)), value=PAD) for row in tensors])


@wrong(
    "max(rows) compares the ids, not the lengths: for [[9], [1, 2]] it is [9], and the row"
    " [1, 2] is cut to one id",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "max(rows) is not the longest row",
)
def pad(rows):
    width = len(max(rows))
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))][:width] for row in rows], dtype=torch.long
    ).reshape(len(rows), width)


BUFFER = torch.full((1, 1), PAD, dtype=torch.long)


@wrong(
    "returns a view of one buffer that every call writes into: a second call changes the"
    " tensor that the first call returned",
    "- The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "all results share one buffer",
)
def pad(rows):
    global BUFFER
    height, width = len(rows), max(len(row) for row in rows)
    if height > BUFFER.size(0) or width > BUFFER.size(1):
        size = (max(height, BUFFER.size(0)), max(width, BUFFER.size(1)))
        BUFFER = torch.full(size, PAD, dtype=torch.long)
    padded = BUFFER[:height, :width]
    padded.fill_(PAD)
    for line, row in zip(padded, rows):
        line[: len(row)] = torch.tensor(row, dtype=torch.long)
    return padded


@wrong(
    "collects the ids in 16 bits before it makes whole numbers of 64 bits: ids from 32768"
    " up (large vocabularies) come out negative",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "large ids overflow 16 bits",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    padded = torch.full((len(rows), longest), PAD, dtype=torch.int16)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.tensor(row, dtype=torch.long).to(torch.int16)
    return padded.long()
