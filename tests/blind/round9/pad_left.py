import torch
from torch.nn import functional as F

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@right("pads the mirrored rows behind and mirrors the batch")
def pad_left(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    positions = pad([[*range(len(row))][::-1] for row in rows]).flip(1)
    return ids, positions


@right("shifts the columns' numbers by the missing ids and clamps them at zero")
def pad_left(rows):
    lengths = torch.tensor([[len(row)] for row in rows])
    width = int(lengths.max())
    column = torch.arange(width)
    positions = (column + lengths - width).clamp(min=0)
    ids = torch.full((len(rows), width), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, width - len(row) :] = torch.tensor(row, dtype=torch.long)
    return ids, positions


@right("F.pad with a left margin for each row, then stack")
def pad_left(rows, value=PAD):
    width = len(max(rows, key=len))
    ids, positions = [], []
    for row in rows:
        margin = (width - len(row), 0)
        ids.append(F.pad(torch.tensor(row, dtype=torch.long), margin, value=value))
        positions.append(F.pad(torch.arange(len(row)), margin))
    return torch.stack(ids), torch.stack(positions)


@right("counts from the right end, one cell after the other, in plain Python")
def pad_left(rows):
    width = max(map(len, rows))
    ids = torch.empty(len(rows), width, dtype=torch.long)
    positions = torch.empty_like(ids)
    for b, row in enumerate(rows):
        for back in range(1, width + 1):
            inside = back <= len(row)
            ids[b, width - back] = row[len(row) - back] if inside else PAD
            positions[b, width - back] = len(row) - back if inside else 0
    return ids, positions


@wrong(
    "the position of a token is the number of its column: [8, 9] gets 1 and 2 in a batch of"
    " width 3",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "columns instead of positions in the own row",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + [*row] for row in rows]
    positions = [
        [0] * (longest - len(row)) + [*range(longest - len(row), longest)] for row in rows
    ]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "counts from 1, so that 0 stands for padding only",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "positions start at 1",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + [*row] for row in rows]
    positions = [[0] * (longest - len(row)) + [*range(1, len(row) + 1)] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "padding gets negative positions: [8, 9] gets [-1, 0, 1] in a batch of width 3",
    "The position of padding is 0.",
    "negative positions on padding",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + [*row] for row in rows]
    positions = [[*range(len(row) - longest, len(row))] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "counts the ids that are not PAD: a token with the id of PAD and all tokens after it get"
    " too small a position",
    "Such a token has a position like any other token, so the ids alone do not show where the"
    " padding is.",
    "finds the padding by comparing ids with PAD",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + [*row] for row in rows], dtype=torch.long
    )
    positions = ((ids != PAD).cumsum(1) - 1).clamp(min=0)
    return ids, positions


@wrong(
    "an empty row beside a longer one: the slice [-0:] is the whole row, so it raises",
    "A row may be empty.",
    "the slice [-0:] takes the whole row",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        ids[b, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "no dtype: if all rows are empty, both tensors are float32",
    "The ids (B, T) and the positions (B, T), both of `torch.long`.",
    "empty lists become float tensors",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + [*row] for row in rows]
    positions = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    return torch.tensor(ids), torch.tensor(positions)


@wrong(
    "inserts PAD into the caller's rows: afterwards all his rows have the same length",
    "Do not change the inputs.",
    "inserts padding into the caller's lists",
)
def pad_left(rows):
    positions = [[*range(len(row))] for row in rows]
    longest = max(len(row) for row in rows)
    for lists in (rows, positions):
        for row in lists:
            while len(row) < longest:
                row.insert(0, PAD)
    return (
        torch.tensor(rows, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "takes everything up to the first id other than PAD for padding: right for a PAD in the"
    " middle of a row, wrong for a row that begins with one",
    "Such a token has a position like any other token, so the ids alone do not show where the"
    " padding is.",
    "a leading PAD token is taken for padding",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + [*row] for row in rows], dtype=torch.long
    )
    begun = (ids != PAD).cumsum(1) > 0
    positions = (begun.cumsum(1) - 1).clamp(min=0)
    return ids, positions


@wrong(
    "row.index finds the first token with this id: if an id is repeated in a row, the later"
    " one gets the position of the earlier one",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "row.index gives repeated tokens the same position",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    missing = [longest - len(row) for row in rows]
    ids = [[PAD] * n + [*row] for n, row in zip(missing, rows)]
    positions = [[0] * n + [row.index(i) for i in row] for n, row in zip(missing, rows)]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "remembers the widest batch so far: after a long batch, a shorter one is padded too far",
    "The result of a call must not depend on earlier calls or on other objects of the same"
    " class.",
    "the width is remembered from earlier calls",
)
def pad_left(rows, width=[0]):
    for row in rows:
        width[0] = max(width[0], len(row))
    missing = [width[0] - len(row) for row in rows]
    ids = [[PAD] * n + [*row] for n, row in zip(missing, rows)]
    positions = [[0] * n + [*range(len(row))] for n, row in zip(missing, rows)]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )
