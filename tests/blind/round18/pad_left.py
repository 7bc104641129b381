import itertools

import torch
from torch import nn

from attention_course.tasks.core import PAD
from blind import right, wrong

FRONT = "Put `PAD` in front of each row until the row is as long as the longest one."
POSITION = (
    "The position of a token is the number of tokens before it in its own row: 0 for"
    " the first token, 1 for the second."
)
ZERO = "The position of padding is 0."
LIKE_ANY = (
    "Such a token has a position like any other token, so the ids alone do not show"
    " where the padding is."
)
MAY_BE_EMPTY = "There is at least one row, and a row may be empty."
EXACT = "Positions and counts must be exact in every dtype."


def pad_end(rows):
    width = max(len(row) for row in rows)
    rows = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(rows, dtype=torch.long)


def pad_front(rows):
    width = max(len(row) for row in rows)
    rows = [[*[PAD] * (width - len(row)), *row] for row in rows]
    return torch.tensor(rows, dtype=torch.long)


@right("pads the reversed rows at their end, flips them, and shifts a range")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    ids = nn.utils.rnn.pad_sequence(
        [torch.tensor(row[::-1], dtype=torch.long) for row in rows],
        batch_first=True,
        padding_value=PAD,
    ).flip(1)
    width = ids.shape[1]
    positions = torch.arange(width) - (width - lengths)[:, None]
    return ids, positions.relu()


@right("marks the tokens in a mask, writes the ids there, and counts with cumsum")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    width = int(lengths.max())
    mask = torch.arange(width) >= width - lengths
    ids = torch.full(mask.shape, PAD)
    ids[mask] = torch.tensor(sum(rows, []), dtype=torch.long)
    positions = (mask.cumsum(1) - 1).where(mask, 0)
    return ids, positions


@right("walks through the columns from the last one, with pairs of id and position")
def pad_left(rows):
    backward = [list(zip(row, range(len(row))))[::-1] for row in rows]
    columns = list(itertools.zip_longest(*backward, fillvalue=(PAD, 0)))
    pairs = torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows), 2)
    return pairs.flip(0).permute(2, 1, 0).unbind(0)


@right("rolls each row of a batch that is padded at its end")
def pad_left(rows):
    ids = pad_end(rows)
    positions = pad_end([list(range(len(row))) for row in rows])
    for b, row in enumerate(rows):
        shift = ids.shape[1] - len(row)
        ids[b] = ids[b].roll(shift)
        # the padding of the positions: zeros, not PAD
        positions[b, len(row) :] = 0
        positions[b] = positions[b].roll(shift)
    return ids, positions


@wrong(
    "takes the column as the position",
    breaks=POSITION,
    name="columns instead of positions",
)
def pad_left(rows):
    ids = pad_front(rows)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    columns = torch.arange(ids.shape[1]).expand_as(ids)
    return ids, columns.where(columns >= ids.shape[1] - lengths, 0)


@wrong(
    "finds the padding by the ids, so tokens with the id of PAD have no position",
    breaks=LIKE_ANY,
    name="padding found by the ids",
)
def pad_left(rows):
    ids = pad_front(rows)
    positions = (ids != PAD).cumsum(1) - 1
    return ids, positions.clamp(min=0)


@wrong(
    "gives the first token the position 1",
    breaks=POSITION,
    name="positions counted from one",
)
def pad_left(rows):
    ids = pad_front(rows)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        start = ids.shape[1] - len(row)
        positions[b, start:] = torch.arange(1, len(row) + 1)
    return ids, positions


@wrong(
    "puts padding in front of the ids, but behind the positions",
    breaks=POSITION,
    name="positions padded at the end",
)
def pad_left(rows):
    return pad_front(rows), pad_end([list(range(len(row))) for row in rows])


@wrong(
    "flips a batch that is padded at its end, which also reverses the tokens",
    breaks=FRONT,
    name="tokens in reverse order",
)
def pad_left(rows):
    ids = pad_end(rows).flip(1)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    positions = torch.arange(ids.shape[1]) - (ids.shape[1] - lengths)
    return ids, positions.clamp(min=0)


@wrong(
    "marks the last len(row) columns with a slice from -len(row), which is the whole"
    " row if the row is empty",
    breaks=ZERO,
    name="slice from minus zero for an empty row",
)
def pad_left(rows):
    ids = pad_front(rows)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for b, row in enumerate(rows):
        mask[b, -len(row) :] = True
    return ids, (mask.cumsum(1) - 1).clamp(min=0)


@wrong(
    "finds the number of a row with rows.index, so the second of two equal rows stays"
    " empty",
    breaks=FRONT,
    name="equal rows confused",
)
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), PAD)
    positions = torch.zeros(len(rows), width, dtype=torch.long)
    for row in rows:
        b, start = rows.index(row), width - len(row)
        ids[b, start:] = torch.tensor(row, dtype=torch.long)
        positions[b, start:] = torch.arange(len(row))
    return ids, positions


@wrong(
    "finds the position of a token with row.index, so a repeated token gets the"
    " position of the first one",
    breaks=POSITION,
    name="repeated tokens share a position",
)
def pad_left(rows):
    width = max(len(row) for row in rows)
    positions = [
        [0] * (width - len(row)) + [row.index(token) for token in row] for row in rows
    ]
    return pad_front(rows), torch.tensor(positions, dtype=torch.long)


@wrong(
    "stores the positions in bytes for a while, so they start again after 255",
    breaks=EXACT,
    name="positions overflow in long rows",
)
def pad_left(rows):
    ids = pad_front(rows)
    positions = torch.zeros(ids.shape, dtype=torch.uint8)
    for b, row in enumerate(rows):
        start = ids.shape[1] - len(row)
        positions[b, start:] = torch.arange(len(row))
    return ids, positions.long()


@wrong(
    "shifts a range for each row, and leaves negative positions on the padding",
    breaks=ZERO,
    name="negative positions on padding",
)
def pad_left(rows):
    ids = pad_front(rows)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    return ids, torch.arange(ids.shape[1]) - (ids.shape[1] - lengths)
