import torch

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


def pad(rows):
    longest = max(len(row) for row in rows)
    padded = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest)


@right("counts the columns from the first token on and cuts the negative numbers off")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    missing = longest - lengths
    positions = (torch.arange(longest) - missing[:, None]).clamp(min=0)
    ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, missing[b] :] = torch.tensor(row, dtype=torch.long)
    return ids, positions


@right("pads the reversed rows at the end with pad, and flips the rectangle")
def pad_left(rows):
    ids = pad([list(reversed(row)) for row in rows]).flip(1)
    positions = pad([list(range(len(row)))[::-1] for row in rows]).flip(1)
    return ids, positions


@right("pads at the end and turns every row round by the number of missing places")
def pad_left(rows):
    ids, positions = pad(rows), pad([range(len(row)) for row in rows])
    for b, row in enumerate(rows):
        missing = ids.size(1) - len(row)
        ids[b] = ids[b].clone().roll(missing)
        positions[b] = positions[b].clone().roll(missing)
    return ids, positions


@right("a boolean mask of the places, filled with all ids in one go")
def pad_left(rows, pad_id=PAD):
    size = max(map(len, rows))
    filled = torch.tensor(
        [[t >= size - len(row) for t in range(size)] for row in rows],
        dtype=torch.bool,
    ).view(len(rows), size)
    flat = [i for row in rows for i in row]
    ids = torch.full(filled.shape, pad_id, dtype=torch.long)
    ids[filled] = torch.tensor(flat, dtype=torch.long)
    positions = filled.long().cumsum(1) - filled.long()
    return ids, positions * filled


@wrong(
    "the positions are the numbers of the columns: [8, 9] in a batch of three columns gives 1, 2",
    "The position of a token is the number of tokens that stand before it in its own row: 0 for the first token, 1 for the second.",
    "positions count columns, not tokens",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = [[PAD] * (T - len(row)) + row for row in rows]
    positions = [[0] * (T - len(row)) + [*range(T - len(row), T)] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "asks the ids which are padding: the token 0 in [0, 5] or [5, 0, 6] is not counted",
    "The id of `PAD` may also stand in a row, and there it is a token, which has a position like any other.",
    "every PAD id is taken for padding",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = torch.tensor([[PAD] * (T - len(row)) + row for row in rows], dtype=torch.long)
    token = ids != PAD
    positions = (token.cumsum(1) - 1).clamp(min=0) * token
    return ids, positions


@wrong(
    "numbers the tokens from 1, with 0 for padding: [8, 9] gives 0, 1, 2",
    "The position of a token is the number of tokens that stand before it in its own row: 0 for the first token, 1 for the second.",
    "positions start at one",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = [[PAD] * (T - len(row)) + row for row in rows]
    positions = [[0] * (T - len(row)) + [*range(1, len(row) + 1)] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "ids[b, -len(row):] with an empty row is the whole row, not none of it: raises",
    "Rows may be empty, and so may all of them: then both tensors are (B, 0).",
    "an empty row: minus zero as slice start",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = torch.full((len(rows), T), PAD)
    positions = torch.zeros(len(rows), T, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "inserts the padding into the rows of the caller",
    "Your function leaves the rows that came in as they are.",
    "inserts into the caller's rows",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    positions = [[0] * (T - len(row)) + [*range(len(row))] for row in rows]
    for row in rows:
        while len(row) < T:
            row.insert(0, PAD)
    return (
        torch.tensor(rows, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "no dtype: with empty rows only, both tensors are floating-point",
    "The ids (B, T) and the positions (B, T), both of `torch.long`.",
    "all rows empty: floating-point tensors",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = [[PAD] * (T - len(row)) + list(row) for row in rows]
    positions = [[0] * (T - len(row)) + [*range(len(row))] for row in rows]
    return torch.tensor(ids), torch.tensor(positions)


@wrong(
    "padding gets negative positions (-1 before the first token), as the difference is not cut off",
    "Padding has the position 0.",
    "negative positions on padding",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = [[PAD] * (T - len(row)) + row for row in rows]
    positions = [[t - (T - len(row)) for t in range(T)] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "row.index(i) finds the first place of an id: in [5, 6, 5] the last token gets position 0",
    "The position of a token is the number of tokens that stand before it in its own row: 0 for the first token, 1 for the second.",
    "repeated ids get the position of the first",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = [[PAD] * (T - len(row)) + row for row in rows]
    positions = [[0] * (T - len(row)) + [row.index(i) for i in row] for row in rows]
    return (
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(positions, dtype=torch.long),
    )


@wrong(
    "looks for the first id that is not PAD: a row that begins with the token 0, as [0, 5], starts too late",
    "The id of `PAD` may also stand in a row, and there it is a token, which has a position like any other.",
    "a row's leading token 0 is taken for padding",
)
def pad_left(rows):
    T = max(len(row) for row in rows)
    ids = torch.tensor([[PAD] * (T - len(row)) + row for row in rows], dtype=torch.long)
    if T == 0:
        return ids, ids.clone()
    first = (ids != PAD).long().argmax(1)
    positions = (torch.arange(T) - first[:, None]).clamp(min=0)
    positions[(ids == PAD).all(1)] = 0
    return ids, positions


@wrong(
    "reverses the rows in place and back again: if the same list stands in the batch twice, it is reversed twice and comes out backwards",
    "Each row is filled up with `PAD` in front, so that its last id stands in the last column.",
    "a row that occurs twice comes out backwards",
)
def pad_left(rows):
    for row in rows:
        row.reverse()
    ids = pad([list(row) for row in rows]).flip(1)
    for row in rows:
        row.reverse()
    positions = pad([list(range(len(row)))[::-1] for row in rows]).flip(1)
    return ids, positions
