from collections import deque
from itertools import zip_longest

import torch

from attention_course.tasks.core import PAD, pad

from blind import right, wrong


@right("pads reversed copies at the end, flips, and computes all positions at once")
def pad_left(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    size = ids.size(1)
    missing = size - torch.tensor([len(row) for row in rows])
    positions = torch.arange(size)[None] - missing[:, None]
    return ids, positions.clamp(min=0)


@right("deques that grow to the left")
def pad_left(rows):
    longest = max(map(len, rows))
    all_ids, all_positions = [], []
    for row in rows:
        ids, positions = deque(row), deque(range(len(row)))
        while len(ids) < longest:
            ids.appendleft(PAD)
            positions.appendleft(0)
        all_ids.append(list(ids))
        all_positions.append(list(positions))
    return (
        torch.tensor(all_ids, dtype=torch.long),
        torch.tensor(all_positions, dtype=torch.long),
    )


@right("columns from the last to the first with zip_longest, then turned round")
def pad_left(rows):
    def put(lists):
        columns = list(zip_longest(*map(reversed, lists), fillvalue=0))[::-1]
        shape = len(columns), len(lists)
        return torch.tensor(columns, dtype=torch.long).reshape(shape).T.contiguous()

    return put(rows), put([list(range(len(row))) for row in rows])


@right("two tensors of zeros, written from the end with an explicit start")
def pad_left(rows):
    longest = max([len(row) for row in rows])
    both = torch.zeros(2, len(rows), longest, dtype=torch.long)
    both[0] = PAD
    for b, row in enumerate(rows):
        start = longest - len(row)
        for position, token in enumerate(row):
            both[0, b, start + position] = token
            both[1, b, start + position] = position
    return both[0].clone(), both[1].clone()


@wrong(
    "puts the padding at the end, as pad does",
    "Put `PAD` in front of each row until the row is as long as the longest one.",
    "padding on the wrong side",
)
def pad_left(rows):
    return pad(rows), pad([[*range(len(row))] for row in rows])


@wrong(
    "gives the number of the column as the position, in every row",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "columns instead of positions",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + row for row in rows], dtype=torch.long
    )
    return ids, torch.arange(longest).repeat(len(rows), 1)


@wrong(
    "subtracts the amount of padding from the columns, so padding has negative positions",
    "The position of padding is 0.",
    "padding at negative positions",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = longest - len(row)
        ids.append([PAD] * missing + row)
        positions.append([column - missing for column in range(longest)])
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "counts positions from 1, so that 0 is free for padding",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "first position is 1",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = [PAD] * (longest - len(row))
        ids.append(missing + row)
        positions.append(missing + [*range(1, len(row) + 1)])
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "counts the ids that are not PAD, so a PAD among the tokens has no position of its"
    " own: [5, 0, 6] gets [0, 0, 1]",
    "Such a token has a position like any other token, so the ids alone do not show where"
    " the padding is.",
    "positions from a cumulative sum over ids != PAD",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + row for row in rows], dtype=torch.long
    )
    positions = (ids != PAD).long().cumsum(1) - 1
    return ids, positions.clamp(min=0)


@wrong(
    "takes a row to begin at its first id that is not PAD, so a row that itself begins"
    " with PAD, [0, 5], gets [0, 0]",
    "A row may contain the id of `PAD` as one of its tokens.",
    "a leading PAD token taken for padding",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        line = [PAD] * (longest - len(row)) + row
        start = 0
        while start < longest and line[start] == PAD:
            start += 1
        ids.append(line)
        positions.append([max(column - start, 0) for column in range(longest)])
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "makes the positions without a dtype, which is float32 when all rows are empty",
    "The ids (B, T) and the positions (B, T), both of `torch.long`.",
    "positions in float32 if all rows are empty",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor(
        [[PAD] * (longest - len(row)) + row for row in rows], dtype=torch.long
    )
    positions = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    return ids, torch.tensor(positions)


@wrong(
    "reverses the caller's rows in place, pads and flips",
    "Do not change the inputs.",
    "rows reversed in place",
    subtle=True,
)
def pad_left(rows):
    lengths = [len(row) for row in rows]
    for row in rows:
        row.reverse()
    ids = pad(rows).flip(1)
    positions = pad([[*range(length)][::-1] for length in lengths]).flip(1)
    return ids, positions


@wrong(
    "writes to [-len(row):], which is the whole row for an empty one, and fails",
    "There is at least one row, and a row may be empty.",
    "-0 in a slice",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
    positions = torch.zeros(len(rows), longest, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "looks positions up with row.index, so a repeated token gets its first position",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "repeated tokens share a position",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = longest - len(row)
        ids.append([PAD] * missing + row)
        positions.append([0] * missing + [row.index(token) for token in row])
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )
