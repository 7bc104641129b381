import torch

from attention_course.tasks.core import PAD
from blind import right, wrong


def numbers(rows):
    """A list of lists as a tensor of integers, also if all lists are empty."""
    return torch.tensor(rows, dtype=torch.long)


@right("flips the rows, pads at the end, flips the tensor")
def pad_left(rows):
    def flipped(lists):
        tensors = [torch.tensor(x[::-1], dtype=torch.long) for x in lists]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD).flip(1)

    return flipped(rows), flipped([[*range(len(row))] for row in rows])


@right("writes into tensors of PAD and of zeros with slices from the right")
def pad_left(rows):
    width = max(map(len, rows))
    ids, positions = torch.full((len(rows), width), PAD), torch.zeros(len(rows), width, dtype=torch.long)
    for b, row in enumerate(rows):
        start = width - len(row)
        ids[b, start:] = torch.tensor(row, dtype=torch.long)
        positions[b, start:] = torch.arange(len(row))
    return ids, positions


@right("positions as columns minus what the row lacks, cut off at zero")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    ids = numbers([[PAD] * (width - len(row)) + list(row) for row in rows])
    return ids, (torch.arange(width) - (width - lengths)[:, None]).clamp(min=0)


@right("pads each row's tensor with torch's pad, positions from a cumulative sum over a mask of ones")
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids, there = [], []
    for row in rows:
        lack = (width - len(row), 0)
        ids.append(torch.nn.functional.pad(torch.tensor(row, dtype=torch.long), lack, value=PAD))
        there.append(torch.nn.functional.pad(torch.ones(len(row), dtype=torch.long), lack))
    there = torch.stack(there)
    return torch.stack(ids), (there.cumsum(dim=1) - 1).clamp(min=0)


@wrong("positions are the numbers of the columns", "The position of a token is the number of tokens that stand before it in its own row: 0 for the first token, 1 for the second.", "columns instead of positions")
def pad_left(rows):
    width = max(map(len, rows))
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    return ids, torch.arange(width).expand(len(rows), width).clone()


@wrong("positions from a mask ids != PAD: rows that contain the id 0 are counted wrongly", "The rows themselves may contain the id of `PAD`, and there it is a token with a position, like any other.", "PAD inside a row taken for padding")
def pad_left(rows):
    width = max(map(len, rows))
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    return ids, ((ids != PAD).cumsum(dim=1) - 1).clamp(min=0)


@wrong("positions start from 1", "The position of a token is the number of tokens that stand before it in its own row: 0 for the first token, 1 for the second.", "positions from 1")
def pad_left(rows):
    width = max(map(len, rows))
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    return ids, numbers([[0] * (width - len(row)) + [*range(1, len(row) + 1)] for row in rows])


@wrong("padding gets negative positions", "Padding has the position 0.", "negative positions for padding")
def pad_left(rows):
    width = max(map(len, rows))
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    return ids, numbers([[*range(len(row) - width, len(row))] for row in rows])


@wrong("no dtype: all rows empty give two tensors of float32", "The ids (B, T) and the positions (B, T), both of `torch.long`.", "float tensors for empty rows")
def pad_left(rows):
    width = max(map(len, rows))
    ids = [[PAD] * (width - len(row)) + row for row in rows]
    return torch.tensor(ids), torch.tensor([[0] * (width - len(row)) + [*range(len(row))] for row in rows])


@wrong("inserts the padding into the caller's rows", "Your function does not change the rows that it is given.", "inserts into the given rows")
def pad_left(rows):
    lengths = [len(row) for row in rows]
    for row in rows:
        while len(row) < max(lengths):
            row.insert(0, PAD)
    return numbers(rows), numbers([[0] * (max(lengths) - n) + [*range(n)] for n in lengths])


@wrong("finds the start of a row by searching the first id that is not PAD: a row that begins with the id 0 starts too late", "The id alone does not show whether a place is padding.", "leading PAD of a row taken for padding")
def pad_left(rows):
    width = max(map(len, rows))
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    start = (ids != PAD).long().cummax(dim=1).values.eq(0).sum(dim=1, keepdim=True)
    return ids, (torch.arange(width) - start).clamp(min=0)


@wrong("fills up to one more than the longest, as for a start token", "Each row is filled up with `PAD` in front, so that its last id stands in the last column. The longest row is not filled up.", "a column too many")
def pad_left(rows):
    width = max(map(len, rows)) + 1
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    return ids, numbers([[0] * (width - len(row)) + [*range(len(row))] for row in rows])


@wrong("row[-0:] trap: pads with negative slices, so an empty row is written as a whole row of positions (it gets 0, 1, 2 ...)", "Padding has the position 0.", "slice from -0 takes the whole row")
def pad_left(rows):
    width = max(map(len, rows))
    ids, positions = torch.full((len(rows), width), PAD), torch.zeros(len(rows), width, dtype=torch.long)
    for b, row in enumerate(rows):
        if row:
            ids[b, -len(row) :] = torch.tensor(row)
        positions[b, -len(row) :] = torch.arange(width)[: len(row) or None]
    return ids, positions


@wrong("looks positions up by the id's first place in its row: an id that occurs twice gets its first position again", "The position of a token is the number of tokens that stand before it in its own row: 0 for the first token, 1 for the second.", "repeated ids share a position")
def pad_left(rows):
    width = max(map(len, rows))
    ids = numbers([[PAD] * (width - len(row)) + row for row in rows])
    return ids, numbers([[0] * (width - len(row)) + [row.index(i) for i in row] for row in rows])
