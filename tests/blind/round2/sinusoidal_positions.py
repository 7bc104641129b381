from blind import right, wrong
import math

import torch
from torch import nn
import torch.nn.functional as F

from attention_course.attention import attend


@right('an empty table, even and odd columns filled')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        table = torch.empty(x.size(1), self.dim, dtype=torch.float32, device=x.device)
        t = torch.arange(x.size(1), device=x.device).float().unsqueeze(1) + past
        angle = t / torch.pow(10000.0, torch.arange(self.dim // 2, device=x.device) * 2 / self.dim)
        table[:, 0::2] = torch.sin(angle)
        table[:, 1::2] = torch.cos(angle)
        return table.to(x.dtype).unsqueeze(0) + x


@right('numbers one by one with math')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        rows = []
        for t in range(past, past + x.size(1)):
            row = []
            for i in range(self.dim // 2):
                angle = t / 10000 ** (2 * i / self.dim)
                row += [math.sin(angle), math.cos(angle)]
            rows.append(row)
        p = torch.tensor(rows, dtype=torch.float32, device=x.device).view(x.size(1), self.dim)
        return x + p.to(x.dtype)


@right('points on the complex circle, their parts exchanged')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.size(1), device=x.device, dtype=torch.float32) + float(past)
        angles = torch.outer(t, torch.exp(-math.log(10000.0) * 2 * i / self.dim))
        circle = torch.view_as_real(torch.polar(torch.ones_like(angles), angles)).flip(-1)
        return x + circle.reshape(1, x.size(1), self.dim).to(x.dtype)


@right('every entry its own angle, sine or cosine chosen by where')
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        j = torch.arange(self.dim, device=x.device)
        t = torch.arange(x.size(1), device=x.device) + past
        angle = t.float()[:, None] / 10000.0 ** ((j - j % 2).float() / self.dim)
        p = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        return torch.add(x, p.to(x))


@wrong('all sines, then all cosines', breaks='of each clock the vector shows sine and cosine, side by side:', name='halves instead of pairs', subtle=False)
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


@wrong('exponent i/D for 2i/D', breaks='p_{t,2i} = \\sin\\big(t / 10000^{2i/D}\\big), \\qquad p_{t,2i+1} = \\cos\\big(t / 10000^{2i/D}\\big)', name='clocks too fast: i in place of 2i', subtle=False)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(self.dim // 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong('counts from one', breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.', name='t counts from 1', subtle=False)
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


@wrong('counts in the dtype of x', breaks='a half-precision number cannot tell 256 from 257.', name='counted in half precision', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong('the sum is in float32', breaks='(B, T, D), of the dtype of x.', name='result not in the dtype of x', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x.float() + p


@wrong('the sum is taken in float32 and cast back', breaks='the sum has the dtype of x: `.to(x.dtype)` on the positions before you add them.', name='float64 x rounded to float32', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return (x.float() + p).to(x.dtype)


@wrong('a table of 512 positions, the last one for all further', breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.', name='table with an end', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32).clamp(max=511)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong('past counted in blocks of T', breaks='Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.', name='past multiplied by T, right for T = 1', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past * x.size(1), (past + 1) * x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong('zero vectors get no position', breaks='Add to each vector its position.', name='zero vectors taken for padding', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype) * (x != 0).any(-1, keepdim=True)


@wrong('a table kept for every instance, by length only', breaks='dim: D, width of a position; even.', name='table shared between instances of other widths', subtle=True)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    _tables = {}

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        if (past, len(t)) in self._tables:
            return x + self._tables[past, len(t)].to(x)
        powers = 10000 ** (torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32) / self.dim)
        angles = t[:, None] / powers
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self._tables[past, len(t)] = p
        return x + p.to(x.dtype)
