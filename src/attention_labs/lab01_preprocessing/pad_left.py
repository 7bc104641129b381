"""Question `pad_left`: pad rows of ids at the front, and number each row's tokens.

Padding at the end is in `pad`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_course.tasks import core
from attention_course.tasks.core import PAD
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
    Reply,
    Request,
    close,
    edit,
    of_output,
    same_whole_numbers,
    wrong_in,
)

IDS, PLACES = 0, 1  # what is returned


def pad_left(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Fill rows up with PAD in front, and number the tokens of each from 0."""
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + [*row] for row in rows]
    places = [[0] * (longest - len(row)) + [*range(len(row))] for row in rows]
    return torch.tensor(ids, dtype=torch.long), torch.tensor(places, dtype=torch.long)


def _rows(d: Draw, low: int = 1, high: int = 40, least: int = 1) -> Request:
    """Draw rows of ids, the longest of them anywhere."""
    ids = torch.randint(low, high, (d.B, d.T), generator=d).tolist()
    lengths = draw_lengths(d, d.B, d.T, min(least, d.T))
    return Request(([row[:n] for row, n in zip(ids, lengths)],))


def _rare(d: Draw) -> list[Request]:
    (rows,) = _rows(d).inputs
    row, *others = rows
    return [
        _rows(d, low=PAD, high=PAD + 2, least=0),
        _rows(d, low=PAD, high=PAD + 1),
        _rows(d, low=2**24, high=2**31),
        _rows(d, high=2**14),
        Request(([[PAD] * (d.T + 1), *rows],)),
        Request(([[PAD] * 3, [PAD], [PAD] * 2],)),
        Request(([row, [7] * 2100],), about="a row of 2100 ids", variation="long"),
        Request((rows,), before=(Request(([row[::-1] for row in rows],)),)),
        Request(([row, [], *others, row, []],)),
        Request(([row, row],)),
    ]


