"""pad: rows of ids are filled up to one length."""

import torch

from attention_course.tasks.core import PAD, pad
from attention_labs.lab01_preprocessing.shared import draw_rows, lend
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    close,
    comparable,
    edit,
    error_like,
    same_whole_numbers,
)


def _ragged_rows(g: torch.Generator) -> list[Request]:
    asked = [draw_rows(g, 4, 7, 2), draw_rows(g, 3, 1, 2, 5, 5)]
    # the longest is not the largest
    rows = [[first, *row[1:]] for first, row in zip((5, 4, 10), draw_rows(g, 3, 6, 2))]
    return [Request((rows,)) for rows in (*asked, rows)]


PAD_QUESTION = Question(
    name="pad",
    reference=pad,
    use=lambda pad, rows: lend(pad, [list(row) for row in rows]),
    properties=(
        Property(
            "short rows filled up behind their last id",
            2,
            _ragged_rows,
            same_whole_numbers,
        ),
        Property(
            "rows of one length, a single row, an empty row",
            1,
            lambda g: [Request((draw_rows(g, *n),)) for n in ((4, 4), (6,), (3, 0))],
            same_whole_numbers,
        ),
    ),
    mistakes=(
        Mistake(
            "filled up in front",
            "Padding comes behind the last id, so that every sentence begins in the"
            " first column.",
            PADDING,
            edit(
                pad,
                "*row, *[PAD] * (longest - len(row))",
                "*[PAD] * (longest - len(row)), *row",
            ),
        ),
        Mistake(
            "rows cut off",
            "The longest row says how wide the batch is, not the shortest.",
            made_by=edit(pad, "max(", "min(")
            & edit(pad, "*row, *[PAD] * (longest - len(row))", "*row[:longest]")
            & edit(pad, ", dtype=torch.long", ""),
        ),
        Mistake(
            "one column too many or too few",
            "The longest row needs no filling.",
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 1
                and reply.outputs[0].dim() == 2
                and abs(reply.outputs[0].size(1) - reference.outputs[0].size(1)) == 1
            ),
        ),
        Mistake(
            "columns are sentences",
            "A row of the tensor is a row that came in: (B, T).",
            made_by=edit(pad, "torch.long\n    )", "torch.long\n    ).T"),
        ),
        Mistake(
            "filled up with another id",
            "The id that stands for nothing is PAD.",
            sign=comparable(
                lambda request, reply, reference: (
                    close(
                        reply.outputs[0] * (reference.outputs[0] != PAD),
                        reference.outputs[0],
                    )
                    and not close(reply.outputs[0], reference.outputs[0])
                )
            ),
        ),
        Mistake(
            "the rows in another order",
            "Row b of the tensor is row b of those that came in: whoever sorts by"
            " length loses which is which.",
            sign=comparable(
                lambda request, reply, reference: (
                    sorted(reply.outputs[0].tolist())
                    == sorted(reference.outputs[0].tolist())
                    and not close(reply.outputs[0], reference.outputs[0])
                )
            ),
        ),
        Mistake(
            "the caller's rows are changed",
            "append, extend and += change a list in place, and the caller's list it is:"
            " build new ones.",
            sign=error_like("list that came in was changed"),
        ),
        Mistake(
            "rows still of different lengths",
            "A tensor is a rectangle: torch.tensor wants lists of one length, so fill"
            " them up before.",
            sign=error_like(
                "expected sequence of length|at dim 1|stack expects each"
                " tensor|inhomogeneous"
            ),
        ),
        Mistake(
            "lists returned, where a tensor is meant",
            "Lists of one length become a tensor by torch.tensor.",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "ids are whole numbers",
            "An embedding looks its row up by a whole number: the dtype is torch.long.",
            sign=lambda request, reply, reference: (
                "type 'str'" in reply.error
                or (
                    not reply.error
                    and len(reply.outputs) == 1
                    and reply.outputs[0].dtype != torch.long
                )
            ),
        ),
        *ANYWHERE,
    ),
)
