import math

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("complex numbers: multiplies each pair by a unit number, in double precision")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float64)
        i = torch.arange(half, device=x.device, dtype=torch.float64)
        angle = torch.outer(t, float(self.base) ** (-2 * i / self.dim))
        unit = torch.polar(torch.ones_like(angle), angle)
        wide = x.double()
        turned = torch.complex(wide[..., :half], wide[..., half:]) * unit
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right("a 2 by 2 matrix for each position and pair, applied with einsum")
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        wide = torch.promote_types(x.dtype, torch.float32)
        t = past + torch.arange(x.size(-2), device=x.device)
        i = torch.arange(self.dim // 2, device=x.device)
        speed = torch.exp(i.double() * (-2 * math.log(self.base) / self.dim))
        angle = t.double()[:, None] * speed
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack(
            [torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], dim=-2
        ).to(wide)  # (T, D/2, 2, 2)
        pairs = x.to(wide).unflatten(-1, (2, -1))  # (..., T, 2, D/2)
        turned = torch.einsum("tiab,...tbi->...tai", matrix, pairs)
        return turned.flatten(-2).to(x.dtype)


@right("a loop over the pairs, angles with Python's math for the speeds, float64")
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        columns = list(x.double().unbind(dim=-1))
        half = self.dim // 2
        t = torch.arange(x.size(-2), dtype=torch.float64, device=x.device) + past
        for i in range(half):
            theta = t * math.pow(self.base, -2 * i / self.dim)
            cos, sin = torch.cos(theta), torch.sin(theta)
            a, b = columns[i], columns[i + half]
            columns[i], columns[i + half] = a * cos - b * sin, b * cos + a * sin
        return torch.stack(columns, dim=-1).to(x.dtype)


@right("turns coarse steps of 64 positions and fine steps one after the other (angles add up)")
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def _turn(self, x, t):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        angle = t.to(torch.float64).unsqueeze(-1) / self.base ** (2 * i / self.dim)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        first, second = x.tensor_split(2, dim=-1)
        return torch.addcmul(x * cos, torch.cat([-second, first], dim=-1), sin)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device)
        fine = t % 64
        return self._turn(self._turn(x.double(), t - fine), fine).to(x.dtype)


# ---------------------------------------------------------------- wrong


@wrong(
    "pairs neighbouring entries 2i and 2i + 1",
    "Entry i of the first half of a vector and entry i of the second half form a pair.",
    "pairs neighbouring entries",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).double()
        i = torch.arange(0, self.dim, 2, device=x.device).double()
        angle = t[:, None] * self.base ** (-i / self.dim)
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., 0::2].double(), x[..., 1::2].double()
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1)
        return turned.flatten(-2).to(x.dtype)


@wrong(
    "ignores past and starts at position 0",
    "The first vector of x is at position t = `past`.",
    "ignores the past",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "leaves the sines and cosines in float32, so bfloat16 vectors come back in float32",
    "The rotated vectors (..., T, D), of the dtype of x.",
    "returns float32 for bfloat16",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angle.cos(), angle.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "the exponent is -i/D instead of -2i/D, so the slow pairs turn too fast",
    "Each pair turns more slowly than the pair before, and the base $b$ controls how much more slowly:",
    "forgets the 2 in the exponent",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-i / self.dim)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "adds past as a number of the dtype of x: in bfloat16 a past above 256 is rounded, everything else is in float32",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "rounds past to bfloat16",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        start = x.new_tensor(past).float()
        t = start + torch.arange(x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "keeps the sines and cosines of earlier calls in the dtype of the first x; after a bfloat16 call, a float64 call gets the rounded ones",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "keeps a table of the first dtype",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        self.table = None

    def forward(self, x, past=0):
        need = past + x.size(-2)
        if self.table is None or self.table[0].size(0) < need:
            t = torch.arange(need, device=x.device, dtype=torch.float64)
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
            angle = t[:, None] * self.base ** (-2 * i / self.dim)
            self.table = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        cos, sin = (part[past:need].to(x) for part in self.table)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "uses past only for a single new vector; several vectors are taken for the beginning of a text",
    "Count the positions from `past`, the number of tokens that came before x.",
    "uses past only when T is 1",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        start = past if length == 1 else 0  # decoding or prompt
        t = torch.arange(start, start + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "has a table of 4,096 positions and clamps all later positions to the last row",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "table of positions is too short",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        i = torch.arange(dim // 2, dtype=torch.float64)
        self.angles = torch.arange(4096.0).double()[:, None] * base ** (-2 * i / dim)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2)).clamp(max=len(self.angles) - 1)
        angle = self.angles[t].to(x.device)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "converts every x to float32 for the rotation and back, so float64 vectors lose half of their digits",
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points.",
    "rotates float64 vectors in float32",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float64)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angle.cos().float(), angle.sin().float()
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


@wrong(
    "rotates under no_grad, so no gradient reaches x",
    "Gradients must be right, too.",
    "no gradient reaches x",
)
class RotaryPositions(nn.Module):  # noqa: F811
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    @torch.no_grad()  # positions are not trained
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
