from itertools import zip_longest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import EOS, PAD
from blind import right, wrong


@right("zip_longest makes the columns, then transpose")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T


@right("pad_sequence of torch")
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


@right("one F.pad for each row, then stack")
def pad(rows):
    longest = len(max(rows, key=len))
    return torch.stack(
        [
            F.pad(torch.tensor(row, dtype=torch.long), (0, longest - len(row)), value=PAD)
            for row in rows
        ]
    )


@right("numpy: all ids at once through a boolean mask")
def pad(rows):
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    ids[np.arange(lengths.max()) < lengths[:, None]] = [i for row in rows for i in row]
    return torch.from_numpy(ids)


@wrong(
    "puts the padding in front",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "padding on the wrong side",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    )


@wrong(
    "fills a tensor of zeros, which are floats",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "floats instead of whole numbers",
)
def pad(rows):
    result = torch.zeros(len(rows), max(map(len, rows)))
    for b, row in enumerate(rows):
        result[b, : len(row)] = torch.tensor(row)
    return result


@wrong(
    "fills the rows up with EOS",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "EOS as padding",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[EOS] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "no dtype given: if all rows are empty, the tensor holds floats",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "floats if all rows are empty",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row] + [PAD] * (longest - len(row)) for row in rows])


@wrong(
    "if all rows are empty, the tensor has the shape (0,)",
    "If all rows are empty, return a tensor of shape (B, 0).",
    "wrong shape if all rows are empty",
)
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).t()


@wrong(
    "an empty row among others is dropped",
    "There is at least one row, and a row may be empty.",
    "empty rows are lost",
)
def pad(rows):
    full = [row for row in rows if len(row)]
    if not full:
        return torch.zeros(len(rows), 0, dtype=torch.long)
    longest = max(len(row) for row in full)
    return torch.tensor(
        [[*row] + [PAD] * (longest - len(row)) for row in full], dtype=torch.long
    )


@wrong(
    "the whole numbers have 32 bits",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "int32 instead of long",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), PAD, dtype=np.int32)
    for b, row in enumerate(rows):
        ids[b, : len(row)] = row
    return torch.from_numpy(ids)


@wrong(
    "copies only the outer list, and makes the caller's rows longer",
    "Do not change the inputs.",
    "the rows are changed in place",
)
def pad(rows):
    result = list(rows)
    longest = max(len(row) for row in result)
    for b in range(len(result)):
        result[b] += [PAD] * (longest - len(result[b]))
    return torch.tensor(result, dtype=torch.long)


@wrong(
    "cuts off the last columns that hold only PAD, also if the longest row itself ends"
    " with the id of PAD",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "a PAD among the tokens is taken for padding",
)
def pad(rows):
    result = torch.full((len(rows), sum(map(len, rows))), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        result[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    used = (result != PAD).any(0).nonzero()
    return result[:, : int(used.max()) + 1 if len(used) else 0]


@wrong(
    "ids pass through float32, which rounds ids above 2 ** 24",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "large ids are rounded",
)
def pad(rows):
    result = torch.zeros(len(rows), max(map(len, rows))) + PAD
    for b, row in enumerate(rows):
        result[b, : len(row)] = torch.tensor(row)
    return result.long()
