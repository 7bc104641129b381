import math

import torch
from torch import nn

from blind import right, wrong


@right("complex numbers: each pair is one, and the rotation is a product")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        wide = torch.promote_types(x.dtype, torch.float32)
        t = torch.arange(x.size(-2), device=x.device, dtype=wide) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=wide)
        angles = torch.outer(t, self.base ** (-2 * i / self.dim))
        first, second = x.to(wide).chunk(2, dim=-1)
        turned = torch.complex(first, second) * torch.polar(
            torch.ones_like(angles), angles
        )
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right("2 x 2 matrices of rotation in float64, applied by einsum")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def _matrices(self, length, past, device):
        t = torch.arange(past, past + length, device=device).double()
        i = torch.arange(self.dim // 2, device=device).double()
        angles = t.unsqueeze(1) / self.base ** (2 * i / self.dim)
        cos, sin = angles.cos(), angles.sin()
        rows = [torch.stack([cos, -sin], dim=-1), torch.stack([sin, cos], dim=-1)]
        return torch.stack(rows, dim=-2)  # (T, D/2, 2, 2)

    def forward(self, x, past=0):
        matrices = self._matrices(x.size(-2), past, x.device)
        pairs = x.double().unflatten(-1, (2, -1))  # (..., T, 2, D/2)
        turned = torch.einsum("tiab,...tbi->...tai", matrices, pairs)
        return turned.flatten(-2).to(x.dtype)


@right("the speeds are Python numbers from the constructor; x * cos plus the other half * sin")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        self.speeds = [math.exp(-math.log(base) * 2 * i / dim) for i in range(dim // 2)]

    def forward(self, x, past=0):
        speeds = torch.tensor(2 * self.speeds, dtype=torch.float64, device=x.device)
        t = torch.arange(past, past + x.size(-2), dtype=torch.float64, device=x.device)
        angles = t[:, None] * speeds  # (T, D)
        other = x.roll(self.dim // 2, dims=-1)
        signs = torch.ones(self.dim, dtype=torch.float64, device=x.device)
        signs[: self.dim // 2] = -1
        result = x.double() * angles.cos() + other.double() * (angles.sin() * signs)
        return result.type_as(x)


@right("a loop over the pairs")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        t = torch.arange(past, past + x.shape[-2], device=x.device).float()
        firsts, seconds = [], []
        for i in range(half):
            angle = t * self.base ** (-2 * i / self.dim)
            cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
            a, b = x[..., i], x[..., i + half]
            firsts.append(a * cos - b * sin)
            seconds.append(b * cos + a * sin)
        return torch.stack(firsts + seconds, dim=-1)


@wrong(
    "takes neighbours as pairs: entries 2i and 2i + 1",
    "Entry i of the first half of a vector and entry i of the second half form a pair.",
    "pairs of neighbours instead of halves",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x[..., 0::2], x[..., 1::2]
        turned = [one * cos - other * sin, other * cos + one * sin]
        return torch.stack(turned, dim=-1).flatten(-2)


@wrong(
    "turns clockwise: the signs of the sines are swapped",
    r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}",
    "rotates in the wrong direction",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos + other * sin, other * cos - one * sin], dim=-1)


@wrong(
    "counts from 0 whatever the past is",
    "Count the positions from `past`, the number of tokens that came before x.",
    "past is ignored",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


@wrong(
    "the exponent is -i / D, without the 2",
    r"\theta_{ti} = t\, b^{-2i/D}, \qquad i = 0, \dots, D/2 - 1",
    "the 2 in the exponent is missing",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


@wrong(
    "computes positions and angles in the dtype of x",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "angles in bfloat16",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).to(x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos(), angles.sin()
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


@wrong(
    "takes the length from axis 1, which is right for (B, T, D) only: (T, D) and (B, H, T, D) give an error, or for T = 1 or H = 1 wrong numbers",
    "x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D).",
    "the length is taken from a fixed axis",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


@wrong(
    "keeps the tables in a dict of the class whose key lacks the base: a second object with another base gets the angles of the first",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "a cache that objects with different bases share",
    subtle=True,
)
class RotaryPositions(nn.Module):
    tables = {}

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        key = (self.dim, past, x.size(-2), x.dtype, x.device)
        if key not in self.tables:
            t = torch.arange(past, past + x.size(-2), device=x.device).float()
            i = torch.arange(self.dim // 2, device=x.device).float()
            angles = t[:, None] * self.base ** (-2 * i / self.dim)
            self.tables[key] = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        cos, sin = self.tables[key]
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


@wrong(
    "keeps the speeds in a buffer, which module.to(torch.bfloat16) rounds together with the rest of a model: at position 200, a pair may be turned by a wrong angle",
    "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "the speeds are a buffer that a cast of the module rounds",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        i = torch.arange(dim // 2, dtype=torch.float32)
        self.register_buffer("speeds", base ** (-2 * i / dim), persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.speeds.to(x.device).float()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


@wrong(
    "rotates x in place (in a detached view, so that autograd does not complain) if no gradient is needed",
    "Do not change the inputs.",
    "overwrites x",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        turned = torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)
        if x.requires_grad:
            return turned
        return x.copy_(turned.detach())


@wrong(
    "has a table of the first 4096 positions and takes the last row for all later ones",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "a table with a last position",
    subtle=True,
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        every = torch.arange(4096, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        table = every[:, None] * self.base ** (-2 * i / self.dim)
        places = torch.arange(past, past + x.size(-2), device=x.device)
        angles = table[places.clamp(max=4095)]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)
