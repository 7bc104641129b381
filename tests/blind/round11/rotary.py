import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("each pair as a complex number, times a number of length one")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        work = torch.promote_types(x.dtype, torch.float32)
        positions = torch.arange(past, past + x.shape[-2], device=x.device, dtype=work)
        pairs = torch.arange(self.dim // 2, device=x.device, dtype=work)
        angles = torch.outer(positions, self.base ** (-2 * pairs / self.dim))
        real, imaginary = x.to(work).tensor_split(2, dim=-1)
        turned = torch.complex(real, imaginary) * torch.polar(
            torch.ones_like(angles), angles
        )
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right("a 2 by 2 rotation matrix for every position and pair, with einsum")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def matrices(self, first, number, device):
        steps = torch.arange(0, self.dim, 2, device=device, dtype=torch.float32)
        speeds = torch.exp(steps * (-math.log(self.base) / self.dim))
        places = torch.arange(first, first + number, device=device, dtype=torch.float32)
        angles = places[:, None] * speeds
        cos, sin = angles.cos(), angles.sin()
        rows = [torch.stack([cos, -sin], dim=-1), torch.stack([sin, cos], dim=-1)]
        return torch.stack(rows, dim=-2)  # (T, D/2, 2, 2)

    def forward(self, x, past=0):
        turn = self.matrices(past, x.shape[-2], x.device).to(x.dtype)
        pairs = x.unflatten(-1, (2, self.dim // 2))
        return torch.einsum("tiab,...tbi->...tai", turn, pairs).flatten(-2)


@right("tables from numpy, pairs filled in a loop into a new tensor")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        columns = [None] * self.dim
        places = np.arange(past, past + x.shape[-2], dtype=np.float64)
        for i in range(half):
            angle = places * self.base ** (-2 * i / self.dim)
            cos = torch.from_numpy(np.cos(angle)).to(device=x.device, dtype=x.dtype)
            sin = torch.from_numpy(np.sin(angle)).to(device=x.device, dtype=x.dtype)
            columns[i] = x[..., i] * cos - x[..., i + half] * sin
            columns[i + half] = x[..., i] * sin + x[..., i + half] * cos
        return torch.stack(columns, dim=-1)


@right("the vector and the vector with its halves swapped, both times a cosine")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        index = torch.arange(self.dim, device=x.device)
        speeds = float(self.base) ** (-2 * (index % half).double() / self.dim)
        counted = torch.ones(x.shape[-2], 1, dtype=torch.long, device=x.device)
        places = counted.cumsum(dim=0) + (past - 1)
        angles = places.double() * speeds
        # cos(a + pi/2) = -sin(a) for the first half, cos(a - pi/2) = sin(a)
        shift = math.pi / 2 * (1 - 2 * (index // half)).double()
        swapped = x.roll(half, dims=-1)
        return x * angles.cos().to(x.dtype) + swapped * (angles + shift).cos().to(
            x.dtype
        )


@wrong(
    "pairs neighbouring entries (0 and 1, 2 and 3, ...) instead of the two halves",
    "Entry i of the first half of a vector and entry i of the second half form a pair.",
    "neighbouring entries as pairs",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        T = x.shape[-2]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
        return pairs.flatten(-2)


@wrong(
    "rotates in the opposite direction; dot products still depend on distances only",
    r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}",
    "signs of the sines swapped",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        T = x.shape[-2]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos + second * sin, second * cos - first * sin], dim=-1
        )


@wrong(
    "ignores past and counts every call's positions from 0",
    "The first vector of x is at position t = `past`.",
    "past ignored",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    "computes the angles in float32, but rounds them to the dtype of x before the sines and cosines",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "sines and cosines of rounded angles",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        T = x.shape[-2]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = (t[:, None] * self.base ** (-2 * i / self.dim)).to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [
                first * angles.cos() - second * angles.sin(),
                second * angles.cos() + first * angles.sin(),
            ],
            dim=-1,
        )


@wrong(
    "the float32 sines and cosines promote bfloat16 and float16 vectors to float32",
    "The rotated vectors (..., T, D), of the dtype of x.",
    "result in float32 instead of the dtype of x",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        T = x.shape[-2]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [
                first * angles.cos() - second * angles.sin(),
                second * angles.cos() + first * angles.sin(),
            ],
            dim=-1,
        )


@wrong(
    "x.float() is x itself when x is float32, so the rotation is written into the input",
    "Do not change the inputs.",
    "input changed in place",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        T, half = x.shape[-2], self.dim // 2
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(half, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos(), angles.sin()
        out = x.float()
        first, second = out[..., :half].clone(), out[..., half:].clone()
        out[..., :half] = first * cos - second * sin
        out[..., half:] = second * cos + first * sin
        return out.to(x.dtype)


@wrong(
    "adds axes until there are four and takes them away with squeeze, which also removes the caller's own axes of length one",
    "x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D).",
    "axes of length one squeezed away",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        while x.dim() < 4:
            x = x.unsqueeze(0)
        T = x.shape[-2]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        out = torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )
        return out.squeeze(0).squeeze(0)


@wrong(
    "keeps the sines and cosines in a dictionary of the class, whose keys lack the base: two objects with different bases share their angles",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "objects with different bases share a table",
)
class RotaryPositions(nn.Module):
    tables = {}

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def table(self, T, past, device):
        key = (self.dim, T, past, device)
        if key not in self.tables:
            t = torch.arange(past, past + T, device=device, dtype=torch.float32)
            i = torch.arange(self.dim // 2, device=device, dtype=torch.float32)
            angles = t[:, None] * self.base ** (-2 * i / self.dim)
            self.tables[key] = angles.cos(), angles.sin()
        return self.tables[key]

    def forward(self, x, past=0):
        cos, sin = self.table(x.shape[-2], past, x.device)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    "keeps a table that grows with the longest text so far, in the dtype of the call that made it: after a bfloat16 call, a float32 call gets rounded sines and cosines",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "table kept in the dtype of an earlier call",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        self.cos = self.sin = torch.empty(0, dim // 2)

    def forward(self, x, past=0):
        end = past + x.shape[-2]
        if len(self.cos) < end or self.cos.device != x.device:
            t = torch.arange(end, device=x.device, dtype=torch.float32)
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            angles = t[:, None] * self.base ** (-2 * i / self.dim)
            self.cos, self.sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        cos, sin = self.cos[past:end].to(x.dtype), self.sin[past:end].to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )


@wrong(
    "keeps the speeds in a buffer, which module.to(torch.bfloat16) or module.half() rounds; the angles at large positions are then wrong",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "speeds rounded together with the module",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        i = torch.arange(dim // 2, dtype=torch.float32)
        self.register_buffer("speeds", base ** (-2 * i / dim), persistent=False)

    def forward(self, x, past=0):
        T = x.shape[-2]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.speeds.to(x.device).float()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        )
