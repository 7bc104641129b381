from itertools import chain, zip_longest

import torch
from torch import nn

from blind import right, wrong
from attention_course.tasks.core import EOS, PAD

END = "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end."
SAME = "The rows that came in are somebody else's: leave them as they are."
EMPTY = "Rows may be empty, and so may all of them: then the tensor is (B, 0)."
FILL = "Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers\n    (`torch.long`)."


@right("a full tensor, row by row written over")
def pad(rows):
    out = torch.full((len(rows), max(map(len, rows))), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@right("columns by zip_longest, turned")
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T.contiguous()


@right("pad_sequence")
def pad(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


@right("all ids in one line, put where a mask says")
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    keep = torch.arange(int(lengths.max())) < lengths[:, None]
    out = torch.full(keep.shape, PAD, dtype=torch.long)
    out[keep] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
    return out


@wrong("fills up in front", breaks=END, name="padding on the wrong side")
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[PAD] * (width - len(r)) + [*r] for r in rows], dtype=torch.long)


@wrong("the rows themselves grow", breaks=SAME, name="input changed")
def pad(rows):
    width = max(map(len, rows))
    for row in rows:
        row += [PAD] * (width - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong("fills up with EOS", breaks=END, name="EOS in place of PAD")
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*r] + [EOS] * (width - len(r)) for r in rows], dtype=torch.long)


@wrong("no dtype given: floats if all rows are empty", breaks=FILL, name="float tensor of nothing", subtle=True)
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*r] + [PAD] * (width - len(r)) for r in rows])


@wrong("squeeze: one row loses its axis", breaks=FILL, name="an axis of length one lost", subtle=True)
def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([[*r] + [PAD] * (width - len(r)) for r in rows], dtype=torch.long).squeeze(0)


@wrong("at least one column", breaks=EMPTY, name="all rows empty: one column too many", subtle=True)
def pad(rows):
    width = max([1, *map(len, rows)])
    return torch.tensor([[*r] + [PAD] * (width - len(r)) for r in rows], dtype=torch.long)


@wrong("empty rows are thrown out, unless all are", breaks=EMPTY, name="empty rows lost", subtle=True)
def pad(rows):
    width = max(map(len, rows))
    kept = [r for r in rows if len(r)] or rows
    return torch.tensor([[*r] + [PAD] * (width - len(r)) for r in kept], dtype=torch.long)


@wrong("ids pass through 16 bits", breaks=FILL, name="large ids wrap around", subtle=True)
def pad(rows):
    out = torch.full((len(rows), max(map(len, rows))), PAD, dtype=torch.int16)
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out.long()


@wrong("never longer than 64", breaks=FILL, name="long rows cut off", subtle=True)
def pad(rows):
    width = min(64, max(map(len, rows)))
    return torch.tensor([[*r][:width] + [PAD] * (width - len(r)) for r in rows], dtype=torch.long)


BUFFER = torch.zeros(64, 512, dtype=torch.long)


@wrong("a buffer used again for the next call", breaks="A batch is one tensor, and a tensor is a rectangle.", name="the second call overwrites the first result", subtle=True)
def pad(rows):
    width = max(map(len, rows))
    out = BUFFER[: len(rows), :width] if len(rows) <= 64 and width <= 512 else torch.empty(len(rows), width, dtype=torch.long)
    out.fill_(PAD)
    for b, row in enumerate(rows):
        out[b, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out
