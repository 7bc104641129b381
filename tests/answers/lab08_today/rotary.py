"""Answers to rotary."""

import torch
from answers.core import draw, right, right_edits, wide, with_part, wrong, wrong_edits
from answers.signs import DEVICE, DTYPE, FITS, IN_PLACE, REQUIRED
from torch import nn

from nbjudge import Request, edit


@wide("rotary")
def any_turns(g):
    for shape in ((1, 2), (3, 8), (2, 5, 6), (2, 3, 4, 10), (1, 1, 1, 4)):
        for base in (1e4, 50.0, 3e5):
            init = (shape[-1], base)
            yield Request((draw(g, *shape), None), init, gradients=True)
            yield Request((draw(g, *shape), 7), init, gradients=True)


class Turn(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        angles = self.angles(x, past)
        return self.turn(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))

    def angles(self, x, past):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        return t[:, None] / self.base ** (i / self.dim)

    def turn(self, x, cos, sin):
        half = self.dim // 2
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


right("rotary")(Turn)


@right("rotary")
@with_part(Turn, "turn")
def rotate_half_as_in_the_library(self, x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos.repeat(1, 2) + torch.cat([-second, first], dim=-1) * sin.repeat(1, 2)


@right("rotary")
@with_part(Turn, "turn")
def matrices_that_turn(self, x, cos, sin):
    turns = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    pairs = x.unflatten(-1, (2, -1)).transpose(-1, -2)  # (..., T, D/2, 2)
    return (turns @ pairs[..., None])[..., 0].transpose(-1, -2).flatten(-2)


@right("rotary")
@with_part(Turn, "turn")
def rolled_by_half(self, x, cos, sin):
    sign = torch.ones(self.dim, dtype=x.dtype, device=x.device)
    sign[: self.dim // 2] = -1
    rolled = x.roll(self.dim // 2, dims=-1) * sign
    return x * torch.cat([cos, cos], -1) + rolled * torch.cat([sin, sin], -1)


@right("rotary")
@with_part(Turn, "turn")
def filled_by_slices(self, x, cos, sin):
    turned, half = torch.empty_like(x), self.dim // 2
    turned[..., :half] = x[..., :half] * cos - x[..., half:] * sin
    turned[..., half:] = x[..., half:] * cos + x[..., :half] * sin
    return turned


@right("rotary")
@with_part(Turn, "forward")
def position_by_position(self, x, past=0):
    angles = self.angles(x, past)
    rows = [
        self.turn(row, angle.cos().to(x.dtype), angle.sin().to(x.dtype))
        for row, angle in zip(x.unbind(-2), angles)
    ]
    return torch.stack(rows, dim=-2)


@right("rotary")
@with_part(Turn, "forward")
def numbers_of_a_plane(self, x, past=0):
    wide = torch.promote_types(x.dtype, torch.float32)
    angles = self.angles(x, past).to(wide)
    first, second = x.to(wide).chunk(2, dim=-1)
    points = torch.complex(first.contiguous(), second.contiguous())
    turned = points * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


FORWARD, ANGLES, TURN = Turn.forward, Turn.angles, Turn.turn
CLOCKED = "t[:, None] / self.base ** (i / self.dim)"
COUNTED = "x.size(-2), device=x.device, dtype=torch.float32"
TURNED = "[first * cos - second * sin, second * cos + first * sin]"
CAST = "self.turn(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))"
right_edits(
    "rotary",
    Turn,
    powers_by_exp=edit(
        ANGLES,
        CLOCKED,
        "t[:, None] * torch.exp(torch.full_like(i, self.base).log() * -i / self.dim)",
    ),
    outer_product=edit(
        ANGLES, CLOCKED, "torch.outer(t, self.base ** -(i / self.dim)).float()"
    ),
    counted_from_zero_and_moved=edit(ANGLES, "(past, past + x.size", "(0, x.size")
    & edit(ANGLES, "return t[:, None]", "return (t + past)[:, None]"),
    powers_of_python=edit(
        ANGLES,
        CLOCKED,
        "torch.stack([t / self.base ** (2 * n / self.dim)"
        " for n in range(self.dim // 2)], dim=1)",
    ),
)

PAIRS = "neighboring entries form the pairs"
FIRST = "right only at the first position"
FAR = "wrong at large positions in half precision"
LENGTHS = "the lengths of the vectors change"


@wrong("rotary", PAIRS)
@with_part(Turn, "turn")
def the_papers_pairs(self, x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
    return turned.flatten(-2)


@wrong("rotary", "rotated in the wrong direction")
@with_part(Turn, "turn")
def the_rotated_half_has_its_sign_at_the_end(self, x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos.repeat(1, 2) + torch.cat([second, -first], dim=-1) * sin.repeat(1, 2)


@wrong("rotary", LENGTHS)
@with_part(Turn, "turn")
def angles_repeated_for_neighbours(self, x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    cos, sin = (part.repeat_interleave(2, dim=-1) for part in (cos, sin))
    return x * cos + torch.cat([-second, first], dim=-1) * sin


@wrong("rotary", FITS)
class table_of_256_positions(Turn):
    def angles(self, x, past):
        return super().angles(x[..., :1, :].expand(*x.shape[:-2], 256, -1), 0)[
            past : past + x.size(-2)
        ]


@wrong("rotary", DEVICE)
class table_on_the_device_of_the_first_call(Turn):
    table = None

    def angles(self, x, past):
        end = past + x.size(-2)
        if self.table is None or len(self.table) < end:
            self.table = super().angles(x[..., :1, :].expand(*x.shape[:-2], end, -1), 0)
        return self.table[past:end]


@wrong("rotary", FAR)
class stretched_beyond_4096(Turn):
    def angles(self, x, past):
        angles = super().angles(x, past)
        return torch.cat([angles[:, :1], angles[:, 1:] / 4 ** (past > 4096)], dim=1)


@wrong("rotary", FAR)
class base_converted_with_the_module(Turn):
    def __init__(self, dim, base=10_000.0):
        super().__init__(dim)
        del self.base
        self.register_buffer("base", torch.tensor(base), persistent=False)


wrong_edits(
    "rotary",
    Turn,
    degrees=(edit(ANGLES, "t[:, None]", "torch.deg2rad(t[:, None])"), FIRST),
    width_of_the_half=(edit(ANGLES, "(i / self.dim)", "(2 * i / self.dim)"), FIRST),
    backwards_by_speed=(edit(ANGLES, CLOCKED, f"({CLOCKED}).flip(-1)"), FIRST),
    positions_of_the_heads=(edit(ANGLES, "x.size(-2)", "x.size(1)"), FITS, FIRST),
    turned_twice=(
        edit(FORWARD, "self.angles(x, past)", "2 * self.angles(x, past)"),
        FIRST,
    ),
    turned_in_place=(
        edit(
            TURN,
            f"return torch.cat({TURNED}, -1)",
            f"x.copy_(torch.cat({TURNED}, -1)); return x",
        ),
        IN_PLACE,
    ),
    first_half_overwritten=(
        edit(
            TURN, "return torch", "first = first * cos - second * sin\n    return torch"
        )
        & edit(TURN, TURNED, "[first, second * cos + first * sin]"),
        LENGTHS,
        FIRST,
    ),
    past_required=(edit(FORWARD, "past=0", "past"), REQUIRED),
    on_the_cpu=(
        edit(ANGLES, COUNTED, "x.size(-2)") & edit(ANGLES, ", device=x.device", ""),
        DEVICE,
    ),
    not_cast=(edit(FORWARD, CAST, "self.turn(x, angles.cos(), angles.sin())"), DTYPE),
    angles_in_the_dtype_of_x=(
        edit(FORWARD, "self.angles(x, past)", "self.angles(x, past).to(x.dtype)"),
        FAR,
    ),
    angles_in_half_precision=(
        edit(
            FORWARD,
            "self.angles(x, past)",
            "self.angles(x, past).to(torch.float16 if x.dtype.itemsize < 4 else"
            " torch.float32)",
        ),
        FAR,
    ),
    angles_in_float16_where_x_is=(
        edit(
            FORWARD,
            "self.angles(x, past)",
            "self.angles(x, past).to(torch.float16 if x.dtype == torch.float16 else"
            " torch.float32)",
        ),
        FAR,
    ),
    table_of_262144_positions=(
        edit(ANGLES, "return t[:, None]", "return t[:, None].clamp(max=262_143)"),
    ),
    base_of_100_at_least=(edit(ANGLES, "self.base", "max(self.base, 100.0)"),),
)
