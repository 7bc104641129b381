"""Answers to `pad`."""
import itertools

import torch
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import PAD
from blind import right, wrong


@right('fills a full tensor row by row')
def pad_right1(rows):
    ids = torch.full((len(rows), max(map(len, rows))), PAD, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return ids


@right('builds the columns with zip_longest and returns a transposed tensor')
def pad_right2(rows):
    columns = list(itertools.zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(len(columns), len(rows)).t()


@right('uses pad_sequence of PyTorch')
def pad_right3(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=PAD)


@right('scatters one flat list of all ids with a mask')
def pad_right4(rows):
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    flat = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return torch.full(mask.shape, PAD, dtype=torch.long).masked_scatter(mask, flat)


@wrong(
    'Puts the padding in front of the ids.',
    'Write `pad`, which appends `PAD` to each row of ids until the row is as long as the longest one.',
    'padding is in front',
)
def pad_wrong1(rows):
    size = max(len(row) for row in rows)
    return torch.tensor([[PAD] * (size - len(row)) + list(row) for row in rows], dtype=torch.long).reshape(len(rows), size)


@wrong(
    'Takes the length of the first row for that of the longest.',
    'Write `pad`, which appends `PAD` to each row of ids until the row is as long as the longest one.',
    'first row taken for longest',
)
def pad_wrong2(rows):
    size = len(rows[0])
    return torch.tensor([[*row, *[PAD] * (size - len(row))] for row in rows], dtype=torch.long)


@wrong(
    "Copies only the outer list and appends the padding to the caller's own rows.",
    'Do not change the inputs.',
    "the caller's rows grow",
)
def pad_wrong3(rows):
    rows = list(rows)
    size = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (size - len(row))
    return torch.tensor(rows, dtype=torch.long).reshape(len(rows), size)


@wrong(
    'Returns floating-point numbers.',
    '"""Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."""',
    'ids are floats',
)
def pad_wrong4(rows):
    ids = torch.zeros(len(rows), max(len(row) for row in rows))
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    return ids


@wrong(
    'Leaves the dtype to torch.tensor, which makes float32 of rows that are all empty.',
    '"""Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."""',
    'float tensor if all rows empty',
)
def pad_wrong5(rows):
    size = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (size - len(row))] for row in rows])


@wrong(
    'Fills a float32 tensor first, so an id above 2 to the 24 is rounded.',
    'Write `pad`, which appends `PAD` to each row of ids until the row is as long as the longest one.',
    'large ids rounded in float32',
)
def pad_wrong6(rows):
    ids = torch.zeros(len(rows), max(len(row) for row in rows))
    for i, row in enumerate(rows):
        for j, number in enumerate(row):
            ids[i, j] = number
    return ids.long()


@wrong(
    'Makes at least one column, even if all rows are empty.',
    'If all rows are empty, return a tensor of shape (B, 0).',
    'empty rows get a column',
)
def pad_wrong7(rows):
    size = max(1, *(len(row) for row in rows))
    return torch.tensor([[*row, *[PAD] * (size - len(row))] for row in rows], dtype=torch.long)


_buffers_wrong8 = {}


@wrong(
    'Keeps a buffer for each shape and does not clear it, so old ids stand where padding should be.',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'buffer with old ids reused',
)
def pad_wrong8(rows):
    shape = (len(rows), max(len(row) for row in rows))
    if shape not in _buffers_wrong8:
        _buffers_wrong8[shape] = torch.full(shape, PAD, dtype=torch.long)
    ids = _buffers_wrong8[shape]
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return ids.clone()


@wrong(
    'Removes columns at the end that hold nothing but PAD, although the id of PAD may be the last id of the longest row.',
    'Write `pad`, which appends `PAD` to each row of ids until the row is as long as the longest one.',
    'trailing PAD tokens cut off',
)
def pad_wrong9(rows):
    size = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[PAD] * (size - len(row))] for row in rows], dtype=torch.long).reshape(len(rows), size)
    while ids.size(1) and (ids[:, -1] == PAD).all():
        ids = ids[:, :-1]
    return ids


@wrong(
    'Squeezes the result, so a batch of one row, or rows of one id, lose an axis.',
    '"""Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."""',
    'axes of length one squeezed',
)
def pad_wrong10(rows):
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=PAD).squeeze()
