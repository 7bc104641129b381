from itertools import chain, zip_longest

import torch
from attention_course.tasks.core import PAD
from blind import right, wrong
from torch.nn.utils.rnn import pad_sequence

APPEND = "Write `pad`, which appends `PAD` to each row of ids until the row is as long as the longest one."
LONG = "Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."


@right("pad_sequence from torch")
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=PAD)


@right("a full tensor, filled row by row")
def pad(rows):
    result = torch.full((len(rows), max(len(row) for row in rows)), PAD, dtype=torch.long)
    for line, row in zip(result, rows):
        line[: len(row)] = torch.tensor(row, dtype=torch.long)
    return result


@right("zip_longest makes the columns, then transpose")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T


@right("all ids at once, through a boolean mask")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    inside = torch.arange(int(lengths.max())) < lengths[:, None]
    result = torch.zeros(inside.shape, dtype=torch.long) + PAD
    result[inside] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
    return result


@wrong("PAD goes in front of the ids", breaks=APPEND, name="padding in front")
def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long)


@wrong("zip_longest makes columns, and they are never transposed: (T, B)", breaks=LONG, name="missing transpose")
def pad(rows):
    if not any(rows):
        return torch.zeros(len(rows), 0, dtype=torch.long)
    return torch.tensor(list(zip_longest(*rows, fillvalue=PAD)), dtype=torch.long)


@wrong("no dtype: if all rows are empty, the result is float32", breaks=LONG, name="float tensor for empty rows")
def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong("at least one column, so empty rows give (B, 1)",
       breaks="If all rows are empty, return a tensor of shape (B, 0).", name="a column for empty rows")
def pad(rows):
    longest = max(1, *map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


@wrong("lengthens the rows that it was given", breaks="Do not change the inputs.", name="rows changed in place")
def pad(rows):
    longest = max(map(len, rows))
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong("collects the ids in a float32 tensor, so ids above 2**24 are rounded",
       breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
       name="ids pass through float32")
def pad(rows):
    result = torch.zeros(len(rows), max(map(len, rows)))
    for b, row in enumerate(rows):
        result[b, : len(row)] = torch.tensor(row, dtype=torch.float32)
    return result.long()


@wrong("max(rows) is the greatest row in dictionary order, not the longest", breaks=APPEND,
       name="greatest row taken for the longest")
def pad(rows):
    longest = len(max(rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


@wrong("leaves empty rows out of the batch", breaks="There is at least one row, and a row may be empty.",
       name="empty rows dropped")
def pad(rows):
    if not any(rows):
        return torch.zeros(len(rows), 0, dtype=torch.long)
    rows = [row for row in rows if row]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


@wrong("squeeze: a batch of one row, or rows of length one, lose an axis", breaks=LONG,
       name="squeeze removes an axis of length one")
def pad(rows):
    longest = max(map(len, rows))
    parts = [torch.tensor([[*row, *[PAD] * (longest - len(row))]], dtype=torch.long) for row in rows]
    return torch.stack(parts).squeeze()


widest = 0


@wrong("remembers the greatest length of all calls, and pads later batches to it",
       breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
       name="width kept from an earlier batch")
def pad(rows):
    global widest
    widest = max([widest, *map(len, rows)])
    return torch.tensor([[*row, *[PAD] * (widest - len(row))] for row in rows], dtype=torch.long)
