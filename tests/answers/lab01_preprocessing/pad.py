"""Answers to pad."""

import itertools

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.lab01_preprocessing.texts import draw
from answers.signs import NO_NAME
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import EOS, PAD
from nbjudge.question import Request


@wide("pad")
def any_rows(g):
    for sizes in ((1,), (3,), (1, 2), (5, 0, 2), (2, 2, 2), (9, 4, 7, 1)):
        yield Request(([draw(g, size).tolist() for size in sizes],))


@right("pad")
def one_line(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@right("pad")
def padded_by_loop(rows):
    padded = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded


@right("pad")
def by_torch(rows):
    return pad_sequence(
        [torch.tensor(row, dtype=torch.long) for row in rows],
        batch_first=True,
        padding_value=PAD,
    )


@right("pad")
def by_zip_longest(rows):
    return torch.tensor(
        list(itertools.zip_longest(*rows, fillvalue=PAD)), dtype=torch.long
    ).T


@right("pad")
def by_functional(rows):
    longest = max(map(len, rows))
    return torch.stack(
        [
            F.pad(
                torch.tensor(row, dtype=torch.int64), (0, longest - len(row)), value=PAD
            )
            for row in rows
        ]
    )


@right("pad")
def by_full_and_place(rows):
    padded = torch.full((len(rows), max(len(row) for row in rows)), PAD)
    for b, row in enumerate(rows):
        for t, i in enumerate(row):
            padded[b, t] = i
    return padded


@right("pad")
def by_mask(rows):
    lengths = torch.tensor([len(row) for row in rows])
    padded = lengths.new_zeros(len(rows), int(lengths.max()))
    padded[torch.arange(padded.size(1)) < lengths[:, None]] = torch.tensor(
        sum(rows, [])
    )
    return padded


@right("pad")
def by_cat(rows):
    longest = len(max(rows, key=len))
    rows = [
        torch.cat(
            [torch.LongTensor(row), torch.zeros(longest - len(row), dtype=torch.long)]
        )
        for row in rows
    ]
    return torch.cat([row[None] for row in rows])


@right("pad")
def by_columns(rows):
    columns = [
        [row[t] if t < len(row) else PAD for row in rows]
        for t in range(max(map(len, rows)))
    ]
    return torch.stack([torch.tensor(column) for column in columns], dim=1)


@right("pad")
def by_scatter(rows):
    places = [(b, t) for b, row in enumerate(rows) for t in range(len(row))]
    sizes = (len(rows), max(map(len, rows)))
    ids = torch.tensor([i for row in rows for i in row])
    return torch.zeros(sizes, dtype=torch.long).index_put(
        tuple(torch.tensor(places).T), ids
    )


@right("pad")
def by_copies(rows):
    rows = [list(row) for row in rows]
    longest = max(len(row) for row in rows)
    for row in rows:
        while len(row) < longest:
            row.append(PAD)
    return torch.IntTensor(rows).long()


@wrong("pad", "filled up in front")
def in_front(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*[PAD] * (longest - len(row)), *row] for row in rows])


@wrong("pad", "rows cut off")
def cut_to_the_shortest(rows):
    return torch.tensor(list(zip(*rows))).T


@wrong("pad", "rows cut off")
def cut_to_the_first(rows):
    width = min(len(row) for row in rows)
    return torch.stack([torch.tensor(row)[:width] for row in rows])


@wrong("pad", "filled up with another id")
def with_minus_one(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[-1] * (longest - len(row))] for row in rows])


@wrong("pad", "filled up with another id")
def with_eos(rows):
    return pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=EOS
    ).long()


@wrong("pad", "columns are sentences")
def not_batch_first(rows):
    return pad_sequence([torch.tensor(row) for row in rows])


@wrong("pad", "the caller's rows are changed")
def changed_in_place(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows)


@wrong("pad", "rows still of different lengths")
def one_each(rows):
    return torch.tensor([[*row, PAD] for row in rows])


@wrong("pad", "one column too many or too few")
def one_more(rows):
    longest = max(len(row) for row in rows) + 1
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong("pad", "lists returned, where a tensor is meant")
def lists(rows):
    longest = max(len(row) for row in rows)
    return [[*row, *[PAD] * (longest - len(row))] for row in rows]


@wrong("pad", "ids are whole numbers")
def floats(rows):
    padded = torch.zeros(len(rows), max(map(len, rows)))
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row)
    return padded


@wrong("pad", NO_NAME)
def misspelt(rows):
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])  # noqa: F821


@wrong("pad", "rows still of different lengths")
def longest_by_order(rows):
    longest = len(max(rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


@wrong("pad", "the rows in another order")
def longest_first(rows):
    rows = sorted(rows, key=len, reverse=True)
    return torch.tensor([row + [PAD] * (len(rows[0]) - len(row)) for row in rows])


@wrong("pad", "ids are whole numbers")
def filled_with_the_token(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + ["<pad>"] * (longest - len(row)) for row in rows])
