"""Question `sinusoidal_positions`: the sinusoidal positional encoding."""

from dataclasses import replace

import torch

from attention_course.transformer import SinusoidalPositions
from attention_labs.lab05_self_attention.shared import EVERYWHERE, LEAVES_OUT, B, T
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

ORDER = "11_self_attention.html#self-attention-order"
FORWARD = SinusoidalPositions.forward
# The largest error of a sum: in float32, angles are exact to 0.004 at the farthest
# position; half precision rounds the sum itself, as float32 does beside 1e5.
ROUNDING = {torch.bfloat16: 0.05, torch.float16: 0.05, torch.float64: 0.01}
FAR = 2**16  # beyond usual tables, and beyond int16 and float16


def _placed(d: Draw) -> list[Request]:
    x = normal(d, d.B, d.T, 2 * d.C)
    return [Request((x, past), (2 * d.C,)) for past in (None, d.P)]


def _far(d: Draw) -> list[Request]:
    """Place small vectors where half precision knows even positions only."""
    small = normal(d, d.B, d.T, 2 * d.C) / 10
    asked = []
    for dtype, name, last in (
        (torch.bfloat16, "bfloat16", 256),
        (torch.float16, "float16", 2048),
    ):
        past = last + 2 * d.number(2, 120) + 1
        about = f"past: {past}, in {name}, which knows no odd number beyond {last}"
        asked.append(Request((small, past), (2 * d.C,), dtype=dtype, about=about))
    return asked


def _after_half(d: Draw) -> Request:
    """Ask in float32 after the same object was asked in bfloat16."""
    x = normal(d, d.B, d.T + 20, 2 * d.C) / 10  # at position 0, nothing is rounded
    earlier = Request((x.flip(-1), None), dtype=torch.bfloat16)
    about = "after a call in bfloat16"
    return Request(
        (x, None), (2 * d.C,), dtype=torch.float32, before=(earlier,), about=about
    )


def _very_far(d: Draw) -> Request:
    """Read one clock far from the start; its angle is the position."""
    past = FAR + d.number(1_000, 9_000)
    x = 100 * normal(d, d.B, d.T, 2)  # beside it, rounding of such angles is small
    return Request((x, past), (2,), about=f"past: {past}, a single clock")


def _one_by_one(d: Draw) -> Request:
    """Ask for one token, in eval mode, after another one: as a sequence is written."""
    other, x = (normal(d, d.B, 1, 2 * d.C) for _ in range(2))
    earlier = Request((other, d.P + d.T), training=False)
    about = f"past: {d.P}, a single token in eval mode, after one with a larger past"
    return Request((x, d.P), (2 * d.C,), training=False, before=(earlier,), about=about)


