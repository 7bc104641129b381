import torch
from attention_course.tasks.core import PAD
from blind import right, wrong
from torch.nn.utils.rnn import pad_sequence

POSITION = "The position of a token is the number of tokens before it in its own row: 0 for the first token, 1 for the second."
ZERO = "The position of padding is 0."
BOTH_LONG = "The ids (B, T) and the positions (B, T), both of `torch.long`."
FRONT = "Put `PAD` in front of each row until the row is as long as the longest one."


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


def left(rows):
    longest = max(map(len, rows))
    return torch.tensor([[PAD] * (longest - len(row)) + list(row) for row in rows], dtype=torch.long)


@right("reverses the rows, pads behind, and flips the columns")
def pad_left(rows):
    places = [range(len(row)) for row in rows]
    ids, positions = (pad([list(reversed(row)) for row in part]) for part in (rows, places))
    return ids.flip(1), positions.flip(1)


@right("pads behind, then moves every row to the right with gather")
def pad_left(rows):
    ids = pad(rows)
    gap = ids.size(1) - torch.tensor([len(row) for row in rows])[:, None]
    columns = torch.arange(ids.size(1)).expand_as(ids)
    positions = (columns - gap).clamp(min=0)
    return ids.gather(1, positions).masked_fill(columns < gap, PAD), positions


@right("pad_sequence with padding_side='left'")
def pad_left(rows):
    def pack(tensors, value):
        return pad_sequence(tensors, batch_first=True, padding_value=value, padding_side="left")

    ids = pack([torch.tensor(row, dtype=torch.long) for row in rows], PAD)
    return ids, pack([torch.arange(len(row)) for row in rows], 0)


@right("fills two tensors row by row, from a start column")
def pad_left(rows):
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), PAD, dtype=torch.long)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        for place, token in enumerate(row):
            ids[b, width - len(row) + place] = token
            positions[b, width - len(row) + place] = place
    return ids, positions


@wrong("positions from the ids that are not PAD: a token with the id of PAD counts as padding",
       breaks="A row may contain the id of `PAD` as one of its tokens.", name="padding guessed from the ids")
def pad_left(rows):
    ids = left(rows)
    mask = ids != PAD
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return ids, positions * mask


@wrong("the position is the column of the batch", breaks=POSITION, name="column instead of position")
def pad_left(rows):
    ids = left(rows)
    return ids, torch.arange(ids.size(1)).repeat(len(rows), 1)


@wrong("positions start at one", breaks=POSITION, name="positions count from one")
def pad_left(rows):
    longest = max(map(len, rows))
    positions = [[0] * (longest - len(row)) + [*range(1, len(row) + 1)] for row in rows]
    return left(rows), torch.tensor(positions, dtype=torch.long)


@wrong("columns minus the gap, without a lower bound: padding has negative positions", breaks=ZERO,
       name="negative positions on padding")
def pad_left(rows):
    ids = left(rows)
    gap = ids.size(1) - torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.size(1)) - gap[:, None]


@wrong("the positions have no dtype: float32 if all rows are empty", breaks=BOTH_LONG,
       name="float positions for empty rows")
def pad_left(rows):
    longest = max(map(len, rows))
    positions = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    return left(rows), torch.tensor(positions)


@wrong("flips the padded batch without reversing the rows first, so the tokens stand in reverse order",
       breaks="For example, the rows `[5, 6, 7]` and `[8, 9]` give the ids `[[5, 6, 7], [0, 8, 9]]` and the positions `[[0, 1, 2], [0, 0, 1]]`.",
       name="flip reverses the tokens as well")
def pad_left(rows):
    longest = max(map(len, rows))
    positions = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    return pad(rows).flip(1), torch.tensor(positions, dtype=torch.long)


@wrong("inserts the padding into the given lists", breaks="Do not change the inputs.", name="rows changed in place")
def pad_left(rows):
    longest = max(map(len, rows))
    positions = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    for row in rows:
        while len(row) < longest:
            row.insert(0, PAD)
    return torch.tensor(rows, dtype=torch.long), torch.tensor(positions, dtype=torch.long)


@wrong("row.index(token) gives a repeated token the position of its first occurrence", breaks=POSITION,
       name="repeated ids share a position")
def pad_left(rows):
    longest = max(map(len, rows))
    positions = [[0] * (longest - len(row)) + [row.index(token) for token in row] for row in rows]
    return left(rows), torch.tensor(positions, dtype=torch.long)


@wrong("writes to the slice [-len(row):], which is the whole line if the row is empty: an error beside longer rows",
       breaks="There is at least one row, and a row may be empty.", name="slice from minus zero")
def pad_left(rows):
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), PAD, dtype=torch.long)
    positions = torch.zeros(len(rows), width, dtype=torch.long)
    for b, row in enumerate(rows):
        n = len(row)
        ids[b, -n:] = torch.tensor(row, dtype=torch.long)
        positions[b, -n:] = torch.arange(n)
    return ids, positions


@wrong("counts in float16, so positions above 2048 are rounded",
       breaks="Positions and counts must be exact in every dtype.", name="positions counted in half precision")
def pad_left(rows):
    ids = left(rows)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    mask = torch.arange(ids.size(1)) >= ids.size(1) - lengths
    return ids, (mask.half().cumsum(1) - 1).clamp(min=0).long()
