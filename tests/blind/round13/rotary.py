import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("multiplies complex numbers in double precision")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        steps = torch.arange(x.size(-2), device=x.device, dtype=torch.float64) + past
        pairs = torch.arange(half, device=x.device, dtype=torch.float64)
        angles = torch.outer(steps, self.base ** (-2 * pairs / self.dim))
        arrows = torch.complex(x[..., :half].double(), x[..., half:].double())
        turned = arrows * torch.polar(torch.ones_like(angles), angles)
        return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


@right("one 2-by-2 matrix for each position and pair, and einsum")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def matrices(self, first, count, device):
        at = torch.arange(first, first + count, device=device, dtype=torch.float32)
        pair = torch.arange(self.dim // 2, device=device, dtype=torch.float32)
        angles = torch.einsum("t,p->tp", at, self.base ** (-2 * pair / self.dim))
        cos, sin = angles.cos(), angles.sin()
        rows = torch.stack((cos, -sin), dim=-1), torch.stack((sin, cos), dim=-1)
        return torch.stack(rows, dim=-2)  # (T, D/2, out, in)

    def forward(self, x, past=0):
        turn = self.matrices(past, x.size(-2), x.device).to(x.dtype)
        pairs = torch.stack(x.chunk(2, dim=-1), dim=-1)
        turned = torch.einsum("tpoi,...tpi->...tpo", turn, pairs)
        return torch.cat(turned.unbind(dim=-1), dim=-1)


@right("a Python loop over the pairs, the speeds from math")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        self.speeds = [math.pow(base, -2 * i / dim) for i in range(dim // 2)]

    def forward(self, x, past=0):
        half = self.dim // 2
        t = torch.arange(past, past + x.shape[-2], device=x.device).double()
        columns = [None] * self.dim
        for i, speed in enumerate(self.speeds):
            cos, sin = torch.cos(t * speed), torch.sin(t * speed)
            a, b = x[..., i].double(), x[..., i + half].double()
            columns[i] = a * cos - b * sin
            columns[i + half] = b * cos + a * sin
        return torch.stack(columns, dim=-1).to(x.dtype)


@right("two rotations, first by the past, then within x")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    @staticmethod
    def turned(x, angles):
        swapped = torch.roll(x, x.size(-1) // 2, dims=-1)  # second half, first half
        minus, plus = -angles.sin(), angles.sin()
        twice = torch.cat((angles.cos(), angles.cos()), dim=-1)
        return x * twice + swapped * torch.cat((minus, plus), dim=-1)

    def forward(self, x, past=0):
        fractions = torch.arange(0, self.dim, 2, device=x.device).double() / self.dim
        speeds = torch.exp(-math.log(self.base) * fractions)
        inside = torch.arange(x.size(-2), device=x.device).double()[:, None] * speeds
        return self.turned(self.turned(x.double(), past * speeds), inside).to(x.dtype)


@wrong(
    "pairs entry 2i with entry 2i + 1",
    "Entry i of the first half of a vector and entry i of the second half form a pair.",
    "pairs neighbours",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t * self.base ** (-i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


@wrong(
    "spreads the exponents evenly from 0 to 1, both included, instead of 2i / D",
    r"\theta_{ti} = t\, b^{-2i/D}, \qquad i = 0, \dots, D/2 - 1",
    "wrong speeds",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        angles = t * self.base ** -torch.linspace(0, 1, self.dim // 2, device=x.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@wrong(
    "rotates the other way round",
    r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}",
    "signs of the sines swapped",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t * self.base ** (-i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1)


@wrong(
    "uses past only if x is a single new token, as in decoding token by token",
    "The first vector of x is at position t = `past`.",
    "past ignored for several new tokens",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        if length == 1:  # a step with a cache
            t = torch.full((1, 1), float(past), device=x.device)
        else:
            t = torch.arange(length, device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t * self.base ** (-i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@wrong(
    "has exact positions in float32, but computes the speeds in the dtype of x, so"
    " that in bfloat16 the angle of a late position is off by whole radians",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "speeds in bfloat16",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(
            past, past + x.size(-2), device=x.device, dtype=torch.float32
        )
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=x.dtype)
        angles = t[:, None] * self.base ** (-i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@wrong(
    "keeps the speeds in a buffer, which module.to(torch.bfloat16) rounds",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "a buffer that is cast with the model",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        speeds = base ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("speeds", speeds, persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        angles = t * self.speeds.to(x.device).float()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@wrong(
    "shares a table of sines and cosines between all objects, under a key without the"
    " base: a second module with another base gets the table of the first",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "shared table, key lacks the base",
    subtle=True,
)
class RotaryPositions(nn.Module):
    tables = {}

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def table(self, past, length, device):
        key = (self.dim, past, length, device)
        if key not in self.tables:
            t = torch.arange(past, past + length, device=device).float()[:, None]
            i = torch.arange(0, self.dim, 2, device=device).float()
            angles = t * self.base ** (-i / self.dim)
            self.tables[key] = angles.cos(), angles.sin()
        return self.tables[key]

    def forward(self, x, past=0):
        cos, sin = (y.to(x.dtype) for y in self.table(past, x.size(-2), x.device))
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@wrong(
    "keeps a table in the dtype of the call that made it: after a bfloat16 call, a"
    " float32 call uses sines and cosines that were rounded to bfloat16",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "table in the dtype of an earlier call",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        self.cos = self.sin = None

    def forward(self, x, past=0):
        end = past + x.size(-2)
        if self.cos is None or len(self.cos) < end:
            t = torch.arange(end, device=x.device).float()[:, None]
            i = torch.arange(0, self.dim, 2, device=x.device).float()
            angles = t * self.base ** (-i / self.dim)
            self.cos, self.sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        cos, sin = self.cos[past:end].to(x), self.sin[past:end].to(x)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@wrong(
    "casts x to float32 for the rotation: a float64 entry of 1e300 becomes infinite,"
    " one of 1e-300 becomes 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "float64 vectors squeezed through float32",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t * self.base ** (-i / self.dim)
        cos, sin = angles.cos(), angles.sin()
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


@wrong(
    "squeezes the angles: with D = 2 and T > 1 they are (T,) instead of (T, 1), and the"
    " result is (..., T, 2T)",
    "The rotated vectors (..., T, D), of the dtype of x.",
    "squeeze() drops the axis of a single pair",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = (t.unsqueeze(1) * self.base ** (-i / self.dim)).squeeze()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
