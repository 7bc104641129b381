"""Question `packed_rows`: mask and positions for several sentences in one row."""

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


def _round_numbers(d: Draw) -> Tensor:
    """Draw rows of numbers that differ by powers of 10 or of 2, and of powers of 2.

    In 32 bits, products of these powers are all zero. Between the rows are rows of one
    sentence, whose number is as far from theirs.
    """
    tens = torch.tensor([10**9, *(10**n + 1 for n in range(2, 9))])
    twos = torch.tensor([2**n + 1 for n in (8, 10, 12, 16, 20, 24, 28)] + [0])
    tens, one = tens[torch.randperm(8, generator=d)], torch.ones_like(tens)
    powers = torch.tensor([2**n for n in range(16, 30, 2)] + [0])
    return torch.stack([tens, one, twos, one, powers]).repeat_interleave(2, dim=1)


def _rare_rows(d: Draw) -> list[Request]:
    """Draw rows of one sentence, of sentences of one token, and of padding alone.

    Rows that follow each other have one number, and numbers are huge, or far apart.
    """
    ways = (1, 0.0), (1, 1.0), (d.T, 0.35), (0, 0.35)
    (rows,) = _rows(d).inputs
    huge = torch.where(rows > 0, 10**9 + rows[rows > 0].min() - rows, 0)
    # their differences have many divisors: a table of some size mixes them up
    apart = torch.where(rows > 0, (rows - 1) * DIVISIBLE + 1, 0)
    long = torch.ones(1, d.number(520, 560), dtype=torch.long)  # a single sentence
    others = 0 * rows, 0 * rows + 1, huge, apart, long, rows[:, -1:], _round_numbers(d)
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
ANEW = "The position of a token is the number of earlier tokens in the same sentence."
NONE_OF_IT = "Padding must not attend to anything, and no token may attend to padding."

QUESTION = Question(
    name="packed_rows",
    reference=packed_rows,
    use=lambda packed, sentence: packed(sentence),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "own": "Let each token attend to all tokens of its own sentence: to earlier"
        " tokens, to later tokens and to itself. Do not let it attend to anything"
        " else.",
        "anew": "Count the positions from 0, and start again from 0 in each sentence.",
        "numbers": "Each sentence in a row has its own number, a whole number"
        " from 1 to a billion. The numbers may come in any order, and different rows"
        " may use the same numbers. The tokens of a sentence are always next to each"
        " other.",
        "padding": "The number 0 means padding. Padding is always at the end of a row,"
        " and a row may consist of padding only. Padding must not attend to anything,"
        " and no token may attend to padding. Set the positions of padding to 0.",
        "sentence": "sentence: (B, T), the sentence number of each token, of dtype"
        " long.",
        "returns": "A mask (B, T, T), of dtype bool, True = may attend; and positions"
        " (B, T), of dtype long.",
    },
    properties=(
        BATTERY.numbers(
            "each token attends to its own sentence; positions start again from 0 in"
            " each sentence",
            2,
            same_whole_numbers,
            ("own", "anew", "numbers", "padding", "sentence", "returns"),
            False,
        ),
        BATTERY.edges(
            1,
            same_whole_numbers,
            ("lengths", "numbers", "padding", "returns"),
            "rows with one sentence, with sentences of one token, with padding only;"
            " edges: length one, equal lengths, long inputs, repeated calls",
            _rare_rows,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "padding attends to padding",
            NONE_OF_IT + " Two zeros are equal, but they are not the number of a"
            " sentence.",
            MASK,
            (
                change(" & (sentence > 0)[:, None]", ""),
                change("return mask,", "return same,"),
            ),
        ),
        Mistake(
            "later tokens are forbidden",
            "A token may attend to its whole sentence, including later tokens.",
            MASK,
            change("return mask,", "return mask.tril(),"),
        ),
        Mistake(
            "a token does not attend to itself",
            "A token may attend to all tokens of its sentence, including itself.",
            MASK,
            change("return mask,", "return mask.tril(-1) | mask.triu(1),"),
        ),
        Mistake(
            "earlier sentences are allowed, too",
            "A token may attend only to its own sentence. Compare the numbers with ==.",
            MASK,
            change("] == s", "] >= s"),
        ),
        Mistake(
            "True and False swapped in the mask",
            "In this course, True means that a token may attend.",
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
            "positions continue across sentences",
            ANEW,
            ORDER,
            (
                change(PLACES, "(sentence > 0).cumsum(-1).sub(1).clamp(min=0)"),
                change(PLACES, "torch.arange(len(mask[0])) * (sentence > 0)"),
            ),
        ),
        Mistake(
            "positions count from the end",
            ANEW,
            ORDER,
            change("tril(-1)", "triu(1)"),
        ),
        Mistake(
            "sentence length instead of the position",
            ANEW,
            ORDER,
            (change(PLACES, "mask.sum(-1)"), change(PLACES, "mask.sum(-1) - 1")),
        ),
        Mistake(
            "padding has positions other than 0",
            "The position of padding is 0. Padding belongs to no sentence, so there is"
            " nothing to count.",
            ORDER,
            (
                change(PLACES, "mask.tril().sum(-1) - 1"),
                change(PLACES, "same.tril(-1).sum(-1)"),
            ),
        ),
        Mistake(
            "padding attends to itself",
            "Padding must not attend to anything. Its row of the mask is empty.",
            MASK,
            change(
                "return mask, mask.tril(-1).sum(-1)",
                "return mask | torch.eye(len(mask[0])).bool(), mask.tril(-1).sum(-1)",
            ),
        ),
        Mistake(
            "the mask is not of dtype bool",
            "Return a mask of True and False, of the dtype torch.bool.",
            MASK,
            change("return mask,", "return mask.long(),"),
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].dtype != torch.bool
            ),
        ),
        Mistake(
            "positions of a wrong dtype",
            "Return positions of the dtype torch.long.",
            "",
            sign=lambda request, reply, reference: (
                len(reply.outputs) > 1 and reply.outputs[1].dtype != torch.long
            ),
            undone=lambda request, reply, reference: reply._replace(
                outputs=(reply.outputs[0], reply.outputs[1].long())
            ),
        ),
        *ANYWHERE,
        Mistake(
            "wrong positions",
            ANEW + " The position of padding is 0.",
            ORDER,
            sign=wrong_in(1, 0),
        ),
        Mistake(
            "a token attends beyond its sentence",
            "Allow a pair of tokens only if both have the same sentence number. "
            + NONE_OF_IT,
            MASK,
            sign=somewhere(0, lambda given, wanted: given > wanted),
        ),
        Mistake(
            "part of the own sentence is forbidden",
            "A token may attend to all tokens of its sentence.",
            MASK,
            sign=somewhere(0, lambda given, wanted: given < wanted),
        ),
    ),
)
