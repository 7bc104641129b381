"""pad: rows of ids are filled up to one length."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.tasks import core
from attention_course.tasks.core import PAD, SPECIALS
from attention_labs.lab01_preprocessing.batches import V, draw_ids
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    close,
    comparable,
    error_like,
    same_whole_numbers,
)


def _use_pad(pad: Callable[..., Any], ids: Tensor, sizes: Tensor) -> Any:
    rows = [row[:size] for row, size in zip(ids.tolist(), sizes.tolist())]
    before = [list(row) for row in rows]
    padded = pad(rows)
    if rows != before:
        raise ValueError("the rows that came in were changed")
    return padded


def _rows(g: torch.Generator, sizes: Sequence[int]) -> Request:
    return Request((draw_ids(g, len(sizes), max(sizes)), torch.tensor(sizes)))


def _ragged_rows(g: torch.Generator) -> Iterator[Request]:
    yield _rows(g, (4, 7, 2))
    yield _rows(g, (3, 1, 2, 5, 5))
    ids = draw_ids(g, 3, 6)
    # the longest is not the largest
    ids[:, 0] = torch.tensor([len(SPECIALS) + 1, len(SPECIALS), V - 1])
    yield Request((ids, torch.tensor([3, 6, 2])))


def _other_rows(g: torch.Generator) -> Iterator[Request]:
    yield _rows(g, (4, 4))
    yield _rows(g, (6,))
    yield _rows(g, (3, 0))


PAD_QUESTION = Question(
    name="pad",
    reference=core.pad,
    use=_use_pad,
    plain=True,
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
            _other_rows,
            same_whole_numbers,
        ),
    ),
    mistakes=(
        Mistake(
            "filled up in front",
            "Padding comes behind the last id, so that every sentence begins in the"
            " first column.",
            PADDING,
            lambda rows: torch.tensor(
                [[PAD] * (max(map(len, rows)) - len(row)) + row for row in rows]
            ),
        ),
        Mistake(
            "rows cut off",
            "The longest row says how wide the batch is, not the shortest.",
            made_by=lambda rows: torch.tensor(
                [row[: min(map(len, rows))] for row in rows]
            ),
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
            made_by=lambda rows: core.pad(rows).T,
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
            sign=error_like("rows that came in were changed"),
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
