"""Answers to `pad_left`."""
import itertools

import torch

from attention_course.tasks.core import PAD
from blind import right, wrong


def pad(rows):
    """The pad of section 3."""
    size = max(len(row) for row in rows)
    full = [[*row, *[PAD] * (size - len(row))] for row in rows]
    return torch.tensor(full, dtype=torch.long).reshape(len(rows), size)


@right('pads the reversed rows at their end and flips the columns')
def pad_left_right1(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    first = ids.size(1) - lengths
    return ids, (torch.arange(ids.size(1)) - first).clamp(min=0)


@right('pads at the end and rotates every row with gather')
def pad_left_right2(rows):
    right_padded, size = pad(rows), max(map(len, rows))
    offset = torch.tensor([[size - len(row)] for row in rows])
    columns = torch.arange(size)[None] - offset
    ids = right_padded.gather(1, columns % max(size, 1))
    return ids, torch.where(columns > 0, columns, 0)


@right('fills both tensors from the last column backwards')
def pad_left_right3(rows):
    size = max(len(row) for row in rows)
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        for back in range(1, len(row) + 1):
            ids[b, size - back] = row[len(row) - back]
            positions[b, size - back] = len(row) - back
    return ids, positions


@right('computes the positions as a running count of a mask of real tokens')
def pad_left_right4(rows):
    columns = list(itertools.zip_longest(*map(reversed, rows), fillvalue=None))[::-1]
    shape = (len(columns), len(rows))
    ids = torch.tensor(
        [[PAD if i is None else i for i in column] for column in columns],
        dtype=torch.long,
    ).reshape(shape)
    real = torch.tensor(
        [[i is not None for i in column] for column in columns], dtype=torch.bool
    ).reshape(shape)
    positions = (real.long().cumsum(0) - 1).clamp(min=0)
    return ids.T, positions.T


@wrong(
    'Pads at the end, as in section 3.',
    'Put `PAD` in front of each row until the row is as long as the longest one.',
    'padding at the end',
)
def pad_left_wrong1(rows):
    return pad(rows), pad([[*range(len(row))] for row in rows])


@wrong(
    'Computes the positions from the ids, so a PAD among the tokens is not counted.',
    'A row may contain the id of `PAD` as one of its tokens.',
    'positions computed from the ids',
)
def pad_left_wrong2(rows):
    size = max(len(row) for row in rows)
    full = [[*[PAD] * (size - len(row)), *row] for row in rows]
    ids = torch.tensor(full, dtype=torch.long).reshape(len(rows), size)
    return ids, ((ids != PAD).long().cumsum(1) - 1).clamp(min=0)


@wrong(
    'Gives each token its column in the padded batch as position.',
    'The position of a token is the number of tokens before it in its own row: 0 for the first token, 1 for the second.',
    'column used as position',
)
def pad_left_wrong3(rows):
    size = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = size - len(row)
        ids.append([*[PAD] * missing, *row])
        positions.append([*[0] * missing, *range(missing, size)])
    shape = (len(rows), size)
    return (
        torch.tensor(ids, dtype=torch.long).reshape(shape),
        torch.tensor(positions, dtype=torch.long).reshape(shape),
    )


@wrong(
    "Inserts the padding into the caller's own rows.",
    'Do not change the inputs.',
    'padding inserted into the inputs',
)
def pad_left_wrong4(rows):
    size = max(len(row) for row in rows)
    positions = pad([[0] * (size - len(row)) + [*range(len(row))] for row in rows])
    for row in rows:
        while len(row) < size:
            row.insert(0, PAD)
    return pad(rows), positions


@wrong(
    'Writes into the slice [-len(row):], which is the whole row if the row is empty, so a batch with an empty row fails.',
    'There is at least one row, and a row may be empty.',
    'empty row breaks negative slice',
)
def pad_left_wrong5(rows):
    size = max(len(row) for row in rows)
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    positions = torch.zeros(len(rows), size, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    'Counts rightly, but then sets the position of every PAD to 0, also of one that is a token.',
    'Such a token has a position like any other token, so the ids alone do not show where the padding is.',
    'PAD token gets position zero',
)
def pad_left_wrong6(rows):
    size = max(len(row) for row in rows)
    ids = pad([[PAD] * (size - len(row)) + list(row) for row in rows])
    first = torch.tensor([[size - len(row)] for row in rows])
    positions = torch.arange(size) - first
    return ids, positions.masked_fill(ids == PAD, 0)


@wrong(
    'Takes the first id other than PAD for the beginning, so PADs that begin a row count as padding.',
    'Such a token has a position like any other token, so the ids alone do not show where the padding is.',
    'leading PAD tokens count as padding',
)
def pad_left_wrong7(rows):
    size = max(len(row) for row in rows)
    ids = pad([[PAD] * (size - len(row)) + list(row) for row in rows])
    begun = (ids != PAD).long().cummax(1).values if size else ids
    return ids, (begun.cumsum(1) - 1).clamp(min=0)


@wrong(
    'Leaves the dtype to torch.tensor, which makes float32 of rows that are all empty.',
    'The ids (B, T) and the positions (B, T), both of `torch.long`.',
    'float tensors if all rows empty',
)
def pad_left_wrong8(rows):
    size = max(len(row) for row in rows)
    missing = [size - len(row) for row in rows]
    ids = [[*[PAD] * n, *row] for n, row in zip(missing, rows)]
    positions = [[*[0] * n, *range(len(row))] for n, row in zip(missing, rows)]
    return torch.tensor(ids), torch.tensor(positions)


@wrong(
    'Counts in uint8, so positions start again at 0 after 255.',
    'Positions and counts must be exact in every dtype.',
    'positions overflow a small integer',
)
def pad_left_wrong9(rows):
    size = max(len(row) for row in rows)
    ids = pad([[PAD] * (size - len(row)) + list(row) for row in rows])
    real = pad([[0] * (size - len(row)) + [1] * len(row) for row in rows])
    count = real.to(torch.uint8).cumsum(1, dtype=torch.uint8)
    return ids, torch.where(real.bool(), count - 1, 0).long()


@wrong(
    'Pads at the end and then sorts the PADs of each row to the front, also those that are tokens.',
    'Put `PAD` in front of each row until the row is as long as the longest one.',
    'PAD tokens sorted to the front',
)
def pad_left_wrong10(rows):
    ids = pad(rows)
    order = (ids != PAD).long().sort(dim=1, stable=True).indices
    first = torch.tensor([[ids.size(1) - len(row)] for row in rows])
    return ids.gather(1, order), (torch.arange(ids.size(1)) - first).clamp(min=0)