def _right_on_tokens(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether ids are right, and positions wherever a token stands."""
    rows, wanted = request.inputs[0], reference.outputs[PLACES]
    width = wanted.size(1)
    tokens = [[t >= width - len(row) for t in range(width)] for row in rows]
    return wrong_in(PLACES, IDS)(request, reply, reference) and close(
        reply.outputs[PLACES] * torch.tensor(tokens), wanted
    )


BATTERY = Battery(
    PLAIN,
    _rows,
    {
        "B": Axis("rows", long=300),
        "T": Axis("ids in the longest row", least=0, long=1100),
    },
)
FILLED, NUMBERED = (
    "[PAD] * (longest - len(row)) + [*row]",
    "[0] * (longest - len(row)) + [*range(len(row))]",
)
NUMBERED_IN_FRONT = edit(
    pad_left, NUMBERED, "[*range(len(row))] + [0] * (longest - len(row))"
)

QUESTION = Question(
    name="pad_left",
    reference=pad_left,
    use=lambda pad_left, rows: pad_left(rows),
    stand_ins={"pad": core.pad},
    battery=BATTERY,
    requirements={
        "front": "Put `PAD` in front of each row until the row is as long as the"
        " longest one.",
        "position": "The position of a token is the number of tokens before it in its"
        " own row: 0 for the first token, 1 for the second. The position of padding is"
        " 0.",
        "ids": "A row may contain the id of `PAD` as one of its tokens. Such a token"
        " has a position like any other token, so the ids alone do not show where the"
        " padding is.",
        "empty": "There is at least one row, and a row may be empty. If all rows are"
        " empty, both tensors have the shape (B, 0).",
        "lists": "Do not change the inputs.",
        "rows": "rows: a list of lists of ids, one for each sentence.",
        "returns": "The ids (B, T) and the positions (B, T), both of `torch.long`. T is"
        " the length of the longest row.",
    },
    properties=(
        BATTERY.numbers(
            "every row ends in the last column",
            1,
            of_output(IDS, same_whole_numbers),
            ("front", "rows", "returns"),
            gradients=False,
        ),
        BATTERY.line(
            "the position of every token in its own row, and 0 on padding",
            1,
            judge=of_output(PLACES, same_whole_numbers),
            checks=("position", "returns"),
        ),
        BATTERY.edges(
            1,
            same_whole_numbers,
            checks=("ids", "empty", "returns"),
            claim="edges: the id of PAD as a token; rows of one length, one row, many;"
            " an empty row, all of them; large ids, long rows, repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, checks=("lists",)),
    ),
    mistakes=(
        Mistake(
            "positions assume padding at the end",
            "The padding comes first, and the first token after it has position 0.",
            PADDING,
            NUMBERED_IN_FRONT,
        ),
        Mistake(
            "padding added at the end",
            "Here each row ends in the last column, so padding comes before its first"
            " id.",
            PADDING,
            (
                edit(pad_left, FILLED, "[*row] + [PAD] * (longest - len(row))"),
                edit(pad_left, FILLED, "[*row] + [PAD] * (longest - len(row))")
                & NUMBERED_IN_FRONT,
            ),
        ),
        Mistake(
            "the rows are reversed",
            "Padding in front moves a row to the right. Its ids keep their order.",
            PADDING,
            edit(pad_left, "+ [*row]", "+ [*row][::-1]"),
        ),
        Mistake(
            "columns counted instead of positions",
            "The number of a column depends on the longest row of the batch. Count the"
            " tokens that stand before it in the same row.",
            PADDING,
            (
                edit(pad_left, NUMBERED, "[*range(longest)]"),
                edit(pad_left, "[*range(len(row))]", "[*range(longest)][-len(row) :]"),
            ),
        ),
        Mistake(
            "positions count from 1",
            "No token stands before the first one: its position is 0.",
            PADDING,
            edit(pad_left, "range(len(row))", "range(1, len(row) + 1)"),
        ),
        Mistake(
            "positions count from the end",
            "The position says how many tokens stand before a token, not how many come"
            " after it.",
            PADDING,
            edit(pad_left, "range(len(row))", "range(len(row))][::-1"),
        ),
        Mistake(
            "the wrong position on padding",
            "Positions are right where a token stands. On padding, the position is 0.",
            PADDING,
            (
                edit(pad_left, "[0] *", "[-1] *"),
                edit(
                    pad_left,
                    NUMBERED,
                    "[*range(len(row) - longest, len(row))]",
                ),
            ),
            _right_on_tokens,
        ),
        Mistake(
            "a repeated id has the position of its first place",
            "row.index(i) finds the first place of an id. enumerate counts the places.",
            PADDING,
            edit(pad_left, "[*range(len(row))]", "[row.index(i) for i in row]"),
        ),
        Mistake(
            "empty rows become float tensors",
            "torch.tensor of a list without numbers is float32, so give"
            " dtype=torch.long.",
            made_by=edit(
                pad_left, "torch.tensor(ids, dtype=torch.long)", "torch.tensor(ids)"
            )
            & edit(
                pad_left,
                "torch.tensor(places, dtype=torch.long)",
                "torch.tensor(places)",
            ),
        ),
        Mistake(
            "padding is inferred from the ids",
            "A row may contain the id of PAD as a token. Only the length of the row"
            " says how many tokens it has.",
            PADDING,
            edit(
                pad_left,
                "torch.tensor(places, dtype=torch.long)",
                "((torch.tensor(ids) != PAD).cumsum(1) - 1).clamp(min=0)",
            ),
            lambda request, reply, reference: (
                wrong_in(PLACES, IDS)(request, reply, reference)
                and any(PAD in row for row in request.inputs[0])
            ),
        ),
        Mistake(
            "large ids are rounded",
            "A float32 has 24 bits for its digits, so a large id that is stored as a"
            " float may become another id. Create the tensor with whole numbers from"
            " the start.",
            made_by=edit(
                pad_left,
                "torch.tensor(ids, dtype=torch.long)",
                "torch.tensor(ids, dtype=torch.float).long()",
            ),
        ),
        Mistake(
            "empty rows are left out",
            "A row without ids becomes a row of padding. Every row that came in keeps"
            " its place.",
            PADDING,
            edit(pad_left, "[*row] for row in rows]", "[*row] for row in rows if row]")
            & edit(pad_left, "))] for row in rows]", "))] for row in rows if row]"),
        ),
        *OF_ROWS,
        *ANYWHERE,
    ),
)
