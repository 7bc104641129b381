"""sinusoidal_positions: every position gets waves of its own."""

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
    normal,
    same_numbers,
    wrong_output,
)

ORDER = "11_self_attention.html#self-attention-order"
FORWARD = SinusoidalPositions.forward


def _placed(d: Draw) -> list[Request]:
    x = normal(d, d.B, d.T, 2 * d.C)
    return [Request((x, past), (2 * d.C,)) for past in (None, d.P)]


def _far(d: Draw) -> Request:
    """Place small vectors where half precision knows even positions only."""
    small = normal(d, d.B, d.T, 2 * d.C) / 10
    past = d.number(260, 500)
    about = f"past: {past}, in bfloat16, which knows no odd number beyond 256"
    return Request((small, past), (2 * d.C,), dtype=torch.bfloat16, about=about)


def _very_far(d: Draw) -> Request:
    """Read one clock far from the start; its angle is the position."""
    past = d.number(5_100, 8_000)
    x = 10 * normal(d, d.B, d.T, 2)  # rounding of an angle so far on is small beside it
    return Request((x, past), (2,), about=f"past: {past}, a single clock")


def _but_for_rounding(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Have the reference's numbers; in half precision, but for its rounding."""
    if reply.error or request.dtype != torch.bfloat16:
        return same_numbers(request, reply, reference)
    given, wanted = reply.outputs[0].double(), reference.outputs[0]
    if given.shape == wanted.shape and bool((given - wanted).abs().max() <= 0.05):
        return None
    seen = f"other positions in {request.dtype}"
    return Finding(seen, "those of float32, but for the rounding of the result")


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

POSITIONS = Question(
    name="sinusoidal_positions",
    reference=SinusoidalPositions,
    use=lambda positions, x, past: positions(x) if past is None else positions(x, past),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "clocks": "Imagine D/2 clocks, each slower than the one before. A position is"
        " a reading of all clocks. For each clock, the position's vector holds the"
        " sine and the cosine of the angle of its hand, side by side:",
        "past": "Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come"
        " before and t counts from 0.",
        "float32": "Compute the positions and angles in float32 even if x has another"
        " dtype: in the dtype bfloat16, 256 and 257 are the same number.",
        "even": "dim: D, width of a position; even.",
        "x": "x: (B, T, D).",
        "before": "past: how many tokens came before.",
        "returns": "(B, T, D), of the dtype of x.",
    },
    properties=(
        BATTERY.numbers(
            "positions from 0, or from where the past ends, added to the vectors",
            2,
            checks=("clocks", "past", "even", "x", "before", "returns"),
        ),
        BATTERY.edges(
            1,
            _but_for_rounding,
            ("lengths", "past", "float32"),
            "large positions, also in half precision; edges: length one, no past,"
            " equal and great lengths, eval mode, a second call, two instances",
            lambda d: [_far(d), _very_far(d)],
        ),
        BATTERY.manners(1, checks=("manners", "returns")),
    ),
    mistakes=(
        Mistake(
            "all sines before all cosines",
            "Sine and cosine of one clock stand side by side: entries 2i and 2i + 1.",
            ORDER,
            edit(FORWARD, "dim=-1", "dim=-2"),
        ),
        Mistake(
            "sine and cosine exchanged",
            "Even entries hold the sine, and odd entries hold the cosine.",
            ORDER,
            edit(FORWARD, "angles.sin(), angles.cos()", "angles.cos(), angles.sin()"),
        ),
        Mistake(
            "clocks half as far apart",
            "The exponent is 2i / D, where i counts pairs and 2i entries: mind the 2.",
            ORDER,
            edit(FORWARD, "-2 * math", "-math"),
        ),
        Mistake(
            "clocks that run faster and faster",
            "Each clock is slower than the one before: divide by the power of 10000.",
            ORDER,
            edit(FORWARD, "-2 * math", "2 * math"),
        ),
        Mistake(
            "positions count from 1",
            "The first token stands at position 0.",
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
            "The first vector stands at position `past`, because so many tokens came"
            " before it.",
            ORDER,
            edit(FORWARD, "_places(x, past)", "_places(x, 0)"),
        ),
        Mistake(
            "positions returned, not added",
            "Return the vectors with their positions added to them.",
            ORDER,
            edit(FORWARD, "x + positions", "torch.zeros_like(x) + positions"),
            wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape and close(given[0], given[-1])
                )
            ),
        ),
        Mistake(
            "positions counted in half precision",
            "In bfloat16, 256 and 257 are the same number: count in float32, and cast"
            " the positions last.",
            ORDER,
            sign=lambda request, reply, reference: (
                request.dtype == torch.bfloat16 and request.inputs[1] is not None
            ),
        ),
        *ANYWHERE,
        Mistake(
            "right at the first position alone",
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
            "right only for the first positions",
            "There is no last position. Compute the sines and cosines of the positions"
            " that are asked for, or let a table grow.",
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
