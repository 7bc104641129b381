import itertools

import numpy as np
import torch

from attention_course.tasks.core import EOS, PAD

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "fills the rows up with EOS",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "padded with EOS",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[EOS] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "puts the padding in front",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "padded in front",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    )


@wrong(
    "appends one PAD too many to every row",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "one column too many",
)
def pad(rows):
    width = max(len(row) for row in rows) + 1
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "cuts all rows to the shortest one",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "cut instead of padded",
)
def pad(rows):
    shortest = min(len(row) for row in rows)
    return torch.tensor([list(row[:shortest]) for row in rows], dtype=torch.long)


@wrong(
    "fills a tensor made by torch.zeros, whose numbers are floats",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "float ids",
)
def pad(rows):
    out = torch.zeros(len(rows), max(len(row) for row in rows))
    for i, row in enumerate(rows):
        for j, token in enumerate(row):
            out[i, j] = token
    return out


@wrong(
    "leaves the dtype to torch.tensor, which makes floats of rows without ids",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "float dtype if all rows are empty",
    subtle=True,
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong(
    "appends to the caller's rows themselves",
    "Do not change the inputs.",
    "rows changed in place",
    subtle=True,
)
def pad(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        while len(row) < longest:
            row.append(PAD)
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "zip_longest and back: with only empty rows there are no columns, and B is lost",
    "If all rows are empty, return a tensor of shape (B, 0).",
    "shape (0,) if all rows are empty",
    subtle=True,
)
def pad(rows):
    columns = itertools.zip_longest(*rows, fillvalue=PAD)
    return torch.tensor(list(zip(*columns)), dtype=torch.long)


@wrong(
    "leaves empty rows out (unless all are empty)",
    "There is at least one row, and a row may be empty.",
    "empty rows dropped",
    subtle=True,
)
def pad(rows):
    rows = [row for row in rows if row] or rows
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


_longest_seen = [0]


@wrong(
    "keeps the longest row of all calls, so a later batch is padded to an earlier one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "width kept from earlier calls",
    subtle=True,
)
def pad(rows):
    _longest_seen[0] = max(_longest_seen[0], *(len(row) for row in rows))
    width = _longest_seen[0]
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )


# ---------------------------------------------------------------- right answers


@right("torch.full, then one slice for each row")
def pad(rows):
    out = torch.full((len(rows), max(map(len, rows))), PAD, dtype=torch.long)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@right("asks for every place whether the row reaches it, and reshapes a flat list")
def pad(rows):
    width = 0
    for row in rows:
        if len(row) > width:
            width = len(row)
    flat = []
    for row in rows:
        for t in range(width):
            flat.append(row[t] if t < len(row) else PAD)
    return torch.tensor(flat, dtype=torch.long).reshape(len(rows), width)


@right("a boolean mask takes all ids at once")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    out = torch.zeros(mask.shape, dtype=torch.int64) + PAD
    out[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.int64)
    return out


@right("NumPy inside")
def pad(rows):
    ids = np.full((len(rows), max(len(row) for row in rows)), PAD, dtype=np.int64)
    for line, row in zip(ids, rows):
        line[: len(row)] = row
    return torch.from_numpy(ids)
