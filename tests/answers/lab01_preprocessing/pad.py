"""Answers to pad."""

import itertools

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong_edits
from answers.lab01_preprocessing.shared import draw
from answers.signs import NO_NAME
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks import core
from attention_course.tasks.core import PAD
from nbjudge import Request, edit


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
    columns = list(itertools.zip_longest(*rows, fillvalue=PAD))
    return torch.tensor(columns, dtype=torch.long).reshape(-1, len(rows)).T


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
        sum(rows, []), dtype=torch.long
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
    none = torch.zeros(len(rows), 0, dtype=torch.long)
    return torch.cat([none, *(torch.tensor(x)[:, None] for x in columns)], dim=1)


@right("pad")
def by_scatter(rows):
    places = [(b, t) for b, row in enumerate(rows) for t in range(len(row))]
    sizes = (len(rows), max(map(len, rows)))
    ids = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return torch.zeros(sizes, dtype=torch.long).index_put(
        tuple(torch.tensor(places, dtype=torch.long).reshape(-1, 2).T), ids
    )


@right("pad")
def by_copies(rows):
    rows = [list(row) for row in rows]
    longest = max(len(row) for row in rows)
    for row in rows:
        while len(row) < longest:
            row.append(PAD)
    return torch.IntTensor(rows).long()


FILLED = "*row, *[PAD] * (longest - len(row))"
ROWS = f"[[{FILLED}] for row in rows], dtype=torch.long\n    )"
WHOLE, OTHER = "the ids are not of dtype torch.long", "filled up with the wrong id"
RAGGED = "rows of different lengths in one tensor"
wrong_edits(
    "pad",
    cut_to_the_shortest=(
        edit(core.pad, ROWS, "list(zip(*rows)), dtype=torch.long).T"),
        "rows are truncated",
    ),
    with_minus_one=(edit(core.pad, "PAD", "-1"), OTHER),
    with_eos=(edit(core.pad, "PAD", "EOS"), OTHER),
    changed_in_place=(
        edit(core.pad, f"[{FILLED}]", "row.__iadd__([PAD] * (longest - len(row)))"),
        "the input rows are changed",
    ),
    one_each=(edit(core.pad, FILLED, "*row, PAD"), RAGGED),
    longest_by_order=(
        edit(core.pad, "max(len(row) for row in rows)", "len(max(rows))"),
        RAGGED,
    ),
    one_more=(edit(core.pad, "max(", "1 + max("), "one column too many or too few"),
    lists=(
        edit(core.pad, "torch.tensor(", "list(")
        & edit(core.pad, ", dtype=torch.long", ""),
        "lists returned instead of a tensor",
    ),
    floats=(edit(core.pad, "torch.long", "torch.float"), WHOLE),
    filled_with_the_token=(
        edit(core.pad, "PAD", "'<pad>'") & edit(core.pad, ", dtype=torch.long", ""),
        WHOLE,
    ),
    zeros_taken_for_nothing=(
        edit(
            core.pad,
            "max(len(row) for row in rows)",
            "max(map(len, filter(any, rows)))",
        ),
    ),
    nothing_if_all_are_zero=(
        edit(
            core.pad,
            "in rows]",
            "in (rows if any(map(any, rows)) else [[]] * len(rows))]",
        )
        & edit(
            core.pad,
            "max(len(row) for row in rows)",
            "max(len(row) * any(map(any, rows)) for row in rows)",
        ),
    ),
    cut=(
        edit(core.pad, "[*row, *", "[*row[:2048], *")
        & edit(
            core.pad, "max(len(row) for row in rows)", "min(2048, max(map(len, rows)))"
        ),
        "wrong for long inputs",
    ),
    misspelt=(edit(core.pad, "longest - ", "longst - "), NO_NAME),
    longest_first=(
        edit(core.pad, "in rows]", "in sorted(rows, key=len, reverse=True)]"),
        "the rows in the wrong order",
    ),
)
