from itertools import accumulate, count

import torch

from attention_course.tasks.core import PAD
from blind import right, wrong

FRONT = "Put `PAD` in front of each row until the row is as long as the longest one."
POSITION = (
    "The position of a token is the number of tokens before it in its own row: 0 for"
    " the first token, 1 for the second."
)
OF_PADDING = "The position of padding is 0."
PAD_AS_TOKEN = (
    "Such a token has a position like any other token, so the ids alone do not show"
    " where the padding is."
)
EMPTY = "There is at least one row, and a row may be empty."
LONG = "The ids (B, T) and the positions (B, T), both of `torch.long`."
INPUTS = "Do not change the inputs."
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)


def fill_front(rows):
    """The ids, and T, for the answers whose ids are right."""
    size = max(len(row) for row in rows)
    ids = [[PAD] * (size - len(row)) + list(row) for row in rows]
    return torch.tensor(ids, dtype=torch.long), size


@right("pads the mirrored rows at their end and mirrors the tensor")
def pad_left(rows):
    size = max(map(len, rows))
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        for column, i in enumerate(reversed(row)):
            ids[b, column] = i
            positions[b, column] = len(row) - 1 - column
    return ids.flip(1), positions.flip(1)


@right("pads at the end, and then rolls each row by the missing length with gather")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    size = int(lengths.max())
    behind = torch.tensor(
        [[*row, *[PAD] * (size - len(row))] for row in rows], dtype=torch.long
    )
    if size == 0:
        return behind, behind.clone()
    column = torch.arange(size) - (size - lengths)
    return behind.gather(1, column % size), column.relu()


@right("counts a mask of the lengths with cumsum")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    size = int(lengths.max())
    mask = torch.arange(size - 1, -1, -1) < lengths[:, None]
    ids = torch.full(mask.shape, PAD, dtype=torch.long)
    ids[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return ids, (mask.cumsum(1) - 1).masked_fill(~mask, 0)


@right("accumulates the positions and fills both lists with insert, on copies")
def pad_left(rows):
    size = len(max(rows, key=len))
    pairs = [list(zip(row, count())) for row in rows]
    for pair in pairs:
        while len(pair) < size:
            pair.insert(0, (PAD, 0))
    both = torch.tensor(pairs, dtype=torch.long).reshape(len(rows), size, 2)
    return both[..., 0], both[..., 1]


@wrong(
    "gives the number of the column as the position",
    breaks=POSITION,
    name="columns instead of positions",
)
def pad_left(rows):
    ids, size = fill_front(rows)
    return ids, torch.arange(size).repeat(len(rows), 1)


@wrong(
    "counts the positions from one",
    breaks=POSITION,
    name="positions begin at one",
)
def pad_left(rows):
    ids, size = fill_front(rows)
    positions = [[0] * (size - len(row)) + [*range(1, len(row) + 1)] for row in rows]
    return ids, torch.tensor(positions, dtype=torch.long)


@wrong(
    "finds the tokens by ids != PAD",
    breaks=PAD_AS_TOKEN,
    name="a token with the id of PAD is not counted",
)
def pad_left(rows):
    ids, _ = fill_front(rows)
    mask = ids != PAD
    return ids, (mask.cumsum(1) - 1) * mask


@wrong(
    "subtracts the padding from the columns, so padding gets negative positions",
    breaks=OF_PADDING,
    name="negative positions on padding",
)
def pad_left(rows):
    ids, size = fill_front(rows)
    missing = torch.tensor([size - len(row) for row in rows])
    return ids, torch.arange(size) - missing[:, None]


@wrong(
    "marks the tokens with mask[b, -len(row):], which is the whole row if it is empty",
    breaks=EMPTY,
    name="an empty row is taken for a full one",
)
def pad_left(rows):
    ids, _ = fill_front(rows)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for b, row in enumerate(rows):
        mask[b, -len(row) :] = True
    return ids, (mask.cumsum(1) - 1).clamp(min=0)


@wrong(
    "looks the position up with row.index, which finds the first equal token",
    breaks=POSITION,
    name="a repeated token gets the position of the first one",
)
def pad_left(rows):
    ids, size = fill_front(rows)
    positions = [
        [0] * (size - len(row)) + [row.index(token) for token in row] for row in rows
    ]
    return ids, torch.tensor(positions, dtype=torch.long)


@wrong(
    "calls torch.tensor without a dtype, which makes floats if all rows are empty",
    breaks=LONG,
    name="floats if there are no tokens",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = [[PAD] * (size - len(row)) + list(row) for row in rows]
    positions = [[0] * (size - len(row)) + [*range(len(row))] for row in rows]
    return torch.tensor(ids), torch.tensor(positions)


@wrong(
    "counts in uint8, which begins again at 0 after 256 tokens",
    breaks=SIZES,
    name="positions overflow in long rows",
)
def pad_left(rows):
    ids, size = fill_front(rows)
    positions = torch.zeros(len(rows), size, dtype=torch.uint8)
    for b, row in enumerate(rows):
        for t in range(1, len(row)):
            column = size - len(row) + t
            positions[b, column] = positions[b, column - 1] + 1
    return ids, positions.long()


@wrong(
    "inserts PAD into the caller's own lists",
    breaks=INPUTS,
    name="the rows of the caller grow",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    positions = [[0] * (size - len(row)) + [*range(len(row))] for row in rows]
    for row in rows:
        row[:0] = [PAD] * (size - len(row))
    return (
        torch.tensor(rows, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "lets a row begin at its first id that is not PAD, whatever its length",
    breaks=PAD_AS_TOKEN,
    name="a first token with the id of PAD is taken for padding",
)
def pad_left(rows):
    ids, size = fill_front(rows)
    positions = []
    for row in ids.tolist():
        begun = list(accumulate((i != PAD for i in row), lambda a, b: a or b))
        first = begun.index(True) if True in begun else size
        positions.append([max(column - first, 0) for column in range(size)])
    return ids, torch.tensor(positions, dtype=torch.long)
