from itertools import chain, zip_longest

import torch
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


@right("fills a tensor of PAD row by row")
def pad(rows):
    batch = torch.full((len(rows), max(map(len, rows))), PAD, dtype=torch.long)
    for place, row in zip(batch, rows):
        place[: len(row)] = torch.tensor(row, dtype=torch.long)
    return batch


@right("transposes with zip_longest and reshapes, so that (B, 0) comes out too")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    flat = torch.tensor(columns, dtype=torch.long)
    return flat.reshape(len(columns), len(rows)).t().contiguous()


@right("pad_sequence of rows that are all made as torch.long")
def pad(rows, value=PAD):
    sequences = [torch.as_tensor(row, dtype=torch.int64) for row in rows]
    return pad_sequence(sequences, batch_first=True, padding_value=value)


@right("writes all ids at once through a boolean mask of the places that they take")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    taken = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    batch = torch.full(taken.shape, PAD, dtype=torch.long)
    batch[taken] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
    return batch


@wrong(
    "puts the padding in front of the ids",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "padding in front instead of behind",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long
    )


@wrong(
    "appends to the rows of the caller: afterwards all his rows have the same length",
    "Do not change the inputs.",
    "pads the caller's lists in place",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        while len(row) < longest:
            row.append(PAD)
    return torch.tensor(rows, dtype=torch.long)


@wrong(
    "takes the first row for the longest: rows that are not sorted by length are cut or"
    " raise",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "assumes that the first row is the longest",
)
def pad(rows):
    longest = len(rows[0])
    batch = torch.full((len(rows), longest), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        for t, i in enumerate(row[:longest]):
            batch[b, t] = i
    return batch


@wrong(
    "no dtype: if all rows are empty, the tensor is float32",
    "a tensor (B, T) of whole numbers (`torch.long`)",
    "dtype left to torch, which makes empty lists float",
)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong(
    "if all rows are empty, the shape is (0,) and not (B, 0)",
    "If all rows are empty, return a tensor of shape (B, 0).",
    "zip_longest loses the rows when all are empty",
)
def pad(rows):
    return torch.tensor(list(zip_longest(*rows, fillvalue=PAD)), dtype=torch.long).T


@wrong(
    "pad_sequence takes the dtype of the first row: if that row is empty, all ids are float",
    "a tensor (B, T) of whole numbers (`torch.long`)",
    "an empty first row makes the batch float",
)
def pad(rows):
    return pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD
    )


@wrong(
    "keeps at least one column: rows that are all empty give (B, 1)",
    "If all rows are empty, return a tensor of shape (B, 0).",
    "a column of padding for empty rows",
)
def pad(rows):
    longest = max(1, *(len(row) for row in rows))
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "max compares lists entry by entry, so it finds the row with the largest first id, not"
    " the longest one: [[9], [1, 2]] raises",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "max without key=len",
)
def pad(rows):
    longest = len(max(rows))
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@wrong(
    "goes through float32, which rounds ids above 2 ** 24 (16777217 becomes 16777216)",
    "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the"
    " longest one.",
    "ids pass through float32 and get rounded",
)
def pad(rows):
    batch = torch.zeros(len(rows), max(len(row) for row in rows))
    for b, row in enumerate(rows):
        batch[b, : len(row)] = torch.tensor(row)
    return batch.long()


@wrong(
    "reuses one tensor for every call with the same shape, so the next batch overwrites the"
    " one returned before",
    "The result of a call must not depend on earlier calls or on other objects of the same"
    " class.",
    "returns a shared buffer that later calls overwrite",
)
def pad(rows, buffers={}):
    shape = len(rows), max(len(row) for row in rows)
    if shape not in buffers:
        buffers[shape] = torch.empty(shape, dtype=torch.long)
    batch = buffers[shape].fill_(PAD)
    for b, row in enumerate(rows):
        batch[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return batch
