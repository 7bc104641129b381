"""Question `rotary`: rotary positions (RoPE), which rotate queries and keys."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attention_course.transformer import RotaryPositions
from attention_labs.lab08_today.shared import EVERYWHERE, TURN, B, T
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    good_manners_from_float32,
    normal,
    same_gradients,
    wrong_output,
)

HALF = torch.bfloat16, torch.float16


def _turned(d: Draw) -> list[Request]:
    x = normal(d, *d.leading, d.T, 2 * d.C)
    bases = 10_000.0, float(d.one_of((12.5, 100, 2_000, 500_000)))
    pasts = None, d.P
    return [Request((x, past), (2 * d.C, base)) for past, base in zip(pasts, bases)]


def _far(d: Draw, dtype: torch.dtype) -> Request:
    """Turn small vectors where half precision does not know every position."""
    small = normal(d, *d.leading, d.T, 2 * d.C) / 10
    past = d.number(4_500, 6_000)
    about = f"past: {past}, in {dtype}, which cannot tell it from the next position"
    return Request((small, past), (2 * d.C, 1e4), dtype=dtype, about=about)


def _moved(d: Draw) -> Request:
    """Ask on another device after the same object was asked on the CPU."""
    x = normal(d, *d.leading, d.T, 2 * d.C)
    earlier = Request((x.flip(-1), None))
    about = "on device meta, after a call on the CPU"
    return Request(
        (x, None), (2 * d.C, 1e4), device="meta", before=(earlier,), about=about
    )


def _after_half(d: Draw) -> Request:
    """Ask in float32 after the same object was asked in bfloat16."""
    x = normal(d, *d.leading, d.T, 2 * d.C)
    earlier = Request((x.flip(-1), None), dtype=torch.bfloat16)
    about = "after a call in bfloat16"
    return Request(
        (x, None), (2 * d.C, 1e4), dtype=torch.float32, before=(earlier,), about=about
    )


def _very_far(d: Draw) -> Request:
    """Turn one pair of entries far from the start; its angle is the position."""
    past = d.number(1_100_000, 1_500_000)
    x = normal(d, *d.leading, d.T, 2)
    return Request((x, past), (2, 1e4), about=f"past: {past}, one pair of entries")


def _but_for_rounding(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Have the reference's numbers; in half precision, but for its rounding."""
    if reply.error or request.dtype not in HALF:
        return same_gradients(request, reply, reference)
    given, wanted = reply.outputs[0].double(), reference.outputs[0]
    if given.shape == wanted.shape and bool((given - wanted).abs().max() <= 0.005):
        return None
    seen = f"other positions in {request.dtype}"
    return Finding(seen, "those of float32, but for the rounding of the result")


BATTERY = Battery(
    MODULE,
    _turned,
    {
        "B": B,
        "T": T,
        "C": Axis("pairs of entries", most=8, fixed=True),
        "P": Axis("tokens before", least=0, long=300),
    },
    leading=3,
    large=(0.0, 1e5, 1e200),  # in float64
)

_manners = BATTERY.manners(1, good_manners_from_float32, checks=("manners", "returns"))
_moved_once = BATTERY.line("", 0, _moved, times=1)
MANNERS = replace(
    _manners, requests=lambda g: (*_manners.requests(g), *_moved_once.requests(g))
)

change = partial(edit, RotaryPositions.forward)
TURNED = "[one * cos - other * sin, other * cos + one * sin]"
SLOWER = "(1.0 / self.base ** (2 * i / self.dim))"
PAIRS = "Entry i of the first half and entry i of the second half are one pair."
SPEEDS = "The angle of pair i is the position, divided by the base to the power 2i / D."


def _turned_by_more(given: Tensor, wanted: Tensor) -> bool:
    """Whether vectors of the right shape are not as long as they were."""
    return given.shape == wanted.shape and not close(
        given.norm(dim=-1), wanted.norm(dim=-1)
    )


