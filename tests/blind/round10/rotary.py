import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("complex numbers: each pair is multiplied by a number of length one")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        speeds = self.base ** (
            -2 * torch.arange(half, device=x.device, dtype=torch.float32) / self.dim
        )
        positions = torch.arange(past, past + x.size(-2), device=x.device)
        angles = torch.outer(positions.float(), speeds)
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        real, imaginary = x.to(wide).chunk(2, dim=-1)
        turn = torch.complex(angles.cos().to(wide), angles.sin().to(wide))
        turned = torch.complex(real.contiguous(), imaginary.contiguous()) * turn
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right("a loop over the positions; the vectors are filled into a new tensor")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = x.shape[-1] // 2
        result = torch.empty_like(x)
        steps = torch.arange(half, device=x.device, dtype=torch.float32)
        speeds = torch.exp(-2 * steps / self.dim * math.log(self.base))
        for t in range(x.shape[-2]):
            angle = (past + t) * speeds
            c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            a, b = x[..., t, :half], x[..., t, half:]
            result[..., t, :half] = a * c - b * s
            result[..., t, half:] = b * c + a * s
        return result


@right("pairs as an axis of length two and one 2 x 2 matrix per position and pair")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        index = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = past + torch.arange(x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] / self.base ** (2 * index / self.dim)
        c, s = angles.cos(), angles.sin()
        matrices = torch.stack(
            [torch.stack([c, -s], -1), torch.stack([s, c], -1)], dim=-2
        ).to(x.dtype)  # (T, D/2, 2, 2)
        pairs = x.unflatten(-1, (2, -1))  # (..., T, 2, D/2)
        turned = torch.einsum("tikl,...tli->...tki", matrices, pairs)
        return turned.flatten(-2)


@right("swaps the halves with roll, and puts the minus into the sines; keyword-only extra")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0, *, sign=1):
        super().__init__()
        self.dim, self.base, self.sign = dim, base, sign

    def extra_repr(self):
        return f"dim={self.dim}, base={self.base}"

    def angles(self, length, past, device):
        kind = {"dtype": torch.float32, "device": device}
        pairs = torch.arange(0, self.dim, 2, **kind)
        t = torch.arange(past, past + length, **kind)
        return torch.einsum("t,i->ti", t, self.base ** (-pairs / self.dim))

    def forward(self, x, past=0):
        angles = self.sign * self.angles(x.shape[-2], past, x.device)
        cos = torch.cos(torch.cat([angles, angles], dim=-1)).to(x.dtype)
        sin = torch.sin(torch.cat([-angles, angles], dim=-1)).to(x.dtype)
        return torch.addcmul(x * cos, x.roll(self.dim // 2, dims=-1), sin)


@wrong(
    'takes neighbouring entries 2i and 2i + 1 for a pair: other numbers from position 1 on, if D > 2',
    'Entry i of the first half of a vector and entry i of the second half form a pair.',
    'neighbouring entries are paired',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * steps / self.dim)
        positions = torch.arange(
            past, past + x.size(-2), device=x.device, dtype=torch.float32
        )
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
        return turned.flatten(-2)


@wrong(
    'counts from 0 whatever `past` is: wrong for each call with past > 0',
    '- Count the positions from `past`, the number of tokens that came before.',
    'past is ignored',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * steps / self.dim)
        positions = torch.arange(x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    'the second half is computed from the first half that is rotated already, so it is wrong from position 1 on',
    "x'_{t,i+D/2} = x_{t,i+D/2} \\cos\\theta_{ti} + x_{t,i} \\sin\\theta_{ti}",
    'second half uses the rotated first half',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * steps / self.dim)
        positions = torch.arange(
            past, past + x.size(-2), device=x.device, dtype=torch.float32
        )
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        first = first * cos - second * sin
        second = second * cos + first * sin
        return torch.cat([first, second], dim=-1)


@wrong(
    'makes the angles in the dtype of x: in bfloat16, positions above 256 are rounded',
    '- Compute the angles, their sines and their cosines in float32 even if x has a different dtype, because bfloat16 cannot tell 256 from 257.',
    'angles are computed in bfloat16',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = (self.base ** (-2 * steps / self.dim)).to(x.dtype)
        positions = torch.arange(past, past + x.size(-2), device=x.device).to(x.dtype)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos(), angles.sin()
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    'reads the number of positions off axis 1 and shapes the angles for (B, T, D): (T, D) and (B, H, T, D) raise or are wrong',
    '- x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D).',
    'only inputs with three axes work',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * steps / self.dim)
        positions = torch.arange(
            past, past + x.size(1), device=x.device, dtype=torch.float32
        )
        angles = (positions[:, None] * speeds)[None]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    'spreads the speeds with linspace, so that the slowest pair gets the exponent -1 and not -(D - 2) / D: right for D = 2, wrong for D >= 4',
    '\\theta_{ti} = t\\, b^{-2i/D}, \\qquad i = 0, \\dots, D/2 - 1',
    'last pair turns too slowly',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        exponents = torch.linspace(
            0, 1, self.dim // 2, device=x.device, dtype=torch.float32
        )
        speeds = self.base**-exponents
        positions = torch.arange(
            past, past + x.size(-2), device=x.device, dtype=torch.float32
        )
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    'converts x to float32 for the rotation and back: float64 vectors beyond the range of float32 (1e200) become inf or nan, and tiny ones 0',
    '- Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'float64 vectors pass through float32',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * steps / self.dim)
        positions = torch.arange(
            past, past + x.size(-2), device=x.device, dtype=torch.float32
        )
        angles = positions[:, None] * speeds
        cos, sin = angles.cos(), angles.sin()
        first, second = x.float().chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        ).to(x.dtype)


@wrong(
    'keeps the speeds as a buffer: model.bfloat16() (or .half()) rounds them, and the angles of later positions are then far off',
    '- Compute the angles, their sines and their cosines in float32 even if x has a different dtype, because bfloat16 cannot tell 256 from 257.',
    'speeds are rounded when the module is converted',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        steps = torch.arange(dim // 2, dtype=torch.float32)
        self.register_buffer("speeds", base ** (-2 * steps / dim), persistent=False)

    def forward(self, x, past=0):
        positions = torch.arange(
            past, past + x.size(-2), device=x.device, dtype=torch.float32
        )
        angles = positions[:, None] * self.speeds.float()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    'adds `past` only if there is a single new vector, as in decoding token by token: wrong for several new vectors with past > 0',
    'The first vector of x is at position t = `past`.',
    'past only counts for a single new token',
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * steps / self.dim)
        length = x.size(-2)
        if length == 1:  # one new token: it comes after the others
            positions = torch.full((1,), past, device=x.device, dtype=torch.float32)
        else:
            positions = torch.arange(length, device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    'one growing table of angles for all objects, found by the width alone: a second object of the same width with another base gets the angles of the first',
    '- The result of a call must not depend on earlier calls or on other objects of the same class.',
    'table is shared between different bases',
)
class RotaryPositions(nn.Module):
    tables = {}

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        end = past + x.size(-2)
        table = self.tables.get((self.dim, x.device))
        if table is None or len(table) < end:
            steps = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            speeds = self.base ** (-2 * steps / self.dim)
            positions = torch.arange(end, device=x.device, dtype=torch.float32)
            table = self.tables[self.dim, x.device] = positions[:, None] * speeds
        angles = table[past:end]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )
