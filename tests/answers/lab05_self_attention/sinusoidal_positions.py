"""Answers to sinusoidal_positions."""

import torch
from answers.core import draw, right, right_edits, wide, with_part, wrong_edits
from answers.lab05_self_attention.shared import sizes
from answers.signs import DEVICE, DTYPE, FITS, IN_PLACE, ONE_AXIS, REQUIRED
from torch import nn

from nbjudge import Request, edit


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
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        return t[:, None] / 10000 ** (i / self.dim)

    def lay(self, angles):
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


right("sinusoidal_positions")(Positions)


@right("sinusoidal_positions")
@with_part(Positions, "lay")
def filled_by_slices(self, angles):
    p = torch.zeros(angles.size(0), self.dim, device=angles.device)
    p[:, 0::2] = angles.sin()
    p[:, 1::2] = angles.cos()
    return p


@right("sinusoidal_positions")
@with_part(Positions, "lay")
def interleaved_by_columns(self, angles):
    columns = [
        f(angles[:, i]) for i in range(angles.size(1)) for f in (torch.sin, torch.cos)
    ]
    return torch.stack(columns, dim=1)


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


FORWARD, ANGLES, LAY = Positions.forward, Positions.angles, Positions.lay
FAR = "wrong far from the start"
STACKED = "torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)"
PLACED, FIRST = "self.lay(self.angles(x, past))", "right only at the first position"
CLOCKED = "t[:, None] / 10000 ** (i / self.dim)"
PLACES, CLOCKS = "x.size(1), device=x.device", "2, device=x.device"
right_edits(
    "sinusoidal_positions",
    Positions,
    powers_by_exp=edit(
        ANGLES,
        CLOCKED,
        "t[:, None] * (-i / self.dim * torch.full_like(i, 10000.0).log()).exp()",
    ),
    outer_product=edit(
        ANGLES, CLOCKED, "torch.outer(t.double(), 10000.0 ** (-i.double() / self.dim))"
    ),
    counted_by_cumsum=edit(
        ANGLES, "t[:, None]", "((t * 0 + 1).cumsum(0)[:, None] - 1 + past)"
    ),
    plain_python_powers=edit(
        ANGLES,
        CLOCKED,
        "torch.stack([t / 10000 ** (2 * n / self.dim) for n in range(len(i))], dim=1)",
    ),
    cosines_as_late_sines=edit(
        LAY,
        STACKED,
        "torch.sin(torch.stack([angles, angles + torch.pi / 2], 2)).view(len(angles), -1)",
    ),
    hands_of_complex_numbers=edit(
        LAY, "angles.sin(), angles.cos()", "(torch.pi / 2 - angles).cos(), angles.cos()"
    ),
)
wrong_edits(
    "sinusoidal_positions",
    Positions,
    thousand=(edit(ANGLES, "10000", "1000"), FIRST),
    degrees=(edit(ANGLES, "t[:, None]", "2 * torch.pi * t[:, None]"), FIRST),
    along_the_batch=(edit(ANGLES, "x.size(1)", "x.size(0)"), FITS, FIRST, ONE_AXIS),
    counted_on_the_cpu=(
        edit(ANGLES, PLACES, "x.size(1)") & edit(ANGLES, CLOCKS, "2"),
        DEVICE,
    ),
    added_in_place=(
        edit(FORWARD, "return x + ", "x += ")
        & edit(FORWARD, ".to(x.dtype)", ".to(x.dtype)\n    return x"),
        IN_PLACE,
    ),
    not_cast=(edit(FORWARD, ".to(x.dtype)", ""), DTYPE),
    multiplied=(edit(FORWARD, "x + ", "x * "),),
    past_required=(edit(FORWARD, "past=0", "past"), REQUIRED),
    counted_in_the_dtype_of_x=(
        edit(ANGLES, f"{PLACES}, dtype=torch.float32", f"{PLACES}, dtype=x.dtype")
        & edit(ANGLES, f"{CLOCKS}, dtype=torch.float32", f"{CLOCKS}, dtype=x.dtype"),
        "wrong at large positions in half precision",
    ),
    past_in_the_dtype_of_x=(
        edit(ANGLES, "past, past + x.size(1)", "x.size(1)")
        & edit(
            ANGLES, "t[:, None]", "(t + torch.full_like(x[0, 0, 0], past))[:, None]"
        ),
        "wrong at large positions in half precision",
    ),
    only_bfloat16_is_coarse=(
        edit(
            ANGLES,
            f"{PLACES}, dtype=torch.float32",
            f"{PLACES}, dtype=x.dtype if x.dtype == torch.float16 else None",
        ),
        "wrong at large positions in half precision",
    ),
    ten_thousand_rows=(
        edit(FORWARD, PLACED, "self.lay(self.angles(x.new_empty(1, 10000), 0))")
        & edit(FORWARD, ".to(x.dtype)", ".to(x.dtype)[past : past + x.size(1)]"),
        FAR,
        FITS,
    ),
    begins_anew_after_ten_thousand=(
        edit(ANGLES, "t[:, None]", "(t % 10000)[:, None]"),
        FAR,
    ),
    counted_in_int16=(edit(ANGLES, "t[:, None]", "t.to(torch.int16)[:, None]"), FAR),
    counts_on_by_itself=(
        edit(
            FORWARD,
            "return",
            "if not self.training and x.size(1) == 1:\n"
            "        past = getattr(self, 'past', -1) + 1\n"
            "    self.past = past\n"
            "    return",
        ),
    ),
    kept_for_all_devices=(
        edit(
            FORWARD,
            PLACED,
            f"kept.setdefault((x.shape[1:], past, x.dtype), {PLACED})",
        )
        & edit(FORWARD, "past=0", "past=0, kept={}"),
        DEVICE,
    ),
)
