"""sinusoidal_positions: every position gets waves of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import transformer
from attention_labs.lab05_self_attention.hints import B
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    close,
    good_manners,
    manners,
    normal,
    same_gradients,
    same_numbers,
    wrong_output,
)

ORDER = "11_self_attention.html#self-attention-order"

WIDTH, LONG, PAST = 10, 17, 6


def _use_positions(positions: Any, x: Tensor, past: Tensor | None) -> Tensor:
    return positions(x) if past is None else positions(x, past.size(0))


def _from_the_start(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, LONG, WIDTH), None), (WIDTH,), gradients=True)


def _later(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, LONG, WIDTH), as_length(PAST)), (WIDTH,))
    yield Request((normal(g, B, 1, WIDTH), as_length(40 * PAST)), (WIDTH,))


def _positions_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((normal(g, B, LONG, WIDTH), None), (WIDTH,)))
    yield Request(
        (normal(g, B, LONG, WIDTH) / 10, as_length(40 * PAST)),
        (WIDTH,),
        dtype=torch.bfloat16,
    )


def _far_and_polite(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Have good manners, and keep count where the input's dtype cannot."""
    if (finding := good_manners(request, reply, reference)) or request.inputs[
        1
    ] is None:
        return finding
    given, wanted = reply.outputs[0].double(), reference.outputs[0]
    if given.shape == wanted.shape and bool((given - wanted).abs().max() <= 0.05):
        return None
    return Finding(
        f"other positions in {request.dtype}",
        "those of float32, but for the rounding of the result",
    )


def _positions_with(
    angle: Callable[[Tensor, Tensor, int], Tensor] = lambda t, i, dim: (
        t / 10000 ** (2 * i / dim)
    ),
    lay: Callable[[Tensor], Tensor] = lambda angles: torch.stack(
        [angles.sin(), angles.cos()], dim=-1
    ).flatten(1),
    start: Callable[[int], int] = lambda past: past,
    add: Callable[[Tensor, Tensor], Tensor] = lambda x, p: x + p,
) -> type[nn.Module]:
    class Wrong(nn.Module):
        def __init__(self, dim: int):
            super().__init__()
            self.dim = dim

        def forward(self, x: Tensor, past: int = 0) -> Tensor:
            t = torch.arange(
                start(past),
                start(past) + x.size(1),
                device=x.device,
                dtype=torch.float32,
            )
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            return add(x, lay(angle(t[:, None], i, self.dim)).to(x.dtype))

    return Wrong


POSITIONS = Question(
    name="sinusoidal_positions",
    reference=transformer.SinusoidalPositions,
    use=_use_positions,
    properties=(
        Property(
            "positions from 0, added to the vectors", 2, _from_the_start, same_gradients
        ),
        Property(
            "positions that continue where the past ends", 1, _later, same_numbers
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
            section=ORDER,
            made_by=_positions_with(
                lay=lambda angles: torch.cat([angles.sin(), angles.cos()], dim=-1)
            ),
        ),
        Mistake(
            "sine and cosine exchanged",
            "Even entries hold the sine, odd ones the cosine.",
            section=ORDER,
            made_by=_positions_with(
                lay=lambda angles: torch.stack(
                    [angles.cos(), angles.sin()], dim=-1
                ).flatten(1)
            ),
        ),
        Mistake(
            "clocks half as far apart",
            "The exponent is 2i / D, where i counts pairs and 2i entries: mind the 2.",
            section=ORDER,
            made_by=_positions_with(angle=lambda t, i, dim: t / 10000 ** (i / dim)),
        ),
        Mistake(
            "clocks that run faster and faster",
            "Each clock is slower than the one before: divide by the power of 10000.",
            section=ORDER,
            made_by=_positions_with(angle=lambda t, i, dim: t * 10000 ** (2 * i / dim)),
        ),
        Mistake(
            "positions count from 1",
            "The first token stands at position 0.",
            section=ORDER,
            made_by=_positions_with(start=lambda past: past + 1),
        ),
        Mistake(
            "the past is ignored",
            "The first vector stands at position `past`, because so many tokens came"
            " before it.",
            section=ORDER,
            made_by=_positions_with(start=lambda past: 0),
        ),
        Mistake(
            "positions returned, not added",
            "What comes back is the vector with its position added.",
            section=ORDER,
            made_by=_positions_with(add=lambda x, p: p.expand_as(x)),
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape and close(given[0], given[-1])
                )
            ),
        ),
        Mistake(
            "positions counted in half precision",
            "A half-precision number cannot tell 256 from 257: count in float32, and"
            " cast the positions last.",
            section=ORDER,
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
