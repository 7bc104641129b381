"""Question `pad`: pad rows of ids at the end, to the length of the longest row.

Padding at the front is in `pad_left`.
"""

import torch

from attention_course.tasks.core import PAD, pad
from attention_labs.lab01_preprocessing.shared import OF_ROWS, draw_lengths
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    PLAIN,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    close,
    comparable,
    edit,
    same_whole_numbers,
)


def _rows(d: Draw, low: int = 1, high: int = 40, least: int = 1) -> Request:
    """Draw rows of ids; the longest is seldom the first, nor that of the largest."""
    ids = torch.randint(low, high, (d.B, d.T), generator=d).tolist()
    lengths = draw_lengths(d, d.B, d.T, min(least, d.T))
    return Request(([row[:n] for row, n in zip(ids, lengths)],))


def _rare(d: Draw) -> list[Request]:
    (rows,) = _rows(d).inputs
    row, *others = rows
    return [
        _rows(d, low=PAD, high=PAD + 2, least=0),
        _rows(d, low=2**24, high=2**31),
        _rows(d, high=2**14),
        Request(([[PAD] * (d.T + 1), *rows],)),
        Request(([[PAD] * 3, [PAD], [PAD] * 2],)),
        Request(([row, [7] * 2100],), about="a row of 2100 ids", variation="long"),
        Request((rows,), before=(Request(([row[::-1] for row in rows],)),)),
        Request(([row, [], *others, row, []],)),
        Request(([[], *rows],)),
        Request(([row, row],)),
        Request(([[*range(1, d.T + 2), PAD, PAD], *rows],)),
    ]


BATTERY = Battery(
    PLAIN,
    _rows,
    {
        "B": Axis("rows", long=300),
        "T": Axis("ids in the longest row", least=0, long=1100),
    },
)

ROWS = """torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )"""

QUESTION = Question(
    name="pad",
    reference=pad,
    use=lambda pad, rows: pad(rows),
    battery=BATTERY,
    requirements={
        "filled": "Write `pad`, which appends `PAD` to each row of ids until the row"
        " is as long as the longest one.",
        "empty": "There is at least one row, and a row may be empty. If all rows are"
        " empty, return a tensor of shape (B, 0).",
        "lists": "Do not change the inputs.",
        "returns": "Append PAD to lists of ids: a tensor (B, T) of whole numbers"
        " (`torch.long`).",
    },
    properties=(
        BATTERY.numbers(
            "short rows are filled up after their last id",
            1,
            same_whole_numbers,
            checks=("filled", "returns"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            same_whole_numbers,
            checks=("filled", "empty", "returns"),
            claim="edges: rows of one length, one row, many; an empty row, all of"
            " them; large ids, long rows, repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, checks=("lists",)),
    ),
    mistakes=(
        Mistake(
            "padding added in front",
            "Padding comes after the last id, so that every sentence begins in the"
            " first column.",
            PADDING,
            edit(
                pad,
                "*row, *[PAD] * (longest - len(row))",
                "*[PAD] * (longest - len(row)), *row",
            ),
        ),
        Mistake(
            "rows are truncated",
            "The batch is as wide as its longest row, not its shortest.",
            made_by=edit(pad, "max(", "min(")
            & edit(pad, "*row, *[PAD] * (longest - len(row))", "*row[:longest]"),
            sign=lambda request, reply, reference: (
                len(reply.outputs) == 1
                and reply.outputs[0].dim() == 2
                and reply.outputs[0].size(1) < reference.outputs[0].size(1) - 1
                and close(
                    reply.outputs[0],
                    reference.outputs[0][:, : reply.outputs[0].size(1)],
                )
            ),
        ),
        Mistake(
            "one column too many or too few",
            "The longest row needs no filling.",
            made_by=edit(
                pad, "max(len(row) for row in rows)", "max(1, *map(len, rows))"
            ),
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 1
                and reply.outputs[0].dim() == 2
                and abs(reply.outputs[0].size(1) - reference.outputs[0].size(1)) == 1
            ),
        ),
        Mistake(
            "the result is transposed",
            "A row of the tensor is a row that came in: (B, T).",
            made_by=edit(pad, "torch.long\n    )", "torch.long\n    ).T"),
        ),
        Mistake(
            "filled up with the wrong id",
            "The id that stands for nothing is PAD.",
            sign=comparable(
                lambda request, reply, reference: (
                    close(
                        reply.outputs[0] * (reference.outputs[0] != PAD),
                        reference.outputs[0],
                    )
                    and (
                        reply.outputs[0][reference.outputs[0] == PAD].unique() != PAD
                    ).tolist()
                    == [True]
                )
            ),
        ),
        Mistake(
            "large ids are rounded",
            "A float32 has 24 bits for its digits, so a large id that is stored as a"
            " float may become another id. Create the tensor with whole numbers from"
            " the start.",
            made_by=edit(pad, "torch.long\n    )", "torch.float\n    ).long()"),
        ),
        Mistake(
            "empty rows are left out",
            "A row without ids becomes a row of padding. Every row that came in keeps"
            " its place.",
            PADDING,
            edit(pad, "in rows]", "in rows if len(row)]"),
        ),
        Mistake(
            "the rows in the wrong order",
            "Row b of the tensor must be row b of the input, so do not sort the rows"
            " by length.",
            sign=comparable(
                lambda request, reply, reference: (
                    sorted(reply.outputs[0].tolist())
                    == sorted(reference.outputs[0].tolist())
                    and not close(reply.outputs[0], reference.outputs[0])
                )
            ),
        ),
        Mistake(
            "empty rows become a float tensor",
            "torch.tensor of a list without numbers is float32, so give"
            " dtype=torch.long.",
            made_by=(
                edit(pad, "torch.long", "None"),
                edit(
                    pad,
                    ROWS,
                    "torch.nn.utils.rnn.pad_sequence(\n"
                    "        [torch.tensor(row) for row in rows], True, PAD\n"
                    "    )",
                ),
            ),
        ),
        Mistake(
            "the ids have 32 bits",
            "The dtype of ids is torch.long, which has 64 bits.",
            made_by=edit(pad, "torch.long", "torch.int32"),
        ),
        *OF_ROWS,
        *ANYWHERE,
    ),
)
