import math

import torch
from torch import nn
from blind import right, wrong


@right('a table of zeros whose even and odd columns are filled')
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        table = torch.zeros(x.size(1), self.dim, dtype=torch.float32, device=x.device)
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t / torch.pow(10000.0, i / self.dim)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        return x + table.to(x.dtype)


@right('loops over clocks with outer products, columns stacked')
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(x.shape[1], device=x.device, dtype=torch.float32) + past
        columns = []
        for i in range(self.dim // 2):
            angle = time / 10000 ** (2 * i / self.dim)
            columns += [torch.sin(angle), torch.cos(angle)]
        return torch.add(x, torch.stack(columns, dim=1).to(dtype=x.dtype))


@right('cosine and sine as the parts of torch.polar, view_as_real and a flip')
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.shape[1], device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = torch.outer(t, 1 / 10000 ** (2 * i / self.dim))
        hands = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
        return x + hands.flip(-1).flatten(1).to(x.dtype)


@right('repeat_interleave of the angles, torch.where picks sine or cosine')
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0, base=10000.0):
        device = x.device
        entry = torch.arange(self.dim, device=device)
        power = torch.div(entry, 2, rounding_mode="floor") * 2 / self.dim
        t = torch.arange(past, past + x.shape[1], device=device)
        angles = t.unsqueeze(1).float() / base ** power.float()
        p = torch.where(entry % 2 == 0, angles.sin(), angles.cos())
        return x + p.to(x.dtype).unsqueeze(0)


@wrong(
    'sines in the first half and cosines in the second: all inputs with D > 2',
    'A position is a reading of all clocks, and of each clock the vector holds the sine and the cosine, side by side:',
    'sines and cosines not interleaved',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t / 10000 ** (i / self.dim)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong(
    'past is ignored: wrong whenever tokens came before',
    'Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    'past not used',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t / 10000 ** (i / self.dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        return x + both.flatten(1).to(x.dtype)


@wrong(
    'the exponent is i/D where it should be 2i/D, so that the clocks are too fast: every D > 2',
    'p_{t,2i} = \\sin\\big(t / 10000^{2i/D}\\big), \\qquad p_{t,2i+1} = \\cos\\big(t / 10000^{2i/D}\\big)',
    'factor two missing in the exponent',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t / 10000 ** (i / self.dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        return x + both.flatten(1).to(x.dtype)


@wrong(
    'positions and angles in the dtype of x: in half precision long sequences get wrong positions',
    'Count in float32 also if x has another dtype: a half-precision number cannot tell 256 from 257.',
    'counts in half precision',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).to(x.dtype)
        angles = t / 10000 ** (i / self.dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        return x + both.flatten(1)


@wrong(
    'the positions are not brought to the dtype of x: a half-precision x gives a float32 sum',
    '(B, T, D), of the dtype of x.',
    'returns float32 for half-precision input',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t / 10000 ** (i / self.dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        return x + both.flatten(1)


@wrong(
    'the table has 512 rows: longer texts, or a large past, raise an error',
    'Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.',
    'table of positions is too short',
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        t = torch.arange(512).float()[:, None]
        i = torch.arange(0, dim, 2).float()
        angles = t / 10000 ** (i / dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        self.register_buffer("table", both.flatten(1), persistent=False)

    def forward(self, x, past=0):
        return x + self.table[past : past + x.size(1)].to(x.device, x.dtype)


@wrong(
    "the positions are added in place, so that the caller's x changes",
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'changes its input in place',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t / 10000 ** (i / self.dim)
        x[..., 0::2] += angles.sin().to(x.dtype)
        x[..., 1::2] += angles.cos().to(x.dtype)
        return x


@wrong(
    "the table is computed once per length and kept: a second call with the same length and another past gets the first call's positions",
    'Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    'remembers positions by length and forgets past',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        tables = self.__dict__.setdefault("tables", {})
        if x.size(1) not in tables:
            t = torch.arange(past, past + x.size(1)).float()[:, None]
            i = torch.arange(0, self.dim, 2).float()
            angles = t / 10000 ** (i / self.dim)
            both = torch.stack([angles.sin(), angles.cos()], dim=-1)
            tables[x.size(1)] = both.flatten(1)
        return x + tables[x.size(1)].to(x.device, x.dtype)


@wrong(
    'positions wrap around after 5000 rows, as a fixed table would: past = 5000 is read as 0',
    'Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    'positions wrap around after 5000',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device) % 5000
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = t.float()[:, None] / 10000 ** (i / self.dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        return x + both.flatten(1).to(x.dtype)


@wrong(
    'p is turned on by adding past to the angle and not to the position: right for the first clock alone, whose speed is one',
    'Return $x_t + p_{\\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.',
    'past added after the division by the power',
)
class SinusoidalPositions(nn.Module):
    """Say where a token stands by the hands of D/2 clocks."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angles = past + t / 10000 ** (i / self.dim)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)
        return x + both.flatten(1).to(x.dtype)
