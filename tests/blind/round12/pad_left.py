import torch

from attention_course.tasks.core import PAD, pad

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "puts the padding at the end",
    "Put `PAD` in front of each row until the row is as long as the longest one.",
    "padded at the end",
)
def pad_left(rows):
    return pad(rows), pad([list(range(len(row))) for row in rows])


@wrong(
    "gives every token the number of its column",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "positions are columns",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = pad([[PAD] * (longest - len(row)) + [*row] for row in rows])
    return ids, torch.arange(longest).repeat(len(rows), 1)


@wrong(
    "counts positions from 1",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "positions start at 1",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = longest - len(row)
        ids.append([PAD] * missing + [*row])
        positions.append([0] * missing + [*range(1, len(row) + 1)])
    return pad(ids), pad(positions)


@wrong(
    "subtracts the padding from the columns, so padding has negative positions",
    "The position of padding is 0.",
    "negative positions on padding",
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    missing = torch.tensor([longest - len(row) for row in rows])
    ids = pad([[PAD] * (longest - len(row)) + [*row] for row in rows])
    return ids, torch.arange(longest) - missing[:, None]


@wrong(
    "finds the padding by its id: a PAD that is a token of the row is not counted",
    "A row may contain the id of `PAD` as one of its tokens.",
    "padding found by id",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = pad([[PAD] * (longest - len(row)) + [*row] for row in rows])
    positions = ((ids != PAD).cumsum(1) - 1).clamp(min=0)
    return ids, positions


@wrong(
    "writes into out[i, -len(row):], which for an empty row is the whole row",
    "There is at least one row, and a row may be empty.",
    "-0 slice of an empty row",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[i, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "leaves the dtype of the positions to torch.tensor: floats if all rows are empty",
    "The ids (B, T) and the positions (B, T), both of `torch.long`.",
    "float positions if all rows are empty",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids = pad([[PAD] * (longest - len(row)) + [*row] for row in rows])
    positions = torch.tensor(
        [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    )
    return ids, positions


@wrong(
    "row.index(token): a token that comes twice has both times its first position",
    "The position of a token is the number of tokens before it in its own row: 0 for the"
    " first token, 1 for the second.",
    "first position of a repeated token",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        zeros = [0] * (longest - len(row))
        ids.append([PAD] * len(zeros) + [*row])
        positions.append(zeros + [row.index(token) for token in row])
    return pad(ids), pad(positions)


@wrong(
    "inserts the padding into the caller's rows",
    "Do not change the inputs.",
    "rows changed in place",
    subtle=True,
)
def pad_left(rows):
    longest = max(len(row) for row in rows)
    positions = pad([[0] * (longest - len(row)) + [*range(len(row))] for row in rows])
    for row in rows:
        while len(row) < longest:
            row.insert(0, PAD)
    return pad(rows), positions


@wrong(
    "makes at least one column",
    "If all rows are empty, both tensors have the shape (B, 0).",
    "a column too many if all rows are empty",
    subtle=True,
)
def pad_left(rows):
    longest = max(1, *(len(row) for row in rows))
    ids = pad([[PAD] * (longest - len(row)) + [*row] for row in rows])
    positions = pad([[0] * (longest - len(row)) + [*range(len(row))] for row in rows])
    return ids, positions


# ---------------------------------------------------------------- right answers


@right("turns the rows around, pads at the end, and turns the tensors around")
def pad_left(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    positions = pad([list(range(len(row)))[::-1] for row in rows]).flip(1)
    return ids, positions


@right("positions from columns minus padding, cut off at 0; no pad")
def pad_left(rows):
    lengths = torch.tensor([len(row) for row in rows])
    size = int(lengths.max())
    ids = torch.full((len(rows), size), PAD, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, size - len(row) :] = torch.tensor(row, dtype=torch.long)
    positions = (torch.arange(size) - (size - lengths)[:, None]).clamp(min=0)
    return ids, positions


@right("loops over all places, column by column")
def pad_left(rows):
    size = max(map(len, rows))
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    positions = torch.zeros(len(rows), size, dtype=torch.long)
    for b, row in enumerate(rows):
        shift = size - len(row)
        for t in range(shift, size):
            ids[b, t] = row[t - shift]
            positions[b, t] = t - shift
    return ids, positions


@right("pads at the end, rolls each row to the right, and counts a mask made of lengths")
def pad_left(rows):
    right_padded = pad(rows)
    size = right_padded.size(1)
    ids = torch.stack(
        [line.roll(size - len(row)) for line, row in zip(right_padded, rows)]
    )
    mask = pad([[0] * (size - len(row)) + [1] * len(row) for row in rows])
    return ids, (mask.cumsum(dim=1) - 1) * mask
