import math

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

PAIRS = "Entry i of the first half of a vector and entry i of the second half form a pair."
TURN = r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}"
ANGLE = r"\theta_{ti} = t\, b^{-2i/D}, \qquad i = 0, \dots, D/2 - 1"
PAST = "Count the positions from `past`, the number of tokens that came before x."
FIRST = "The first vector of x is at position t = `past`."
AXES = "x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D)."
FLOAT32 = "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257."
RETURNS = "The rotated vectors (..., T, D), of the dtype of x."
GRADIENTS = "Gradients must be right, too."
OTHERS = "The result of a call must not depend on earlier calls or on other objects of the same class."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."


# ---------------------------------------------------------------- right answers


@right("pairs as complex numbers, multiplied by numbers of length 1")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        wide = x.double()
        arrows = torch.complex(wide[..., :half], wide[..., half:])
        i = torch.arange(half, device=x.device, dtype=torch.float64)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float64)
        angles = torch.outer(t, self.base ** (-2 * i / self.dim))
        arrows = arrows * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([arrows.real, arrows.imag], dim=-1).to(x.dtype)


@right("a 2 by 2 matrix for each position and pair, with einsum; speeds from exp and log")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim = dim
        self.log_base = math.log(base)

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        t = past + torch.arange(x.shape[-2], device=x.device)
        angles = t[:, None] * torch.exp(-2 * i * self.log_base / self.dim)
        cos, sin = angles.cos(), angles.sin()
        turns = torch.stack([cos, -sin, sin, cos], dim=-1).unflatten(-1, (2, 2))
        pairs = x.unflatten(-1, (2, self.dim // 2))
        turned = torch.einsum("tijk,...tki->...tji", turns.to(x.dtype), pairs)
        return turned.flatten(-2)


@right("the vectors times the cosines plus the rolled vectors times signed sines")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        speeds = [self.base ** (-2 * (i % half) / self.dim) for i in range(self.dim)]
        signs = [-1.0] * half + [1.0] * half
        speeds = torch.tensor(speeds, dtype=torch.float64, device=x.device)
        signs = torch.tensor(signs, dtype=torch.float64, device=x.device)
        positions = torch.arange(x.size(-2), device=x.device) + past
        angles = positions.double().unsqueeze(-1) * speeds
        result = x * angles.cos() + x.roll(half, dims=-1) * (signs * angles.sin())
        return result.to(x.dtype)


@right("one pair after the other, all positions at once, joined with stack")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.half, self.speed = dim // 2, 1 / base ** (2 / dim)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), dtype=torch.float64, device=x.device)
        columns = list(x.unbind(dim=-1))
        for i in range(self.half):
            cos = torch.cos(t * self.speed**i).to(x.dtype)
            sin = torch.sin(t * self.speed**i).to(x.dtype)
            a, b = columns[i], columns[i + self.half]
            columns[i], columns[i + self.half] = a * cos - b * sin, b * cos + a * sin
        return torch.stack(columns, dim=-1)


# ---------------------------------------------------------------- wrong answers


@wrong("rotates the entries 2i and 2i + 1 together",
       breaks=PAIRS, name="neighbors form the pairs")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)


@wrong("rotates to the other side",
       breaks=TURN, name="the signs of the sines are swapped")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


@wrong("counts the positions from 0 in every call",
       breaks=PAST, name="ignores past")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong("computes the speeds as b ** (-i / D)",
       breaks=ANGLE, name="the 2 in the exponent is missing")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong("makes positions and speeds in the dtype of x",
       breaks=FLOAT32, name="bfloat16 positions above 256 are rounded")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        t = torch.arange(past, past + x.size(-2), device=x.device).to(x.dtype)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


TABLES = {}  # sines and cosines by width and positions


@wrong("keeps the sines and cosines of all objects in one dict, by width and positions",
       breaks=OTHERS, name="an object with another base gets the angles of the first one")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        key = self.dim, past, x.size(-2), x.device
        if key not in TABLES:
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
            t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float64)
            angles = t[:, None] * self.base ** (-2 * i / self.dim)
            TABLES[key] = angles.cos(), angles.sin()
        cos, sin = (table.to(x.dtype) for table in TABLES[key])
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong("gives the first vector the position past + 1, so that all scores stay right",
       breaks=FIRST, name="counts the positions from 1")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.ones(x.size(-2), device=x.device, dtype=torch.float32).cumsum(0) + past
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong("multiplies x by float32 sines and cosines and leaves the dtype to PyTorch",
       breaks=RETURNS, name="bfloat16 vectors give a float32 result")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@wrong("computes the swapped half under no_grad, together with the sines",
       breaks=GRADIENTS, name="the gradient through the sines is lost")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        with torch.no_grad():
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
            angles = t[:, None] * self.base ** (-2 * i / self.dim)
            angles = torch.cat([angles, angles], dim=-1)
            cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
            first, second = x.chunk(2, dim=-1)
            swapped = torch.cat([-second, first], dim=-1)
        return x * cos + swapped * sin


@wrong("takes the angles modulo 2 * 3.1416 before the sines",
       breaks=LENGTHS, name="the angles of late positions drift away")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float64)
        angles = (t[:, None] * self.base ** (-2 * i / self.dim)) % (2 * 3.1416)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
