import torch
import torch.nn.functional as F
from blind import right, wrong

from attention_course.tasks.core import PAD


def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


# Right
@right("pads the reversed rows at the end and flips; positions by clamp")
def r1(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    lack = ids.size(1) - torch.tensor([[len(row)] for row in rows])
    return ids, (torch.arange(ids.size(1)) - lack).clamp(min=0)


@right("one id at a time into tensors of zeros, from the right with negative indices")
def r2(rows):
    shape = (len(rows), max(map(len, rows)))
    ids, positions = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
    ids += PAD
    for b, row in enumerate(rows):
        for back in range(1, len(row) + 1):
            ids[b, -back] = row[-back]
            positions[b, -back] = len(row) - back
    return ids, positions


@right("each row padded at the end and rolled by what it lacks")
def r3(rows):
    longest = max(len(row) for row in rows)
    ids, positions = [], []
    for row in rows:
        lack = longest - len(row)
        count = torch.arange(len(row))
        ids.append(
            F.pad(torch.tensor(row, dtype=torch.long), (0, lack), value=PAD).roll(lack)
        )
        positions.append(F.pad(count, (0, lack)).roll(lack))
    return torch.stack(ids), torch.stack(positions)


@right("one gather from the rows padded at the end with one more PAD")
def r4(rows):
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    longest = int(lengths.max())
    filled = pad([[*row, PAD] for row in rows])
    place = torch.arange(longest) - (longest - lengths)
    positions = place.where(place > 0, 0)
    ids = filled.gather(1, place.where(place >= 0, lengths))
    return ids, positions


# Wrong
@wrong(
    "counts what is not PAD by cumsum",
    breaks="The id of `PAD` may also stand in a row, and there it is a token, which"
    " has a position like any other.",
    name="padding found by its id",
    subtle=True,
)
def w1(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    return ids, ((ids != PAD).cumsum(1) - 1).clamp(min=0)


@wrong(
    "the number of the column as the position",
    breaks="The position of a token is the number of tokens that stand before it in"
    " its own row",
    name="positions of the columns",
)
def w2(rows):
    ids = pad([row[::-1] for row in rows]).flip(1)
    return ids, torch.arange(ids.size(1)).expand_as(ids).contiguous()


@wrong(
    "positions of padding are 1, as in a copied idiom",
    breaks="Padding has the position 0.",
    name="padding has the position 1",
)
def w3(rows):
    longest = max(len(row) for row in rows)
    ids = pad([[PAD] * (longest - len(row)) + row for row in rows])
    mask = pad([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    positions = mask.cumsum(-1) - 1
    positions.masked_fill_(mask == 0, 1)
    return ids, positions


@wrong(
    "ids[b, -len(row):]: the whole row if the length is 0, and an error",
    breaks="Rows may be empty",
    name="a slice from minus zero",
    subtle=True,
)
def w4(rows):
    shape = (len(rows), max(len(row) for row in rows))
    ids = torch.full(shape, PAD, dtype=torch.long)
    positions = torch.zeros(shape, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, -len(row) :] = torch.tensor(row, dtype=torch.long)
        positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@wrong(
    "row.index(token): a repeated id has the position of its first occurrence",
    breaks="The position of a token is the number of tokens that stand before it in"
    " its own row",
    name="position of the first such id",
    subtle=True,
)
def w5(rows):
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + row for row in rows]
    positions = [
        [0] * (longest - len(row)) + [row.index(i) for i in row] for row in rows
    ]
    return torch.tensor(ids, dtype=torch.long), torch.tensor(
        positions, dtype=torch.long
    )


@wrong(
    "pads at the end and then moves every id 0 to the front, by a stable sort",
    breaks="An id does not say whether it is padding.",
    name="every 0 moves to the front",
    subtle=True,
)
def w6(rows):
    ids = pad(rows)
    order = (ids != PAD).long().argsort(dim=1, stable=True)
    ids = ids.gather(1, order)
    lack = ids.size(1) - torch.tensor([[len(row)] for row in rows])
    return ids, (torch.arange(ids.size(1)) - lack).clamp(min=0)


@wrong(
    "ids of `torch.long`, positions as floats when all rows are empty",
    breaks="both of `torch.long`",
    name="empty positions are floats",
    subtle=True,
)
def w7(rows):
    longest = max(len(row) for row in rows)
    lacks = [longest - len(row) for row in rows]
    ids = pad([[PAD] * lack + row for row, lack in zip(rows, lacks, strict=True)])
    positions = torch.tensor([[0] * lack + [*range(longest - lack)] for lack in lacks])
    return ids, positions


@wrong(
    "inserts PAD into the rows of the caller",
    breaks="Your function leaves the rows that came in as they are.",
    name="padding inserted in place",
    subtle=True,
)
def w8(rows):
    longest = max(len(row) for row in rows)
    positions = pad([[0] * (longest - len(row)) + [*range(len(row))] for row in rows])
    for row in rows:
        while len(row) < longest:
            row.insert(0, PAD)
    return torch.tensor(rows, dtype=torch.long), positions


@wrong(
    "at least one column",
    breaks="Rows may be empty, and so may all of them: then both tensors are (B, 0).",
    name="at least one column",
    subtle=True,
)
def w9(rows):
    longest = max([1, *map(len, rows)])
    ids = pad([[PAD] * (longest - len(row)) + row for row in rows])
    positions = pad([[0] * (longest - len(row)) + [*range(len(row))] for row in rows])
    return ids, positions


@wrong(
    "positions as bytes, which start anew after 255",
    breaks="The position of a token is the number of tokens that stand before it in"
    " its own row",
    name="positions overflow",
    subtle=True,
)
def w10(rows):
    longest = max(len(row) for row in rows)
    ids = pad([[PAD] * (longest - len(row)) + row for row in rows])
    there = pad([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    before = there.to(torch.uint8).cumsum(1, dtype=torch.uint8) - there.to(torch.uint8)
    return ids, before.long()
