from itertools import zip_longest

import torch
import torch.nn.functional as F
from torch import nn
from attention_course.tasks.core import EOS, PAD
from blind import right, wrong

INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
APPEND = "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the longest one."
EMPTY = "There is at least one row, and a row may be empty."
ALL_EMPTY = "If all rows are empty, return a tensor of shape (B, 0)."
LONG = "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."

_widths = [0]


@right('fills a tensor of PAD row by row')
def pad(rows):
    width = max(map(len, rows))
    out = torch.full((len(rows), width), PAD, dtype=torch.long)
    for line, row in zip(out, rows):
        line[: len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@right('makes the columns with zip_longest and transposes')
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T


@right('stacks rows that F.pad has filled up')
def pad(rows):
    width = len(max(rows, key=len))
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return torch.stack([F.pad(t, (0, width - len(t)), value=PAD) for t in tensors])


@right('scatters all ids at once with a mask of the tokens')
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    flat = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    out = torch.full(mask.shape, PAD, dtype=torch.long)
    out[mask] = flat
    return out


@wrong(
    'puts the padding in front',
    breaks=APPEND,
    name='padding in front',
)
def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (width - len(row)) + list(row) for row in rows], dtype=torch.long
    )


@wrong(
    "extends the caller's rows",
    breaks=INPUTS,
    name='rows extended in place',
)
def pad(rows):
    width = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (width - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    'gives no dtype, so rows that are all empty give float32',
    breaks=LONG,
    name='float for empty rows',
)
def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


@wrong(
    'makes at least one column, also if all rows are empty',
    breaks=ALL_EMPTY,
    name='a column for empty rows',
)
def pad(rows):
    width = max(1, *(len(row) for row in rows))
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    'goes through float32, which cannot hold large odd ids such as 16777217',
    breaks=LONG,
    name='ids through float32',
)
def pad(rows):
    out = torch.zeros(len(rows), max(len(row) for row in rows))
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row)
    return out.long()


@wrong(
    'max(rows) compares the ids, so it finds the largest row and not the longest: [[9], [1, 2]]',
    breaks=APPEND,
    name='largest row instead of longest',
)
def pad(rows):
    width = len(max(rows))
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    'remembers the widest batch so far, so a small batch after a large one is too wide',
    breaks=CALLS,
    name='width of an earlier batch',
)
def pad(rows):
    _widths[0] = max(_widths[0], *(len(row) for row in rows))
    return torch.tensor(
        [[*row, *[PAD] * (_widths[0] - len(row))] for row in rows], dtype=torch.long
    ).reshape(len(rows), -1)


@wrong(
    'leaves out empty rows if there are others, so the batch gets smaller',
    breaks=EMPTY,
    name='empty rows left out',
)
def pad(rows):
    width = max(len(row) for row in rows)
    kept = [row for row in rows if row] or rows
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in kept], dtype=torch.long
    )


@wrong(
    'fills a short row with its last id',
    breaks=APPEND,
    name='last id repeated',
)
def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *(row[-1:] or [PAD]) * (width - len(row))] for row in rows],
        dtype=torch.long,
    )


@wrong(
    'sorts the rows by length, longest first, as older code for packing did',
    breaks=APPEND,
    name='rows in a different order',
)
def pad(rows):
    rows = sorted(rows, key=len, reverse=True)
    width = len(rows[0])
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )
