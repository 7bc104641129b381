from blind import right, wrong
from itertools import zip_longest

import torch
from torch import nn

from attention_course.tasks.core import PAD

_BUFFERS = {}


@right('full of PAD, and rows written in')
def pad(rows):
    out = torch.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=torch.long)
    for line, row in zip(out, rows):
        line[: len(row)] = torch.tensor(row, dtype=torch.long)
    return out


@right('pad_sequence')
def pad(rows):
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=PAD
    )


@right('columns by zip_longest, turned')
def pad(rows):
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(len(columns), len(rows)).T


@right('all ids in one line, laid where a mask is True')
def pad(rows):
    lengths = torch.tensor([len(row) for row in rows])
    there = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    out = there.long() * 0 + PAD
    out[there] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return out


@wrong('padding in front', breaks='Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.', name='padded on the left', subtle=False)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[PAD] * (longest - len(row)) + [*row] for row in rows])


@wrong('rows are lengthened themselves', breaks="The rows that came in are somebody else's: leave them as they are.", name='input changed', subtle=False)
def pad(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows, dtype=torch.long)


@wrong('all cut to the shortest', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='cut in place of filled', subtle=False)
def pad(rows):
    return torch.tensor(list(zip(*rows)), dtype=torch.long).T


@wrong('integers of 32 bits', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='wrong dtype', subtle=True)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row] + [PAD] * (longest - len(row)) for row in rows], dtype=torch.int32)


@wrong('ids go through float32: those above 2 ** 24 change', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='large ids rounded', subtle=True)
def pad(rows):
    out = torch.zeros(len(rows), max(len(row) for row in rows)) + PAD
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=torch.float32)
    return out.long()


@wrong('empty rows are left out', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='empty row lost', subtle=True)
def pad(rows):
    rows = [row for row in rows if row]
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row] + [PAD] * (longest - len(row)) for row in rows], dtype=torch.long)


@wrong('a batch of one row loses its axis', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='batch axis squeezed away', subtle=True)
def pad(rows):
    longest = max(len(row) for row in rows)
    out = torch.tensor([[*row] + [PAD] * (longest - len(row)) for row in rows], dtype=torch.long)
    return out.squeeze(0)


@wrong('a buffer per shape is used again, and holds old ids where PAD should be', breaks='Rows of ids that are shorter than the longest are filled up with `PAD`, at the end.', name='state kept between calls', subtle=True)
def pad(rows):
    shape = len(rows), max(len(row) for row in rows)
    out = _BUFFERS.setdefault(shape, torch.full(shape, PAD, dtype=torch.long))
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return out.clone()


@wrong('never longer than 64', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='constant fitted to short rows', subtle=True)
def pad(rows):
    longest = min(64, max(len(row) for row in rows))
    return torch.tensor([[*row[:longest]] + [PAD] * (longest - len(row)) for row in rows], dtype=torch.long)


@wrong('no dtype given: if all rows are empty, the tensor holds floats', breaks='Fill rows of ids up with PAD to the longest of them: a tensor (B, T) of integers (`torch.long`).', name='dtype left to chance', subtle=True)
def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row] + [PAD] * (longest - len(row)) for row in rows])
