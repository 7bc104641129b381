from itertools import zip_longest

import torch

from attention_course.tasks.core import PAD

from blind import right, wrong


@right("torch's pad_sequence on tensors of torch.long")
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(
        tensors, batch_first=True, padding_value=PAD
    )


@right("a tensor full of PAD, written row by row")
def pad(rows):
    lengths = [len(row) for row in rows]
    ids = torch.full((len(rows), max(lengths)), PAD, dtype=torch.int64)
    for b, row in enumerate(rows):
        for t, token in enumerate(row):
            ids[b, t] = token
    return ids


@right("zip_longest makes the columns; reshape keeps both axes; the result is a view")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    flat = torch.tensor(columns, dtype=torch.long)
    return flat.reshape(len(columns), len(rows)).transpose(0, 1)


@right("one flat list, cut into rows at the end")
def pad(rows):
    longest = len(max(rows, key=len))
    flat = [
        row[t] if t < len(row) else PAD for row in rows for t in range(longest)
    ]
    return torch.tensor(flat, dtype=torch.long).view(len(rows), longest)


@wrong(
    "puts the padding in front",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "padding on the wrong side",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (longest - len(row)) + [*row] for row in rows], dtype=torch.long
    )


@wrong(
    "makes a tensor of 32-bit integers",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "int32 instead of long",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.int
    )


@wrong(
    "pads each row by one PAD too many",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "one column too many",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest + 1 - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "leaves the dtype to torch.tensor, which makes float32 when all rows are empty",
    "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`).",
    "float32 if there is no id at all",
    subtle=True,
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong(
    "extends the caller's own rows",
    "Do not change the inputs.",
    "rows changed in place",
    subtle=True,
)
def pad(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "transposes what zip_longest gives; with empty rows only, this has the shape (0,)",
    "If all rows are empty, return a tensor of shape (B, 0).",
    "shape lost if all rows are empty",
    subtle=True,
)
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).t()


@wrong(
    "leaves out empty rows beside others, so the batch has fewer rows than it was given",
    "There is at least one row, and a row may be empty.",
    "empty rows dropped",
    subtle=True,
)
def pad(rows):
    longest = max(len(row) for row in rows)
    if longest == 0:
        return torch.zeros(len(rows), 0, dtype=torch.long)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows if row],
        dtype=torch.long,
    )


@wrong(
    "pads to the longest row of all calls so far",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers the longest row",
    subtle=True,
)
def pad(rows, longest=[0]):
    longest[0] = max(longest[0], *(len(row) for row in rows))
    return torch.tensor(
        [[*row, *[PAD] * (longest[0] - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "removes each id 0 from a row before padding it, so [5, 0, 6] becomes [5, 6, 0]",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "PAD inside a row moves to its end",
    subtle=True,
)
def pad(rows):
    longest = max(len(row) for row in rows)
    clean = [[i for i in row if i != PAD] for row in rows]
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in clean], dtype=torch.long
    )


@wrong(
    "max(rows) is the last row in alphabetical order, not the longest: [[9], [1, 2]]"
    " fails",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "max(rows) without key=len",
    subtle=True,
)
def pad(rows):
    longest = len(max(rows))
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )
