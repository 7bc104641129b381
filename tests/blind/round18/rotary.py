import math

import torch
from torch import nn

from blind import right, wrong


@right('partner entries by roll, signed sines over the full width')
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        half = self.dim // 2
        exact = torch.promote_types(x.dtype, torch.float32)
        where = torch.arange(past, past + x.shape[-2], device=x.device).double()
        pair = torch.arange(self.dim, device=x.device) % half
        angle = where[:, None] * self.base ** (-2 * pair.double() / self.dim)
        sign = torch.where(torch.arange(self.dim, device=x.device) < half, -1.0, 1.0)
        wide = x.to(exact)
        turned = wide * angle.cos().to(exact) + wide.roll(half, dims=-1) * (
            sign * angle.sin()
        ).to(exact)
        return turned.to(x.dtype)


@right('complex numbers: each pair is one number, times exp(i theta), in complex128')
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        real, imaginary = x.double().tensor_split(2, dim=-1)
        speeds = torch.logspace(
            0, -2 * (self.dim // 2 - 1) / self.dim, self.dim // 2,
            base=self.base, dtype=torch.float64, device=x.device,
        )
        where = past + torch.arange(x.shape[-2], dtype=torch.float64, device=x.device)
        angles = torch.outer(where, speeds)
        turned = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right('2 x 2 rotation matrices per position and pair, one einsum')
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        exact = torch.promote_types(x.dtype, torch.float32)
        index = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float64) + past
        angle = torch.einsum("t,k->tk", where, torch.exp(-2 * index / self.dim * math.log(self.base)))
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
        pairs = x.to(exact).unflatten(-1, (2, self.dim // 2))
        turned = torch.einsum("tijk,...tjk->...tik", matrix.to(exact), pairs)
        return turned.flatten(-2).to(x.dtype)


@right('a Python loop over the pairs, speeds as Python numbers, columns stacked at the end')
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        half = self.dim // 2
        where = torch.tensor(
            [float(past + t) for t in range(x.shape[-2])],
            dtype=torch.float64, device=x.device,
        )
        columns = [None] * self.dim
        for i in range(half):
            angle = where / math.pow(self.base, 2 * i / self.dim)
            a, b = x[..., i].double(), x[..., i + half].double()
            columns[i] = a * torch.cos(angle) - b * torch.sin(angle)
            columns[i + half] = b * torch.cos(angle) + a * torch.sin(angle)
        return torch.stack(columns, dim=-1).to(x.dtype)


@wrong(
    'pairs neighbours: entries 2i and 2i + 1',
    breaks='Entry i of the first half of a vector and entry i of the second half form a pair.',
    name='neighbours are paired',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past, past + x.shape[-2], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x[..., 0::2], x[..., 1::2]
        turned = [first * cos - second * sin, second * cos + first * sin]
        return torch.stack(turned, dim=-1).flatten(-2)


@wrong(
    'the exponent is -i/D instead of -2i/D',
    breaks='\\theta_{ti} = t\\, b^{-2i/D}, \\qquad i = 0, \\dots, D/2 - 1',
    name='half of the exponent',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past, past + x.shape[-2], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'counts the positions from 1: the first vector is at position past + 1',
    breaks='The first vector of x is at position t = `past`.',
    name='positions off by one',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past + 1, past + 1 + x.shape[-2], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'the second half is computed from the first half that has been rotated already',
    breaks="x'_{t,i+D/2} = x_{t,i+D/2} \\cos\\theta_{ti} + x_{t,i} \\sin\\theta_{ti}",
    name='overwritten too early',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past, past + x.shape[-2], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        first = first * cos - second * sin
        second = second * cos + first * sin
        return torch.cat([first, second], dim=-1)


@wrong(
    'makes the positions in the dtype of x and only then turns to float32, so bfloat16 rounds positions above 256',
    breaks='Positions and counts must be exact in every dtype.',
    name='positions in bfloat16',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past, past + x.shape[-2], device=x.device, dtype=x.dtype).float()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'remembers the sines and cosines on the class, by width, length and past but not by base',
    breaks='The result of a call must not depend on earlier calls or on other objects of the same class.',
    name='table shared by all objects',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    tables = {}

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        key = (self.dim, x.shape[-2], past, x.device)
        if key not in self.tables:
            where = torch.arange(past, past + x.shape[-2], device=x.device).double()
            index = torch.arange(self.dim // 2, device=x.device).double()
            angles = where[:, None] * self.base ** (-2 * index / self.dim)
            self.tables[key] = angles.cos(), angles.sin()
        cos, sin = (table.to(x.dtype) for table in self.tables[key])

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'a single vector is returned as it is, even if it has a past',
    breaks='The first vector of x is at position t = `past`.',
    name='one token is not rotated',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        if x.shape[-2] == 1:  # nothing to be far away from
            return x.clone()

        where = torch.arange(past, past + x.shape[-2], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'looks the angles up in a table of 4,096 positions; later positions get the last row',
    breaks='Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode.',
    name='a last position',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past, past + x.shape[-2], device=x.device).clamp(max=4095).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'counts along axis 1, which are the heads if x is (B, H, T, D)',
    breaks='x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D).',
    name='rotates along the heads',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        axis = min(1, x.dim() - 2)
        where = torch.arange(past, past + x.shape[axis], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        for _ in range(x.dim() - 2 - axis):
            angles = angles.unsqueeze(1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong(
    'the swapped halves are written into a buffer without gradients, so half of the gradient is lost',
    breaks='Gradients must be right, too.',
    name='half of the gradient is lost',
)
class RotaryPositions(nn.Module):
    """Encode positions by rotating queries and keys."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        """Rotate each vector by the angles of its position."""
        where = torch.arange(past, past + x.shape[-2], device=x.device).double()
        index = torch.arange(self.dim // 2, device=x.device).double()
        angles = where[:, None] * self.base ** (-2 * index / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

        swapped = torch.empty_like(x)
        with torch.no_grad():
            swapped[..., : self.dim // 2] = -x[..., self.dim // 2 :]
            swapped[..., self.dim // 2 :] = x[..., : self.dim // 2]
        return x * torch.cat([cos, cos], dim=-1) + swapped * torch.cat([sin, sin], dim=-1)
