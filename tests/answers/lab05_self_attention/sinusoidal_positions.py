"""Answers to sinusoidal_positions."""

import math

import torch
from answers.core import draw, right, wide, with_part, wrong
from answers.lab05_self_attention.shapes import sizes
from answers.signs import DEVICE, DTYPE, FITS, IN_PLACE, ONE_AXIS, REQUIRED
from torch import nn

from nbjudge.question import Request


@wide("sinusoidal_positions")
def any_places(g):
    for b, t, half, past, _ in sizes(g):
        yield Request((draw(g, b, t, 2 * half), None), (2 * half,), gradients=True)
        yield Request(
            (draw(g, b, 9 * t, 2 * half), past),
            (2 * half,),
            gradients=True,
        )


class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        return x + self.lay(self.angles(x, past)).to(x.dtype)

    def angles(self, x, past):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (
            torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
            / self.dim
        )
        return t[:, None] / powers

    def lay(self, angles):
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


right("sinusoidal_positions")(Positions)


def positions(**parts):
    return type(next(iter(parts.values())).__name__, (Positions,), parts)


@right("sinusoidal_positions")
@with_part(Positions, "lay")
def filled_by_slices(self, angles):
    p = torch.zeros(angles.size(0), self.dim, device=angles.device)
    p[:, 0::2] = angles.sin()
    p[:, 1::2] = angles.cos()
    return p


@right("sinusoidal_positions")
@with_part(Positions, "lay")
def cosines_as_late_sines(self, angles):
    return torch.sin(torch.stack([angles, angles + math.pi / 2], dim=2)).view(
        angles.size(0), -1
    )


@right("sinusoidal_positions")
@with_part(Positions, "lay")
def interleaved_by_columns(self, angles):
    columns = [
        f(angles[:, i]) for i in range(angles.size(1)) for f in (torch.sin, torch.cos)
    ]
    return torch.stack(columns, dim=1)


@right("sinusoidal_positions")
@with_part(Positions, "lay")
def hands_of_complex_numbers(self, angles):
    return torch.stack(
        [torch.cos(math.pi / 2 - angles), torch.cos(angles)], -1
    ).reshape(-1, self.dim)


@right("sinusoidal_positions")
@with_part(Positions, "angles")
def powers_by_exp(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device).float()
    i = torch.arange(self.dim // 2, device=x.device).float()
    return t.unsqueeze(1) * torch.exp(-2 * i / self.dim * math.log(10000.0))


@right("sinusoidal_positions")
@with_part(Positions, "angles")
def outer_product(self, x, past):
    t = torch.arange(x.size(1), device=x.device, dtype=torch.float64) + past
    i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
    return torch.outer(t, 10000.0 ** (-2 * i / self.dim))


@right("sinusoidal_positions")
@with_part(Positions, "angles")
def counted_by_cumsum(self, x, past):
    t = torch.ones(x.size(1), 1, device=x.device).cumsum(0) - 1 + past
    return t / torch.pow(
        10000.0, torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
    )


@right("sinusoidal_positions")
@with_part(Positions, "angles")
def plain_python_powers(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
    return torch.stack(
        [t / 10000 ** (2 * i / self.dim) for i in range(self.dim // 2)], dim=1
    )


@right("sinusoidal_positions")
@with_part(Positions, "forward")
def token_by_token(self, x, past=0):
    rows = []
    for t in range(x.size(1)):
        rows.append(x[:, t] + self.lay(self.angles(x[:, :1], past + t))[0].to(x.dtype))
    return torch.stack(rows, dim=1)


@right("sinusoidal_positions")
@with_part(Positions, "forward")
def even_and_odd_apart(self, x, past=0):
    angles = self.angles(x, past)
    even, odd = (
        x[..., 0::2] + angles.sin().to(x.dtype),
        x[..., 1::2] + angles.cos().to(x.dtype),
    )
    return torch.stack([even, odd], dim=-1).flatten(-2)


@wrong("sinusoidal_positions", "all sines before all cosines")
@with_part(Positions, "lay")
def halves(self, angles):
    return torch.cat((torch.sin(angles), torch.cos(angles)), dim=1)


@wrong("sinusoidal_positions", "clocks half as far apart")
@with_part(Positions, "angles")
def without_the_two(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device).float()
    return t[:, None] / 10000 ** (
        torch.arange(self.dim // 2, device=x.device) / self.dim
    )


@wrong("sinusoidal_positions", "the past is ignored")
@with_part(Positions, "forward")
def always_from_zero(self, x, past=0):
    return Positions.forward(self, x, 0)


@wrong("sinusoidal_positions", "positions returned, not added")
@with_part(Positions, "forward")
def positions_alone(self, x, past=0):
    return (
        self.lay(self.angles(x, past))
        .to(x.dtype)
        .unsqueeze(0)
        .expand(x.size(0), -1, -1)
    )


@wrong("sinusoidal_positions", "right at the first position alone")
@with_part(Positions, "angles")
def thousand(self, x, past):
    t = torch.arange(past, past + x.size(1), device=x.device).float()
    return t[:, None] / 1000 ** (
        torch.arange(0, self.dim, 2, device=x.device) / self.dim
    )


@wrong("sinusoidal_positions", "right at the first position alone")
@with_part(Positions, "angles")
def degrees(self, x, past):
    return Positions.angles(self, x, past) * 2 * math.pi


@wrong("sinusoidal_positions", IN_PLACE)
@with_part(Positions, "forward")
def added_in_place(self, x, past=0):
    x += self.lay(self.angles(x, past)).to(x.dtype)
    return x


@wrong("sinusoidal_positions", DEVICE)
@with_part(Positions, "angles")
def counted_on_the_cpu(self, x, past):
    t = torch.arange(past, past + x.size(1), dtype=torch.float32)
    return t[:, None] / 10000 ** (
        torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim
    )


@wrong("sinusoidal_positions", DTYPE)
@with_part(Positions, "forward")
def not_cast(self, x, past=0):
    return x + self.lay(self.angles(x, past))


@wrong("sinusoidal_positions", FITS, "right at the first position alone", ONE_AXIS)
@with_part(Positions, "angles")
def along_the_batch(self, x, past):
    t = torch.arange(past, past + x.size(0), device=x.device).float()
    return t[:, None] / 10000 ** (
        torch.arange(0, self.dim, 2, device=x.device) / self.dim
    )


@wrong("sinusoidal_positions")
@with_part(Positions, "forward")
def multiplied(self, x, past=0):
    return x * self.lay(self.angles(x, past)).to(x.dtype)


@wrong("sinusoidal_positions", REQUIRED)
@with_part(Positions, "forward")
def past_required(self, x, past):
    return Positions.forward(self, x, past)


@wrong("sinusoidal_positions", "positions counted in half precision")
@with_part(Positions, "forward")
def counted_in_the_dtype_of_x(self, x, past=0):
    t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
    angles = t[:, None] / 10000 ** (
        torch.arange(0, self.dim, 2, device=x.device) / self.dim
    ).to(x.dtype)
    return x + self.lay(angles)
