from itertools import zip_longest

import torch
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


@right("torch.full, then each row is written over its beginning")
def pad(rows):
    out = torch.full((len(rows), max(map(len, rows))), PAD, dtype=torch.long)
    for line, row in zip(out, rows):
        line[: len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@right("pad_sequence of torch, with the dtype said for every row")
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


@right("one flat list of numbers, reshaped at the end")
def pad(rows, *, fill=PAD):
    longest = max(len(row) for row in rows)
    flat = [
        row[t] if t < len(row) else fill for row in rows for t in range(longest)
    ]
    return torch.tensor(flat, dtype=torch.long).reshape(len(rows), longest)


@right("column by column with zip_longest, and a column-less tensor if there is none")
def pad(rows):
    columns = [
        torch.tensor(column, dtype=torch.long)
        for column in zip_longest(*rows, fillvalue=PAD)
    ]
    if not columns:
        return torch.empty(len(rows), 0, dtype=torch.long)
    return torch.stack(columns, dim=1)


@wrong(
    "fills up in front: [[5, 6], [7]] gives [0, 7] in the second row",
    "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.",
    "padding in front",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (longest - len(row)) + row for row in rows], dtype=torch.long
    )


@wrong(
    "extends the rows of the caller: after the call all of them have the same length",
    "The rows that come in are not yours: leave them as they are.",
    "extends the caller's rows in place",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "torch.zeros makes floating-point numbers: the ids come out as float32",
    "Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers",
    "floating-point ids",
)
def pad(rows):
    out = torch.zeros(len(rows), max(len(row) for row in rows))
    for b, row in enumerate(rows):
        for t, i in enumerate(row):
            out[b, t] = i
    return out


@wrong(
    "no dtype: if all rows are empty, the tensor (B, 0) is float32",
    "Rows may be empty, and so may all of them: then the tensor is (B, 0).",
    "empty rows give a floating-point tensor",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong(
    "zip_longest and a transpose: if all rows are empty, the result is (0,) and not (B, 0)",
    "Rows may be empty, and so may all of them: then the tensor is (B, 0).",
    "all rows empty: the batch axis is lost",
)
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor([list(row) for row in zip(*columns)], dtype=torch.long)


@wrong(
    "at least one column: rows that are all empty give (B, 1)",
    "Rows may be empty, and so may all of them: then the tensor is (B, 0).",
    "at least one column, even if all are empty",
)
def pad(rows):
    longest = max([1, *(len(row) for row in rows)])
    out = torch.full((len(rows), longest), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@wrong(
    "max(rows) is the row with the largest numbers, not the longest: [[9], [1, 2]] raises",
    "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.",
    "largest row taken for the longest",
)
def pad(rows):
    longest = len(max(rows))
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "the ids pass through float32: an id above 2 ** 24, such as 16777217, comes out as another one",
    "Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers",
    "large ids are rounded by float32",
)
def pad(rows):
    out = torch.zeros(len(rows), max(len(row) for row in rows))
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row)
    return out.long()


@wrong(
    "keeps one buffer per shape and hands it out again: a second call of the same shape changes the first result",
    "inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "results of two calls share one buffer",
)
def pad(rows, buffers={}):
    shape = len(rows), max(len(row) for row in rows)
    if shape not in buffers:
        buffers[shape] = torch.empty(shape, dtype=torch.long)
    out = buffers[shape].fill_(PAD)
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@wrong(
    "pad_sequence takes the dtype of the first row, and an empty row without a dtype is float: [[], [5]] gives float32",
    "Rows may be empty, and so may all of them: then the tensor is (B, 0).",
    "an empty first row makes the ids floating-point",
)
def pad(rows):
    tensors = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)
