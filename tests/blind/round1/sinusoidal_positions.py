from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend


@right('even and odd entries written separately')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers

        p = torch.empty(x.size(1), self.dim, device=x.device)
        p[:, 0::2], p[:, 1::2] = torch.sin(angles), torch.cos(angles)
        return x + p.to(x.dtype)


@right('clock by clock')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)

        hands = []
        for i in range(self.dim // 2):
            angle = t / 10000 ** (2 * i / self.dim)
            hands += [angle.sin(), angle.cos()]
        p = torch.stack(hands, dim=1)
        return x + p.to(x.dtype)


@right('hands as complex numbers')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers

        hands = torch.polar(torch.ones_like(angles), angles)
        p = torch.view_as_real(hands).flip(-1).reshape(x.size(1), self.dim)
        return x + p.to(x.dtype)


@right('a table that grows when it has to')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        end = past + x.size(1)
        table = getattr(self, "table", None)
        if table is None or table.size(0) < end or table.device != x.device:
            t = torch.arange(end, device=x.device, dtype=torch.float32)
            i = torch.arange(self.dim, device=x.device)
            angles = t[:, None] / 10000 ** ((i - i % 2).float() / self.dim)
            self.table = table = torch.where(i % 2 == 0, angles.sin(), angles.cos())
        return x + table[past:end].to(x.dtype)


@wrong(
    'all sines, then all cosines',
    breaks='A position is told by D/2 clocks, each slower than the one before; of each clock the vector shows sine and cosine, side by side:',
    name='halves in place of pairs',
    subtle=False,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return x + p.to(x.dtype)


@wrong(
    'past ignored',
    breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    name='past ignored',
    subtle=False,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    'counts from 1',
    breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    name='counts from 1',
    subtle=False,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past + 1, past + 1 + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    'counts in the dtype of x',
    breaks='Count in float32 also if x has another dtype: a half-precision number cannot tell 256 from 257.',
    name='positions counted in half precision',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=x.dtype)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    'the sum keeps the dtype of the positions',
    breaks='(B, T, D), of the dtype of x.',
    name='dtype of the result',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p


@wrong(
    'looks at past only if there is one token',
    breaks='past: how many tokens came before.',
    name='past for T = 1 only',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        past = past if x.size(1) == 1 else 0
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    'a table of 512 positions, taken modulo its length beyond',
    breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    name='table of fixed length',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        t = t % 512
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    'the positions of the first call of a length serve all later ones, whatever past is',
    breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    name='positions kept between calls',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        kept = self.__dict__.setdefault("kept", {})
        if x.size(1) not in kept:
            t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
            powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
            angles = t[:, None] / powers
            p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            kept[x.size(1)] = p
        p = kept[x.size(1)]
        return x + p.to(x)


@wrong(
    'past added to the angles of all clocks alike',
    breaks='$$ p_{t,2i} = \\sin\\big(t / 10000^{2i/D}\\big), \\qquad p_{t,2i+1} = \\cos\\big(t / 10000^{2i/D}\\big) $$',
    name='past not slowed down',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers + past
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    'the slowest clock has exactly the power 10000: exponent i / (D/2 - 1)',
    breaks='$$ p_{t,2i} = \\sin\\big(t / 10000^{2i/D}\\big), \\qquad p_{t,2i+1} = \\cos\\big(t / 10000^{2i/D}\\big) $$',
    name='another table of powers',
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(self.dim // 2, device=x.device, dtype=torch.float32) / max(self.dim // 2 - 1, 1))
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)
