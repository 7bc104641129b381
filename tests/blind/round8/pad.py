from itertools import zip_longest

import torch

from attention_course.tasks.core import PAD
from blind import right, wrong


@right("zip_longest gives the columns, and the tensor is transposed")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T.contiguous()


@right("a tensor full of PAD, one row after the other written in")
def pad(rows):
    out = torch.full((len(rows), max(len(row) for row in rows)), PAD, dtype=torch.long)
    for place, row in zip(out, rows):
        place[: len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@right("torch's own pad_sequence")
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.int64) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


@right("element by element with an index error caught")
def pad(rows, width=None):
    width = max(map(len, rows)) if width is None else width

    def at(row, t):
        try:
            return row[t]
        except IndexError:
            return PAD

    flat = [at(row, t) for row in rows for t in range(width)]
    return torch.tensor(flat, dtype=torch.long).view(len(rows), width)


@wrong("no dtype: if all rows are empty, torch makes float32", "a tensor (B, T) of integers (`torch.long`).", "float tensor for empty rows")
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


@wrong("extends the caller's rows", "Do not change the rows that you are given.", "extends the rows in place")
def pad(rows):
    width = max(map(len, rows))
    for row in rows:
        row += [PAD] * (width - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong("pads in front", "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.", "padding in front")
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*[PAD] * (width - len(row)), *row] for row in rows], dtype=torch.long)


@wrong("leaves empty rows out: the batch has fewer rows", "Rows may be empty, and so may all of them: then the tensor is (B, 0).", "empty rows dropped")
def pad(rows):
    rows = [row for row in rows if row] or rows
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long)


@wrong("at least one column: if all rows are empty, the result is (B, 1)", "Rows may be empty, and so may all of them: then the tensor is (B, 0).", "a column of padding too many")
def pad(rows):
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long)


@wrong("uses int32", "Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).", "wrong integer dtype")
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.int32)


@wrong("the longest row is the one with the largest ids (max of lists compares entries): fails or cuts if it is not the longest", "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.", "max of the rows, not of lengths")
def pad(rows):
    width = len(max(rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))][:width] for row in rows], dtype=torch.long)


@wrong("one row: squeeze removes the axis of the batch, or that of a width of one", "Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).", "squeeze removes axes of length one")
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long).squeeze()


@wrong("remembers the widest batch so far (a mutable default), so a later batch of short rows is too wide", "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.", "width kept from an earlier call")
def pad(rows, widest=[0]):
    widest[0] = max(widest[0], *map(len, rows))
    return torch.tensor([[*row, *[PAD] * (widest[0] - len(row))] for row in rows], dtype=torch.long)


@wrong("builds the tensor through float32: ids from 2**24 + 1 on are rounded", "A batch is one tensor, and a tensor is a rectangle. Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.", "ids pass through float32")
def pad(rows):
    tensors = [torch.Tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD).long()
