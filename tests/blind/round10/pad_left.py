import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import PAD

from blind import right, wrong


@right("fills both tensors from the right, with an explicit start column")
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), PAD, dtype=torch.long)
    positions = torch.zeros(len(rows), width, dtype=torch.long)
    for b, row in enumerate(rows):
        start = width - len(row)
        for t, token in enumerate(row):
            ids[b, start + t] = token
            positions[b, start + t] = t
    return ids, positions


@right("positions without a loop: column minus number of paddings, not below zero")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    missing = (width - lengths)[:, None]
    columns = torch.arange(width)
    ids = torch.zeros(len(rows), width, dtype=torch.long).fill_(PAD)
    ids[columns >= missing] = torch.tensor(
        [token for row in rows for token in row], dtype=torch.long
    )
    return ids, (columns - missing).clamp(min=0)


@right("turns the rows around, pads behind with pad_sequence, and flips the result")
def pad_left(rows):
    def flipped(lists):
        tensors = [torch.tensor(entries[::-1], dtype=torch.long) for entries in lists]
        return nn.utils.rnn.pad_sequence(
            tensors, batch_first=True, padding_value=0
        ).flip(1)

    return flipped(rows), flipped([list(range(len(row))) for row in rows])


@right("F.pad with a pair (token, position) for each entry, split at the end")
def pad_left(rows):
    width = max(map(len, rows))
    pairs = torch.stack(
        [
            F.pad(
                torch.tensor([row, [*range(len(row))]], dtype=torch.long),
                (width - len(row), 0),
                value=PAD,
            )
            for row in rows
        ]
    )
    return tuple(half.contiguous() for half in pairs.unbind(1))


@wrong(
    "appends the padding: [8, 9] becomes [8, 9, 0]",
    "- Put `PAD` in front of each row until the row is as long as the longest one.",
    "padding behind instead of in front",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    positions = [[*range(len(row)), *[0] * (longest - len(row))] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "numbers the columns, so the first token of a shorter row does not have position 0",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "positions are column numbers",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = longest - len(row)
        ids.append([PAD] * missing + list(row))
        positions.append([0] * missing + list(range(missing, longest)))
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "gives the padding position 1, a habit from a well-known library",
    "The position of padding is 0.",
    "padding has position 1",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    here = torch.tensor(
        [[0] * (longest - len(row)) + [1] * len(row) for row in rows], dtype=torch.long
    )
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    )
    positions = here.cumsum(-1) - 1
    return ids, positions.masked_fill(here == 0, 1)


@wrong(
    "finds the padding by its id: in [5, 0, 6] the token 0 gets no position of its own, and"
    " the 6 gets position 1",
    "- A row may contain the id of `PAD` as one of its tokens. Such a token has a position"
    " like any other token, so the ids alone do not show where the padding is.",
    "a token with PAD's id counts as padding",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    )
    real = (ids != PAD).long()
    return ids, (real.cumsum(-1) - 1).clamp(min=0) * real


@wrong(
    "ids[i, -len(row):] is the whole line for an empty row, so [[5], []] raises or (with"
    " broadcasting) overwrites it",
    "A row may be empty.",
    "slice from -0 selects the whole row",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[i, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "inserts the padding into the caller's lists",
    "- Do not change the inputs.",
    "inserts into the caller's rows",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    positions = [[0] * (longest - len(row)) + list(range(len(row))) for row in rows]
    for row in rows:
        while len(row) < longest:
            row.insert(0, PAD)
    return (
        torch.tensor(rows, dtype=torch.long).view(len(rows), longest),
        torch.tensor(positions, dtype=torch.long).view(len(rows), longest),
    )


POSITIONS = torch.arange(512)


@wrong(
    "takes the positions from a table with 512 entries, and repeats the last one: wrong for"
    " rows of more than 512 tokens",
    "- Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "positions stop at a fixed maximum",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = longest - len(row)
        own = POSITIONS[torch.arange(len(row)).clamp(max=len(POSITIONS) - 1)]
        ids.append(F.pad(torch.tensor(row, dtype=torch.long), (missing, 0), value=PAD))
        positions.append(F.pad(own, (missing, 0)))
    return torch.stack(ids), torch.stack(positions)


@wrong(
    "row.index(token) is the first place of a token: in [5, 6, 5] the second 5 gets"
    " position 0",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "a repeated token gets its first position",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        front = [0] * (longest - len(row))
        ids.append(front + list(row))
        positions.append(front + [row.index(token) for token in row])
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "takes the first id that is not PAD for the beginning of the row: a PAD inside a row is"
    " right, but the row [0, 5, 6] is numbered 0 0 1",
    "- A row may contain the id of `PAD` as one of its tokens. Such a token has a position"
    " like any other token, so the ids alone do not show where the padding is.",
    "a PAD at the row's beginning counts as padding",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    ).view(len(rows), longest)
    begun = (ids != PAD).long().cumsum(-1) > 0
    return ids, (begun.long().cumsum(-1) - 1).clamp(min=0)


@wrong(
    "sets the positions through the distance from the end, folded with abs: right for at"
    " most one padding less the first, but two paddings get positions above 0",
    "The position of padding is 0.",
    "padding gets its distance to the first token",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    ).view(len(rows), longest)
    # the last column has position length - 1, the column before it length - 2, ...
    back = torch.arange(longest - 1, -1, -1)
    positions = lengths[:, None] - 1 - back
    positions = torch.where(positions == -1, 0, positions)  # the padding
    return ids, positions.abs()
