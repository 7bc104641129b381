from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from attention_course.tasks.core import PAD
from blind import right, wrong


def _pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@right("reverses the rows, pads them at the end, and flips the columns")
def pad_left(rows):
    ids = _pad([row[::-1] for row in rows]).flip(1)
    steps = torch.full_like(ids, 0)
    for b, row in enumerate(rows):
        steps[b, : len(row)] = torch.arange(len(row)).flip(0)
    return ids, steps.flip(1)


class _Padded(NamedTuple):
    ids: torch.Tensor
    positions: torch.Tensor


@right("positions as the column minus the offset of the row, clamped; a named tuple")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    size = int(lengths.max())
    ids = torch.stack(
        [
            F.pad(torch.tensor(row, dtype=torch.long), (size - len(row), 0), value=PAD)
            for row in rows
        ]
    )
    positions = (torch.arange(size) - (size - lengths)[:, None]).clamp(min=0)
    return _Padded(ids, positions)


@right("numpy: a mask of the tokens and its cumulative sum")
def pad_left(rows):
    lengths = np.array([len(row) for row in rows])
    size = lengths.max()
    mask = np.arange(size) >= (size - lengths)[:, None]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = np.array([i for row in rows for i in row], dtype=np.int64)
    positions = np.maximum(mask.cumsum(1, dtype=np.int64) - 1, 0)
    return torch.from_numpy(ids), torch.from_numpy(positions)


@right("rolls rows that were padded at the end")
def pad_left(rows):
    ids = _pad(rows)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        spare = ids.size(1) - len(row)
        ids[b] = ids[b].roll(spare)
        positions[b, spare:] = torch.arange(len(row))
    return ids, positions


@wrong(
    "appends the padding",
    "Put `PAD` in front of each row until the row is as long as the longest one.",
    "padding at the end",
)
def pad_left(rows):
    return _pad(rows), torch.tensor(
        [
            [*range(len(row))] + [0] * (max(map(len, rows)) - len(row))
            for row in rows
        ],
        dtype=torch.long,
    )


@wrong(
    "the position of a token is its column",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "columns instead of positions",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = torch.tensor([[PAD] * (size - len(row)) + [*row] for row in rows]).long()
    positions = torch.tensor(
        [[0] * (size - len(row)) + [*range(size - len(row), size)] for row in rows]
    ).long()
    return ids, positions


@wrong(
    "positions begin with 1",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "positions are one too large",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        ids[b, size - len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, size - len(row) :] = torch.arange(1, len(row) + 1)
    return ids, positions


@wrong(
    "counts the ids that are not PAD, so a token with the id of PAD is not counted",
    "A row may contain the id of `PAD` as one of its tokens.",
    "tokens are recognised by their ids",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (size - len(row)) + [*row] for row in rows], dtype=torch.long
    )
    positions = (ids != PAD).cumsum(1) - 1
    return ids, positions.clamp(min=0)


@wrong(
    "[-0:] is the whole row, so an empty row raises an error",
    "There is at least one row, and a row may be empty.",
    "fails for an empty row",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    positions = torch.zeros(len(rows), size, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "no dtype given: if all rows are empty, both tensors hold floats",
    "The ids (B, T) and the positions (B, T), both of `torch.long`.",
    "floats if all rows are empty",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = [[PAD] * (size - len(row)) + [*row] for row in rows]
    positions = [[0] * (size - len(row)) + [*range(len(row))] for row in rows]
    return torch.tensor(ids), torch.tensor(positions)


@wrong(
    "inserts the padding into the caller's rows",
    "Do not change the inputs.",
    "the rows are changed in place",
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
    "a row begins at its first id that is not PAD, so tokens with the id of PAD at the"
    " beginning of a row shift the positions",
    "Such a token has a position like any other token, so the ids alone do not show"
    " where the padding is.",
    "the beginning of a row is looked for in the ids",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = [[PAD] * (size - len(row)) + [*row] for row in rows]
    positions = []
    for row in ids:
        start = next((s for s, i in enumerate(row) if i != PAD), size)
        positions.append([max(s - start, 0) if start < size else 0 for s in range(size)])
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "all positions are right, but then those of the id PAD are set to 0, also inside a"
    " row",
    "Such a token has a position like any other token, so the ids alone do not show"
    " where the padding is.",
    "a PAD among the tokens loses its position",
)
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    size = int(lengths.max())
    ids = torch.tensor(
        [[PAD] * (size - len(row)) + [*row] for row in rows], dtype=torch.long
    )
    positions = torch.arange(size) - (size - lengths)[:, None]
    return ids, positions * (ids != PAD)


_POSITIONS = torch.arange(512)


@wrong(
    "takes the positions from a table with 512 entries",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "fails for long rows",
)
def pad_left(rows):
    size = max(len(row) for row in rows)
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        start = size - len(row)
        ids[b, start:] = torch.tensor(row, dtype=torch.long)
        positions[b, start:] = _POSITIONS[: len(row)]
    return ids, positions
