"""sinusoidal_positions: every position gets waves of its own."""

from dataclasses import replace
from typing import Any

import torch

from attention_course.transformer import SinusoidalPositions
from attention_labs.lab05_self_attention.shared import B
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    edit,
    good_manners,
    manners,
    normal,
    same_gradients,
    same_numbers,
    wrong_output,
)

ORDER = "11_self_attention.html#self-attention-order"
FORWARD = SinusoidalPositions.forward

WIDTH, LONG, PAST = 10, 17, 6


def _placed(
    g: torch.Generator, past: int | None = None, length: int = LONG, **options: Any
) -> Request:
    return Request((normal(g, B, length, WIDTH), past), (WIDTH,), **options)


def _positions_manners(g: torch.Generator) -> list[Request]:
    near, far = _placed(g), _placed(g, 40 * PAST, dtype=torch.bfloat16)
    small = (far.inputs[0] / 10, 40 * PAST)
    return [*manners(near), replace(far, inputs=small)]


def _far_and_polite(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Have good manners, and keep count where the input's dtype cannot."""
    finding = good_manners(request, reply, reference)
    if finding or request.inputs[1] is None:
        return finding
    given, wanted = reply.outputs[0].double(), reference.outputs[0]
    if given.shape == wanted.shape and bool((given - wanted).abs().max() <= 0.05):
        return None
    return Finding(
        f"other positions in {request.dtype}",
        "those of float32, but for the rounding of the result",
    )


POSITIONS = Question(
    name="sinusoidal_positions",
    reference=SinusoidalPositions,
    use=lambda positions, x, past: positions(x) if past is None else positions(x, past),
    properties=(
        Property(
            "positions from 0, added to the vectors",
            2,
            lambda g: [_placed(g, gradients=True)],
            same_gradients,
        ),
        Property(
            "positions that continue where the past ends",
            1,
            lambda g: (_placed(g, PAST), _placed(g, 40 * PAST, length=1)),
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _positions_manners,
            _far_and_polite,
        ),
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
            "Even entries hold the sine, odd ones the cosine.",
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
            "What comes back is the vector with its position added.",
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
            "A half-precision number cannot tell 256 from 257: count in float32, and"
            " cast the positions last.",
            ORDER,
            sign=lambda request, reply, reference: (
                request.dtype == torch.bfloat16 and request.inputs[1] is not None
            ),
        ),
        *ANYWHERE,
        Mistake(
            "right at the first position alone",
            "At position 0 every sine is 0 and every cosine 1. What grows with the"
            " position is the angle, by clock.",
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape and close(given[:, 0], wanted[:, 0])
                )
            ),
        ),
    ),
)
