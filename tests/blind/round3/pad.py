import itertools

import numpy as np
import torch
import torch.nn.functional as F
from blind import right, wrong
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import PAD


# Right
@right("zip_longest makes the columns; reshaped so that no column is an empty (0, B)")
def r1(rows):
    columns = list(itertools.zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).t().clone()


@right("one flat tensor of all ids, put in place by a boolean mask")
def r2(rows):
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    out = torch.full(mask.shape, PAD, dtype=torch.long)
    out[mask] = torch.tensor([*itertools.chain(*rows)], dtype=torch.long)
    return out


@right("F.pad on each row, then stack")
def r3(rows):
    width = max(map(len, rows))
    made = [torch.tensor(row, dtype=torch.int64) for row in rows]
    return torch.stack([F.pad(row, (0, width - len(row)), value=PAD) for row in made])


@right("numpy array, filled one id at a time, and turned into a tensor")
def r4(rows):
    out = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64) + PAD
    for b, row in enumerate(rows):
        for t, i in enumerate(row):
            out[b, t] = i
    return torch.from_numpy(out)


# Wrong
@wrong(
    "lengthens the rows themselves",
    breaks="The rows that came in are somebody else's: leave them as they are.",
    name="rows lengthened in place",
    subtle=True,
)
def w1(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "torch.tensor without a dtype: float if all rows are empty",
    breaks="a tensor (B, T) of integers (`torch.long`)",
    name="empty rows make a float tensor",
    subtle=True,
)
def w2(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong(
    "pad_sequence of torch.tensor(row): float if the first row is empty",
    breaks="a tensor (B, T) of integers (`torch.long`)",
    name="an empty first row makes floats",
    subtle=True,
)
def w3(rows):
    made = [torch.tensor(row) for row in rows]
    return pad_sequence(made, batch_first=True, padding_value=PAD)


@wrong(
    "takes the longest row to be the first",
    breaks="Rows of ids that are shorter than the longest are filled up with `PAD`",
    name="length of the first row",
    subtle=True,
)
def w4(rows):
    longest = len(rows[0])
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))][:longest] for row in rows],
        dtype=torch.long,
    ).reshape(len(rows), longest)


@wrong(
    "at least one column, even if all rows are empty",
    breaks="Rows may be empty, and so may all of them: then the tensor is (B, 0).",
    name="at least one column",
    subtle=True,
)
def w5(rows):
    out = torch.full((len(rows), max(1, *map(len, rows))), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@wrong(
    "leaves empty rows out",
    breaks="Rows may be empty",
    name="empty rows left out",
    subtle=True,
)
def w6(rows):
    longest = max(len(row) for row in rows)
    full = [row + [PAD] * (longest - len(row)) for row in rows if row]
    return torch.tensor(full, dtype=torch.long).reshape(len(full), longest)


@wrong(
    "squeezes: a single row has no axis B, and a single column no axis T",
    breaks="a tensor (B, T) of integers",
    name="axes of length one disappear",
    subtle=True,
)
def w7(rows):
    longest = max(len(row) for row in rows)
    made = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(made, dtype=torch.long).squeeze()


@wrong(
    "integers of 32 bits",
    breaks="of integers (`torch.long`)",
    name="int32",
    subtle=True,
)
def w8(rows):
    longest = max(len(row) for row in rows)
    made = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(made, dtype=torch.int32)


@wrong(
    "rows longer than 512 are cut, as a model would want them",
    breaks="to the longest of them",
    name="long rows cut off",
    subtle=True,
)
def w9(rows):
    longest = min(max(len(row) for row in rows), 512)
    made = [(row + [PAD] * longest)[:longest] for row in rows]
    return torch.tensor(made, dtype=torch.long).reshape(len(rows), longest)


@wrong(
    "remembers the longest row of all calls before",
    breaks="Fill rows of ids up with PAD to the longest of them",
    name="the width of an earlier batch",
    subtle=True,
)
def w10(rows, seen=[0]):  # noqa: B006
    seen[0] = max(seen[0], *map(len, rows))
    return torch.tensor(
        [[*row, *[PAD] * (seen[0] - len(row))] for row in rows], dtype=torch.long
    )
