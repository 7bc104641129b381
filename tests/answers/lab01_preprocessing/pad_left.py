"""Answers to pad_left."""

import sys

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong, wrong_edits
from answers.lab01_preprocessing.shared import draw
from answers.signs import NO_NAME, NOTHING, ORDER, TOO_MUCH
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import PAD, pad
from attention_labs.lab01_preprocessing import pad_left as question
from nbjudge import Request, edit


@wide("pad_left")
def any_rows(g):
    for sizes in ((1,), (3,), (1, 2), (5, 0, 2), (2, 2, 2), (9, 4, 7, 1), (0, 0)):
        yield Request(([draw(g, size, low=0).tolist() for size in sizes],))


@right("pad_left")
def by_lists(rows):
    longest = max(map(len, rows))
    ids, positions = [], []
    for row in rows:
        in_front = longest - len(row)
        ids.append([PAD] * in_front + list(row))
        positions.append([0] * in_front + list(range(len(row))))
    return torch.LongTensor(ids), torch.LongTensor(positions)


@right("pad_left")
def turned_around_twice(rows):
    counted = [[*range(len(row))][::-1] for row in rows]
    return pad([row[::-1] for row in rows]).flip(1), pad(counted).flip(1)


@right("pad_left")
def placed_row_by_row(rows):
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), PAD)
    positions = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        if row:
            ids[b, -len(row) :] = torch.tensor(row)
            positions[b, -len(row) :] = torch.arange(len(row))
    return ids, positions


@right("pad_left")
def columns_less_padding(rows):
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    columns = torch.arange(longest) - (longest - lengths)[:, None]
    ids = [[PAD] * (longest - len(row)) + row for row in rows]
    return torch.tensor(ids, dtype=torch.long), columns.clamp(min=0)


@right("pad_left")
def counted_up(rows):
    longest = max(len(row) for row in rows)
    token = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
    token = torch.tensor(token, dtype=torch.long)
    ids = [
        F.pad(torch.tensor(x).long(), (longest - len(x), 0), value=PAD) for x in rows
    ]
    return torch.stack(ids), (token.cumsum(1) - 1) * token


@right("pad_left")
def by_torch(rows):
    back = [torch.tensor(row[::-1], dtype=torch.long) for row in rows]
    ids = pad_sequence(back, batch_first=True, padding_value=PAD).flip(-1)
    places = [torch.arange(len(row) - 1, -1, -1) for row in rows]
    return ids, pad_sequence(places, batch_first=True).flip(-1)


@right("pad_left")
def concatenated(rows):
    longest = len(max(rows, key=len))
    ids, positions = [], []
    for row in rows:
        filling = torch.zeros(longest - len(row), dtype=torch.long)
        ids.append(torch.cat([filling + PAD, torch.tensor(row, dtype=torch.long)]))
        positions.append(torch.cat([filling, torch.arange(len(row))]))
    return torch.stack(ids), torch.stack(positions)


@right("pad_left")
def masked(rows):
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    longest = int(lengths.max())
    token = torch.arange(longest) >= longest - lengths
    ids = torch.zeros(token.shape, dtype=torch.long)
    ids[token] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return ids, torch.where(token, token.long().cumsum(1) - 1, 0)


@right("pad_left")
def rolled(rows):
    behind = pad(rows)
    width = behind.size(1)
    ids = [x.roll(width - len(row), 0) for x, row in zip(behind, rows)]
    places = [torch.arange(width).sub(width - len(row)).relu() for row in rows]
    return torch.stack(ids), torch.stack(places)


@right("pad_left")
def gathered(rows):
    print("rows", len(rows), file=sys.stderr)
    behind, lengths = pad(rows), torch.tensor([len(row) for row in rows])
    places = torch.arange(behind.size(1)) - behind.size(1) + lengths[:, None]
    ids = behind.gather(1, places.clamp(min=0))
    return ids.masked_fill(places < 0, PAD), places * (places > 0)


@right("pad_left")
def by_columns(rows):
    longest = max(len(row) for row in rows)
    ids = torch.empty(len(rows), longest, dtype=torch.long)
    positions = torch.empty_like(ids)
    for b, row in enumerate(rows):
        for t in range(longest):
            place = t - longest + len(row)
            ids[b, t] = row[place] if place >= 0 else PAD
            positions[b, t] = max(place, 0)
    return ids, positions


@wrong("pad_left", "the rows are reversed")
def flipped_once(rows):
    _, positions = by_lists(rows)
    return pad(rows).flip(1), positions


@wrong("pad_left", "padding is inferred from the ids")
def counted_by_ids(rows):
    ids, _ = by_lists(rows)
    token = ids != PAD
    return ids, (token.cumsum(1) - 1) * token


@wrong("pad_left", "the wrong position on padding")
def below_zero(rows):
    ids, _ = by_lists(rows)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.size(1)) - ids.size(1) + lengths[:, None]


@wrong("pad_left", "the input rows are changed")
def filled_in_place(rows):
    longest = max(len(row) for row in rows)
    positions = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    for row in rows:
        while len(row) < longest:
            row.insert(0, PAD)
    return torch.tensor(rows).long(), torch.tensor(positions).long()


@wrong("pad_left", "columns counted instead of positions")
def numbered_by_columns(rows):
    ids, _ = by_lists(rows)
    return ids, torch.arange(ids.size(1)).expand(ids.shape)


REFERENCE = question.pad_left
wrong_edits(
    "pad_left",
    positions_first=(
        edit(
            REFERENCE,
            "return torch.tensor(ids, dtype=torch.long), "
            "torch.tensor(places, dtype=torch.long)",
            "return torch.tensor(places).long(), torch.tensor(ids).long()",
        ),
        ORDER,
    ),
    ids_alone=(
        edit(REFERENCE, ", torch.tensor(places, dtype=torch.long)", ""),
        TOO_MUCH,
    ),
    lists=(
        edit(
            REFERENCE,
            "torch.tensor(ids, dtype=torch.long), "
            "torch.tensor(places, dtype=torch.long)",
            "ids, places",
        ),
        "lists returned instead of a tensor",
    ),
    floats=(
        edit(REFERENCE, "(places, dtype=torch.long)", "(places, dtype=torch.float)"),
        "the ids are not of dtype torch.long",
    ),
    not_filled=(
        edit(REFERENCE, "[PAD] * (longest - len(row)) + [*row]", "[*row]"),
        "rows of different lengths in one tensor",
    ),
    from_one=(
        edit(REFERENCE, "range(len(row))", "range(1, 1 + len(row))"),
        "positions count from 1",
    ),
    half_of_the_digits=(
        edit(REFERENCE, "(places, dtype=torch.long)", "(places).half().long()"),
    ),
    misspelt=(edit(REFERENCE, "= max(", "= maximum("), NO_NAME),
    not_returned=(edit(REFERENCE, "return ", ""), NOTHING),
)
