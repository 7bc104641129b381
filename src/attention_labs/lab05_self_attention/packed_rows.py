"""packed_rows: several sentences in one row, and none of them notices."""

from functools import partial

import torch
from torch import Tensor

from attention_labs.lab05_self_attention.shared import EVERYWHERE, LEAVES_OUT, B, T
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    same_whole_numbers,
    somewhere,
    wrong_in,
)

DIVISIBLE = 60 * 1021 * 1024
ORDER = "11_self_attention.html#self-attention-order"


def packed_rows(sentence: Tensor) -> tuple[Tensor, Tensor]:
    """Compute which token may attend to which, and each token's position."""
    same = sentence[:, :, None] == sentence[:, None, :]
    mask = same & (sentence > 0)[:, None]
    return mask, mask.tril(-1).sum(-1)


def _rows(d: Draw, least: int = 1, share: float = 0.35) -> Request:
    """Draw rows, each with new numbers in any order, and padding at its end.

    Args:
        d: the lengths.
        least: the fewest tokens of a row.
        share: how often a token begins a sentence.
    """
    begins = torch.rand(d.B, d.T, generator=d) < share
    numbers = [torch.randperm(2 * d.T + 9, generator=d) + 1 for _ in range(d.B)]
    sentence = torch.stack(numbers).gather(1, begins.long().cumsum(1))
    tokens = torch.randint(least, d.T + 1, (d.B, 1), generator=d)
    return Request((sentence.masked_fill(torch.arange(d.T) >= tokens, 0),))


def _rare_rows(d: Draw) -> list[Request]:
    """Draw rows of one sentence, of sentences of one token, and of padding alone.

    Rows that follow each other have one number, and numbers are huge.
    """
    ways = (1, 0.0), (1, 1.0), (d.T, 0.35), (0, 0.35)
    (rows,) = _rows(d).inputs
    huge = torch.where(rows > 0, rows + 2**40, 0)
    # their differences have many divisors: a table of some size mixes them up
    apart = torch.where(rows > 0, (rows - 1) * DIVISIBLE + 1, 0)
    others = 0 * rows, 0 * rows + 1, huge, apart
    return [*(_rows(d, *way) for way in ways), *(Request((x,)) for x in others)]


BATTERY = Battery(
    FUNCTION,
    _rows,
    {"B": B, "T": T},
    leaves_out={
        **LEAVES_OUT,
        "large": "the numbers of sentences are whole, and only compared",
        "float32": "no input is a floating-point number",
        "bfloat16": "no input is a floating-point number",
        "long in bfloat16": "no input is a floating-point number",
    },
)

change = partial(edit, packed_rows)
PLACES = "mask.tril(-1).sum(-1)"
ANEW = (
    "The position of a token is the number of tokens of the same sentence that stand"
    " before it."
)
NONE_OF_IT = "Padding attends to nothing, and nothing attends to it."

PACKED_ROWS = Question(
    name="packed_rows",
    reference=packed_rows,
    use=lambda packed, sentence: packed(sentence),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "own": "A token may attend to all tokens of its own sentence: to earlier"
        " ones, to later ones and to itself. It may attend to nothing else.",
        "anew": "Positions count from 0, and they start again from 0 in each sentence.",
        "numbers": "Each sentence of a row has its own number, which can be any"
        " number from 1 on. The numbers need not increase from left to right. The"
        " tokens of a sentence stand side by side.",
        "padding": "The number 0 means padding, which stands at the end of a row. A"
        " row may consist of padding only. Padding attends to nothing, nothing"
        " attends to it, and its positions are 0.",
        "sentence": "sentence: (B, T), of dtype long: the number of each token's"
        " sentence.",
        "returns": "A mask (B, T, T), of dtype bool, True = may attend; and positions"
        " (B, T), of dtype long.",
    },
    properties=(
        BATTERY.numbers(
            "each token attends to its own sentence; positions start again from 0 in"
            " each",
            2,
            same_whole_numbers,
            ("own", "anew", "numbers", "padding", "sentence", "returns"),
            False,
        ),
        BATTERY.edges(
            1,
            same_whole_numbers,
            ("lengths", "numbers", "padding", "returns"),
            "rows of one sentence, of sentences of one token, of padding alone; edges:"
            " length one, equal and great lengths, a second call",
            _rare_rows,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "padding attends to padding",
            NONE_OF_IT + " Two zeros are equal, but they do not belong to a sentence.",
            MASK,
            change(" & (sentence > 0)[:, None]", ""),
        ),
        Mistake(
            "no later token may be asked",
            "A token may attend to its whole sentence, also to what comes after it.",
            MASK,
            change("return mask,", "return mask.tril(),"),
        ),
        Mistake(
            "a token does not see itself",
            "A token may attend to all tokens of its sentence, and it is one of them.",
            MASK,
            change("return mask,", "return mask.tril(-1) | mask.triu(1),"),
        ),
        Mistake(
            "earlier sentences are seen, too",
            "A token may attend to its own sentence alone: compare with ==.",
            MASK,
            change("] == s", "] >= s"),
        ),
        Mistake(
            "the mask inside out",
            "In this course True means: may attend.",
            MASK,
            change("return mask,", "return ~mask,"),
        ),
        Mistake(
            "positions count from 1",
            "The first token of a sentence has position 0.",
            ORDER,
            change("tril(-1)", "tril()"),
        ),
        Mistake(
            "positions go on through the row",
            ANEW,
            ORDER,
            change(PLACES, "(sentence > 0).cumsum(-1).sub(1).clamp(min=0)"),
        ),
        Mistake(
            "positions count from the end",
            ANEW,
            ORDER,
            change("tril(-1)", "triu(1)"),
        ),
        Mistake(
            "the length of the sentence, not a position",
            ANEW,
            ORDER,
            (change(PLACES, "mask.sum(-1)"), change(PLACES, "mask.sum(-1) - 1")),
        ),
        Mistake(
            "a mask of numbers",
            "A mask is made of True and False: its dtype is torch.bool.",
            MASK,
            change("return mask,", "return mask.long(),"),
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].dtype != torch.bool
            ),
        ),
        Mistake(
            "positions of another dtype",
            "A position is a whole number: its dtype is torch.long.",
            "",
            sign=lambda request, reply, reference: (
                len(reply.outputs) > 1 and reply.outputs[1].dtype != torch.long
            ),
        ),
        *ANYWHERE,
        Mistake(
            "other positions",
            ANEW + " On padding it is 0.",
            ORDER,
            sign=wrong_in(1, 0),
        ),
        Mistake(
            "something of another sentence is seen",
            "Both tokens have to have the same number. " + NONE_OF_IT,
            MASK,
            sign=somewhere(0, lambda given, wanted: given > wanted),
        ),
        Mistake(
            "something of the own sentence is not seen",
            "A token may attend to all tokens of its sentence, wherever they stand.",
            MASK,
            sign=somewhere(0, lambda given, wanted: given < wanted),
        ),
    ),
)
