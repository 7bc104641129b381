import math

import torch
from torch import nn

from blind import right, wrong


@right("fills the even and the odd columns of an empty table, powers by exp and log")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T, D = x.shape[1], self.dim
        t = torch.arange(T, device=x.device, dtype=torch.float32).add(past).unsqueeze(1)
        two_i = torch.arange(0, D, 2, device=x.device, dtype=torch.float32)
        angles = t * torch.exp(two_i * (-math.log(10000.0) / D))
        table = torch.empty(T, D, device=x.device, dtype=torch.float32)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        return x + table.to(x.dtype)


@right("complex numbers: polar, view_as_real, flip")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        start, stop = past, past + x.size(1)
        t = torch.arange(start, stop, device=x.device).float()
        slow = 10000.0 ** (torch.arange(0, self.dim, 2, device=x.device).float() / self.dim)
        angles = t[:, None] / slow
        hands = torch.polar(torch.ones_like(angles), angles)  # cos + i sin
        p = torch.view_as_real(hands).flip(-1).reshape(-1, self.dim)
        return x + p.to(x)


@right("one column for each entry in a Python loop, base as an extra argument")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim = dim
        self.base = base

    def column(self, t, entry):
        i, odd = divmod(entry, 2)
        angle = t / self.base ** (2 * i / self.dim)
        return torch.cos(angle) if odd else torch.sin(angle)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.shape[-2], dtype=torch.float32, device=x.device)
        columns = [self.column(t, entry) for entry in range(self.dim)]
        return torch.add(x, torch.stack(columns, dim=1).type_as(x))


@right("repeats each angle twice and chooses sine or cosine by the parity of the column")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        column = torch.arange(self.dim, device=x.device)
        speed = torch.pow(10000.0, (column // 2 * 2).to(torch.float32) / self.dim)
        t = torch.ones(x.size(1), dtype=torch.float32, device=x.device).cumsum(0) - 1 + past
        angles = t.unsqueeze(-1) / speed
        p = torch.where(column % 2 == 0, angles.sin(), angles.cos())
        return x + p.to(x.dtype).expand_as(x)


@wrong(
    "all sines first, then all cosines; wrong for D > 2",
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of its hand, followed by the cosine:",
    "sines and cosines not interleaved",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (i / self.dim)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong(
    "exponent i / D in place of 2i / D: the clocks slow down half as fast; wrong for D > 2",
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)",
    "factor 2 missing in the exponent",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (i / self.dim)
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    "multiplies x by the square root of D first, as in the paper; wrong for every x that is not 0",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that came before.",
    "scales the vectors by sqrt(D)",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (i / self.dim)
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x * math.sqrt(self.dim) + p.to(x.dtype)


@wrong(
    "counts the positions in the dtype of x: for bfloat16, position 257 becomes 256",
    "Compute the positions and angles in float32 even if x has a different dtype, because bfloat16 cannot tell 256 from 257.",
    "positions computed in bfloat16",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).to(x.dtype) + past
        i = torch.arange(0, self.dim, 2, device=x.device).to(x.dtype)
        angles = t[:, None] / 10000 ** (i / self.dim)
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p


@wrong(
    "makes a table of 5000 rows once: beyond position 4999 the slice is too short and the sum raises",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "table with a fixed largest length",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim, max_len=5000):
        super().__init__()
        self.dim = dim
        t = torch.arange(max_len, dtype=torch.float32)[:, None]
        i = torch.arange(0, dim, 2, dtype=torch.float32)
        angles = t / 10000 ** (i / dim)
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    def forward(self, x, past=0):
        return x + self.table[past : past + x.size(1)].to(x)


@wrong(
    "adds in place: the caller's x is changed by the call",
    "Do not change the inputs.",
    "in-place addition changes x",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (i / self.dim)
        x[..., 0::2] += angles.sin().to(x.dtype)
        x[..., 1::2] += angles.cos().to(x.dtype)
        return x


@wrong(
    "the range ends at T, whatever past is: right for past = 0, wrong (or an error) for past > 0 unless T = 1",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that came before.",
    "range starts at past but ends at T",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T = x.size(1)
        t = torch.arange(past, max(T, past + 1), device=x.device, dtype=torch.float32)
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (i / self.dim)
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    "the divisors are a buffer: after module.bfloat16() they are rounded, and angles at large positions are far off (D = 16, not D = 8, whose divisors are powers of ten)",
    "Compute the positions and angles in float32 even if x has a different dtype, because bfloat16 cannot tell 256 from 257.",
    "frequencies in a buffer that is converted to bfloat16",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        i = torch.arange(0, dim, 2, dtype=torch.float32)
        self.register_buffer("divisors", 10000 ** (i / dim), persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        angles = t[:, None] / self.divisors.float()
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


_tables = {}


@wrong(
    "keeps the tables of all objects in one dict by (past, T) and slices to D: a second object with another dim gets the first one's clocks, or an error",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "cache shared by objects of different widths",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T = x.size(1)
        if (past, T) not in _tables:
            t = torch.arange(past, past + T, dtype=torch.float32)
            i = torch.arange(0, self.dim, 2, dtype=torch.float32)
            angles = t[:, None] / 10000 ** (i / self.dim)
            _tables[past, T] = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + _tables[past, T][:, : self.dim].to(x)


@wrong(
    "keeps the table and makes a new one only if x is longer than ever; the new one starts at the past of that call, so a later call with another past is shifted",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "cached table forgets which past it began with",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.table = torch.empty(0, dim)

    def forward(self, x, past=0):
        if x.size(1) > len(self.table):
            t = torch.arange(past, past + x.size(1), dtype=torch.float32)
            i = torch.arange(0, self.dim, 2, dtype=torch.float32)
            angles = t[:, None] / 10000 ** (i / self.dim)
            self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + self.table[: x.size(1)].to(x)
