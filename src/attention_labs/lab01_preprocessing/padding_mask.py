"""Question `padding_mask`: mark the positions that hold a token rather than padding."""

import torch

from attention_course.masks import padding_mask
from attention_labs.lab01_preprocessing.shared import draw_lengths
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    same_whole_numbers,
)


def _lengths(d: Draw) -> Request:
    """Draw lengths; one sentence is as long as the batch is wide."""
    return Request((torch.tensor(draw_lengths(d, d.B, d.S, least=1)), d.S))


def _rare(d: Draw) -> list[Request]:
    lengths, size = _lengths(d).inputs
    empty = lengths.index_fill(0, torch.tensor(d.number(0, d.B - 1)), 0)
    wide = size + d.number(1, 4)
    asked = ((lengths, wide), (empty, wide), (empty, size), (lengths[:1], wide))
    every, mixed = d.number(200, 400), lengths.flip(0)
    return [
        *(Request(x) for x in (*asked, (0 * lengths, size), (lengths[:1], 2 * wide))),
        Request((torch.arange(every + 1), every)),
        Request((lengths, size), before=(Request((mixed, size)),)),
    ]


def _any(d: Draw) -> list[Request]:
    return [_lengths(d), _rare(d)[1]]


BATTERY = Battery(
    FUNCTION,
    _any,
    {
        "B": Axis("sentences", long=300),
        "S": Axis("positions", long=3000),
    },
    leaves_out={
        "zero": "a batch has a sentence and a position",
        "in front": "lengths have one axis, the sentences",
        "large": "lengths are whole numbers",
        "float32": "lengths are whole numbers",
        "bfloat16": "lengths are whole numbers",
        "long in bfloat16": "lengths are whole numbers",
    },
)

QUESTION = Question(
    name="padding_mask",
    reference=padding_mask,
    use=lambda mask, lengths, size: mask(lengths, size),
    battery=BATTERY,
    requirements={
        "says": "A mask says so: the mask is `True` on the tokens of a sentence and"
        " `False` on its padding.",
        "lengths": "lengths: (B,), of `torch.long`, number of tokens in each sentence,"
        " which may be 0.",
        "size": "size: S, the length of the padded rows; the longest sentence may be"
        " shorter.",
        "unchanged": "Do not change the inputs.",
        "returns": "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a"
        " token.",
    },
    properties=(
        BATTERY.line(
            "True on tokens, False on padding, as (B, 1, S) of dtype bool",
            1,
            _lengths,
            same_whole_numbers,
            checks=("says", "lengths", "returns"),
        ),
        BATTERY.edges(
            1,
            same_whole_numbers,
            checks=("says", "lengths", "size"),
            claim="edges: batches padded wider, an empty sentence, a single sentence,"
            " one position, many; repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, checks=("unchanged", "returns")),
    ),
    mistakes=(
        Mistake(
            "the mask is inverted",
            "Here True means a token, which may be attended to. In some libraries True"
            " means padding.",
            MASK,
            edit(padding_mask, "<", ">="),
        ),
        Mistake(
            "one padding position counts as a token",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n"
            " - 1.",
            MASK,
            edit(padding_mask, "<", "<="),
        ),
        Mistake(
            "the last token counts as padding",
            "Positions count from 0: a sentence of n tokens has the positions 0 to n"
            " - 1.",
            MASK,
            edit(padding_mask, "positions <", "positions + 1 <"),
        ),
        Mistake(
            "the query axis is missing",
            "All queries share one row: the mask is (B, 1, S).",
            MASK,
            edit(padding_mask, ")[:, None]", ")"),
        ),
        Mistake(
            "width of the longest sentence instead of size",
            "A batch may be wider than its longest sentence: its width is `size`.",
            PADDING,
            edit(padding_mask, "arange(size", "arange(int(lengths.max())"),
        ),
        Mistake(
            "an empty sentence gets one token",
            "A length of 0 is allowed. Then every position is padding.",
            MASK,
            edit(padding_mask, "lengths[:, None]", "lengths.clamp(min=1)[:, None]"),
        ),
        Mistake(
            "the first length is used for all sentences",
            "Each sentence has a length of its own: the first axis is B.",
            MASK,
            edit(padding_mask, "lengths[:, None]", "lengths[:1, None]"),
        ),
        Mistake(
            "a separate mask row for every query",
            "All queries may attend to the same positions, so their axis has length"
            " one. It is expanded where that is needed.",
            MASK,
            edit(padding_mask, ")[:, None]", ")[:, None].expand(-1, size, -1)"),
        ),
        Mistake(
            "numbers instead of True and False",
            "A comparison gives torch.bool, which `~` and `masked_fill` need.",
            MASK,
            edit(padding_mask, ")[:, None]", ")[:, None].long()"),
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 1
                and reply.outputs[0].dtype != torch.bool
            ),
        ),
        *ANYWHERE,
    ),
)