QUESTION = Question(
    name="rotary",
    reference=RotaryPositions,
    use=lambda positions, x, past: positions(x) if past is None else positions(x, past),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "angles": r"\theta_{ti} = t\, b^{-2i/D}, \qquad i = 0, \dots, D/2 - 1",
        "turn": r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti},"
        r" \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}",
        "positions": "Count the positions from `past`, the number of tokens that came"
        " before x. The first vector of x is at position t = `past`.",
        "in front": "x may have any number of axes before the last two, for example"
        " (T, D), (B, T, D) or (B, H, T, D).",
        "float32": "Compute the angles, their sines and their cosines in float32 or in"
        " a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256"
        " from 257.",
        "x": "x: (..., T, D), queries or keys.",
        "past": "past: the number of tokens that came before x.",
        "returns": "The rotated vectors (..., T, D), of the dtype of x.",
    },
    properties=(
        BATTERY.numbers(
            "each pair of entries is rotated by its angle, from position 0 or `past`"
            " on",
            2,
            checks=("angles", "turn", "positions", "x", "past", "returns"),
        ),
        BATTERY.edges(
            1,
            _but_for_rounding,
            ("lengths", "in front", "float32", "positions"),
            "large positions, also in half precision; edges: length one, no past,"
            " equal lengths, long inputs, more or fewer leading axes, large numbers,"
            " eval mode, repeated calls, two instances",
            lambda d: [
                *(_far(d, dtype) for dtype in HALF),
                _very_far(d),
                _after_half(d),
            ],
        ),
        MANNERS,
    ),
    mistakes=(
        Mistake(
            "neighboring entries form the pairs",
            PAIRS + " The paper pairs neighboring entries, but this lab pairs the"
            " halves, as the library transformers does.",
            TURN,
            (
                change("x.chunk(2, dim=-1)", "x[..., 0::2], x[..., 1::2]")
                & change(f"torch.cat({TURNED}, dim=-1)", f"torch.cat({TURNED}, -1)"),
                change("x.chunk(2, dim=-1)", "x[..., 0::2], x[..., 1::2]")
                & change(
                    f"torch.cat({TURNED}, dim=-1)",
                    f"torch.stack({TURNED}, dim=-1).flatten(-2)",
                ),
                change(
                    f"torch.cat({TURNED}, dim=-1)",
                    f"torch.stack({TURNED}, dim=-1).flatten(-2)",
                ),
            ),
        ),
        Mistake(
            "rotated in the wrong direction",
            "Subtract the second entry times the sine from the first. Add the first"
            " entry times the sine to the second.",
            TURN,
            change(TURNED, "[one * cos + other * sin, other * cos - one * sin]"),
        ),
        Mistake(
            "a sign that makes it no rotation",
            "Subtract one of the two sines and add the other. Otherwise the vector"
            " changes its length.",
            TURN,
            (
                change(TURNED, "[one * cos + other * sin, other * cos + one * sin]"),
                change(TURNED, "[one * cos - other * sin, other * cos - one * sin]"),
            ),
        ),
        Mistake(
            "sine and cosine swapped",
            "At position 0, nothing is rotated: the cosine is 1 and the sine is 0.",
            TURN,
            change("cos, sin = angles", "sin, cos = angles"),
        ),
        Mistake(
            "positions count from 1",
            "The first vector has position `past`, which is 0 by default.",
            TURN,
            change("(past, past + x.size(-2)", "(past + 1, past + 1 + x.size(-2)"),
        ),
        Mistake(
            "the past is ignored",
            "The first vector has position `past`, because that many tokens came"
            " before it.",
            TURN,
            change("(past, past + x.size(-2)", "(0, x.size(-2)"),
        ),
        Mistake(
            "factor 2 missing in the frequency exponent",
            SPEEDS + " Here i counts the pairs. Mind the factor 2.",
            TURN,
            (change("2 * i / self.dim", "i / self.dim"),),
        ),
        Mistake(
            "frequencies increase instead of decreasing",
            SPEEDS + " Each pair turns more slowly than the one before.",
            TURN,
            change("1.0 / self.base", "self.base"),
        ),
        Mistake(
            "one frequency for all pairs",
            SPEEDS,
            TURN,
            change(SLOWER, "torch.ones_like(i)"),
        ),
        Mistake(
            "the given base is ignored",
            "Use `self.base`. 10,000 is only the default.",
            TURN,
            change("self.base", "10_000.0"),
        ),
        Mistake(
            "wrong at large positions in half precision",
            "bfloat16 cannot tell 256 from 257, nor float16 2048 from 2049. Compute"
            " angles, sines and cosines in float32, and convert them at the end.",
            TURN,
            sign=lambda request, reply, reference: (
                request.dtype in HALF and request.inputs[1] is not None
            ),
        ),
        *ANYWHERE,
        Mistake(
            "right only at the first position",
            "At position 0, nothing is rotated. At later positions, the angle of each"
            " pair grows at its own speed.",
            TURN,
            sign=comparable(
                lambda request, reply, reference: (
                    not request.inputs[1]
                    and close(
                        reply.outputs[0][..., :1, :], reference.outputs[0][..., :1, :]
                    )
                )
            ),
        ),
        Mistake(
            "the lengths of the vectors change",
            "A rotation keeps all lengths. For each pair, subtract one of the two"
            " sines and add the other.",
            TURN,
            sign=wrong_output(_turned_by_more),
        ),
    ),
)
