from collections import deque
from itertools import zip_longest

import torch
import torch.nn.functional as F
from torch import nn
from attention_course.tasks.core import PAD
from blind import right, wrong

INPUTS = "Do not change the inputs."
EXACT = "Positions and counts must be exact in every dtype."
FRONT = "Put `PAD` in front of each row until the row is as long as the longest one."
POSITION = "The position of a token is the number of tokens before it in its own row: 0 for the first token, 1 for the second."
PADDING = "The position of padding is 0."
PAD_TOKEN = "A row may contain the id of `PAD` as one of its tokens."
IDS_ALONE = "Such a token has a position like any other token, so the ids alone do not show where the padding is."
EMPTY = "There is at least one row, and a row may be empty."
ALL_EMPTY = "If all rows are empty, both tensors have the shape (B, 0)."
BOTH = "Write `pad_left`, which returns the ids and the positions."
LONG = "The ids (B, T) and the positions (B, T), both of `torch.long`."


def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )


def _front(rows):
    width = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (width - len(row)) + [*row] for row in rows], dtype=torch.long
    )


@right('pads the reversed rows at the end and flips the result, for ids and positions alike')
def pad_left(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    width = ids.size(1)
    positions = [[*range(len(row))][::-1] + [0] * (width - len(row)) for row in rows]
    return ids, torch.tensor(positions, dtype=torch.long).flip(1)


@right('writes each row into the end of a full tensor; positions are columns minus the padding, clamped')
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    ids = torch.full((len(rows), width), PAD)
    for b, row in enumerate(rows):
        ids[b, width - len(row) :] = torch.tensor(row, dtype=torch.long)
    shift = width - lengths[:, None]
    return ids, (torch.arange(width) - shift).clamp(min=0)


@right('a queue of fixed length per row, from which the padding drops out at the front')
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        ids.append(list(deque([PAD] * width + list(row), maxlen=width)))
        positions.append(list(deque([0] * width + list(range(len(row))), maxlen=width)))
    return torch.tensor(ids, dtype=torch.long), torch.tensor(positions, dtype=torch.long)


@right('rolls each padded row to the right by gathering, and counts tokens with a mask and cumsum')
def pad_left(rows):
    right_padded = pad(rows)
    width = right_padded.size(1)
    missing = torch.tensor([[width - len(row)] for row in rows])
    columns = torch.arange(width).expand(len(rows), width)
    ids = right_padded.gather(1, (columns - missing) % max(width, 1))
    token = columns >= missing
    return ids, (token.long().cumsum(1) - 1) * token


@wrong(
    'counts the ids that are not PAD, so a token with the id of PAD has no position of its own',
    breaks=PAD_TOKEN,
    name='positions from the ids',
)
def pad_left(rows):
    ids = _front(rows)
    return ids, ((ids != PAD).long().cumsum(1) - 1).clamp(min=0)


@wrong(
    'looks for the first id that is not PAD; wrong only if a row begins with PAD as a token',
    breaks=IDS_ALONE,
    name='leading PAD token taken for padding',
)
def pad_left(rows):
    ids = _front(rows)
    if ids.numel() == 0:
        return ids, ids.clone()
    first = (ids != PAD).long().argmax(1, keepdim=True)
    return ids, (torch.arange(ids.size(1)) - first).clamp(min=0)


@wrong(
    'numbers the columns, whatever the padding',
    breaks=POSITION,
    name='column instead of position',
)
def pad_left(rows):
    ids = _front(rows)
    return ids, torch.arange(ids.size(1)).expand_as(ids).clone()


@wrong(
    'lets the positions of padding be negative',
    breaks=PADDING,
    name='negative positions',
)
def pad_left(rows):
    ids = _front(rows)
    width = ids.size(1)
    missing = torch.tensor([[width - len(row)] for row in rows])
    return ids, torch.arange(width) - missing


@wrong(
    'gives padding the position 1, as some libraries do',
    breaks=PADDING,
    name='padding at position 1',
)
def pad_left(rows):
    ids = _front(rows)
    width = ids.size(1)
    missing = torch.tensor([[width - len(row)] for row in rows])
    positions = torch.arange(width) - missing
    return ids, positions.masked_fill(positions < 0, 1)


@wrong(
    'writes into ids[b, -n:], which is the whole row if n is 0, so an empty row is an error',
    breaks=EMPTY,
    name='minus zero',
)
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), PAD)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        n = len(row)
        ids[b, -n:] = torch.tensor(row, dtype=torch.long)
        positions[b, -n:] = torch.arange(n)
    return ids, positions


@wrong(
    'row.index finds the first place of an id, so a repeated token has the position of its first copy',
    breaks=POSITION,
    name='first place of a repeated token',
)
def pad_left(rows):
    ids = _front(rows)
    width = ids.size(1)
    positions = [
        [0] * (width - len(row)) + [row.index(i) for i in row] for row in rows
    ]
    return ids, torch.tensor(positions, dtype=torch.long)


@wrong(
    "inserts the padding into the caller's rows",
    breaks=INPUTS,
    name='rows changed in place',
)
def pad_left(rows):
    width = max(len(row) for row in rows)
    positions = []
    for row in rows:
        positions.append([0] * (width - len(row)) + [*range(len(row))])
        while len(row) < width:
            row.insert(0, PAD)
    return torch.tensor(rows, dtype=torch.long), torch.tensor(positions, dtype=torch.long)


@wrong(
    'computes the positions in float16, which is not exact beyond 2048 tokens',
    breaks=EXACT,
    name='positions in half precision',
)
def pad_left(rows):
    ids = _front(rows)
    width = ids.size(1)
    missing = torch.tensor([[width - len(row)] for row in rows])
    positions = torch.arange(width).half() - missing.half()
    return ids, positions.clamp(min=0).long()


@wrong(
    'gives no dtype, so both tensors are float32 if all rows are empty',
    breaks=LONG,
    name='float for empty rows',
)
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids = [[PAD] * (width - len(row)) + [*row] for row in rows]
    positions = [[0] * (width - len(row)) + [*range(len(row))] for row in rows]
    return torch.tensor(ids), torch.tensor(positions)