def _but_for_rounding(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Have the reference's numbers, but for the rounding of angles and of the sum."""
    finding = same_gradients(request, reply, reference)
    if reply.error or request.dtype not in ROUNDING:
        return finding
    given, wanted = reply.outputs[0].double(), reference.outputs[0]
    if given.shape != wanted.shape:
        return finding
    if not (given - wanted).abs().max() <= ROUNDING[request.dtype]:
        seen = f"other positions in {request.dtype}"
        return Finding(seen, "those of float32, but for the rounding of the result")
    return finding if request.dtype == torch.float64 else None


BATTERY = Battery(
    MODULE,
    _placed,
    {
        "B": B,
        "T": replace(T, long=600),
        "C": Axis("clocks", fixed=True),
        "P": Axis("tokens before", least=0, long=1100),
    },
    leaves_out={"in front": LEAVES_OUT["in front"]},
)

QUESTION = Question(
    name="sinusoidal_positions",
    reference=SinusoidalPositions,
    use=lambda positions, x, past: positions(x) if past is None else positions(x, past),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "clocks": "For clock i, the positional encoding $p_t$ holds the sine of the"
        " angle of the clock's hand, followed by the cosine:",
        "past": "Return $x_t + p_{\\mathrm{past} + t}$, where `past` is the number of"
        " tokens that came before x.",
        "float32": "Compute the positions and angles in float32 or in a more precise"
        " dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
        "even": "dim: D, the width of an encoding, an even number.",
        "x": "x: (B, T, D).",
        "before": "past: the number of tokens that came before x.",
        "returns": "(B, T, D), of the dtype of x.",
    },
    properties=(
        BATTERY.numbers(
            "encodings of the positions from 0 on, or from `past` on, are added to the"
            " vectors",
            2,
            checks=("clocks", "past", "even", "x", "before", "returns"),
        ),
        BATTERY.edges(
            1,
            _but_for_rounding,
            ("lengths", "past", "float32"),
            "large positions, also in half precision; edges: length one, no past, equal"
            " lengths, long inputs, eval mode, repeated calls, two instances",
            lambda d: [*_far(d), _very_far(d), _after_half(d), _one_by_one(d)],
        ),
        BATTERY.manners(1, good_manners_from_float32, checks=("manners", "returns")),
    ),
    mistakes=(
        Mistake(
            "all sines before all cosines",
            "Put the sine and the cosine of clock i next to each other, at the entries"
            " 2i and 2i + 1.",
            ORDER,
            edit(FORWARD, "dim=-1", "dim=-2"),
        ),
        Mistake(
            "sine and cosine swapped",
            "Put the sine at the even entries and the cosine at the odd entries.",
            ORDER,
            edit(FORWARD, "angles.sin(), angles.cos()", "angles.cos(), angles.sin()"),
        ),
        Mistake(
            "factor 2 missing in the frequency exponent",
            "The exponent is 2i / D, where i counts the clocks. Mind the factor 2.",
            ORDER,
            edit(FORWARD, "-2 * math", "-math"),
        ),
        Mistake(
            "frequencies increase instead of decreasing",
            "Each clock is slower than the one before. Divide the position by the"
            " power of 10000.",
            ORDER,
            edit(FORWARD, "-2 * math", "2 * math"),
        ),
        Mistake(
            "positions count from 1",
            "The first token has position 0.",
            ORDER,
            edit(FORWARD, "_places(x, past)", "_places(x, past + 1)"),
            comparable(
                lambda request, reply, reference: close(
                    (reply.outputs[0] - request.inputs[0])[:, :-1],
                    (reference.outputs[0] - request.inputs[0])[:, 1:],
                )
            ),
        ),
        Mistake(
            "the past is ignored",
            "The first vector has position `past`, because that many tokens came"
            " before it.",
            ORDER,
            edit(FORWARD, "_places(x, past)", "_places(x, 0)"),
        ),
        Mistake(
            "encodings returned, not added",
            "Add the encodings to the vectors, and return the sum.",
            ORDER,
            edit(FORWARD, "x + positions", "torch.zeros_like(x) + positions"),
            wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape and close(given[0], given[-1])
                )
            ),
        ),
        Mistake(
            "wrong at large positions in half precision",
            "bfloat16 cannot tell 256 from 257, and float16 not 2048 from 2049. Compute"
            " in float32, and convert the encodings to the dtype of x at the end.",
            ORDER,
            sign=lambda request, reply, reference: (
                request.dtype.itemsize == 2 and request.inputs[1] is not None
            ),
        ),
        Mistake(
            "wrong far from the start",
            "There is no last position, and every angle is different. Compute the"
            " angles for the positions of this call, or let a table grow.",
            ORDER,
            sign=lambda request, reply, reference: (
                request.inputs[1] is not None and request.inputs[1] > FAR
            ),
        ),
        Mistake(
            "the past moves all clocks by the same angle",
            "Add `past` to the position, before it is multiplied by the speed of a"
            " clock. A slow clock moves less.",
            ORDER,
            edit(FORWARD, "_places(x, past)", "_places(x, 0)")
            & edit(FORWARD, "self.dim))", "self.dim)) + past"),
        ),
        Mistake(
            "the vectors are scaled, too",
            "Add the encodings to the vectors as they are. The factor of the square"
            " root of D belongs to the embedding.",
            ORDER,
            edit(FORWARD, "x + positions", "x * math.sqrt(self.dim) + positions"),
        ),
        Mistake(
            "the slowest clock has the exponent 1",
            "The exponent is 2i / D, where i counts the clocks from 0 to D / 2 - 1.",
            ORDER,
            edit(FORWARD, "/ self.dim", "/ max(self.dim - 2, 1)"),
        ),
        *ANYWHERE,
        Mistake(
            "right only at the first position",
            "At position 0 every sine is 0 and every cosine is 1. At later positions,"
            " the angle of each clock grows at its own speed.",
            ORDER,
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape
                    and close(given[:, 0], wanted[:, 0])
                    and not close(given[:, 1:2], wanted[:, 1:2])
                )
            ),
        ),
        Mistake(
            "right at the first two positions, wrong later",
            "There is no last position. Compute the sines and cosines for the"
            " positions of this call, or let a table grow.",
            ORDER,
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape
                    and given.size(1) > 2
                    and close(given[:, :2], wanted[:, :2])
                )
            ),
        ),
    ),
)
