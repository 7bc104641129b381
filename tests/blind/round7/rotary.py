import math

import torch
from torch import nn
from blind import right, wrong


@right('a pair is a complex number that is multiplied by one of length one')
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(x.size(-2), device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = torch.outer(t, self.base ** (-2 * i / self.dim))
        wide = torch.promote_types(x.dtype, torch.float32)
        arrows = torch.complex(*x.to(wide).chunk(2, dim=-1))
        turned = arrows * torch.complex(angles.cos().to(wide), angles.sin().to(wide))
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right('the whole vector times cosines plus the exchanged, negated halves times sines')
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        t = torch.arange(past, past + x.shape[-2], device=x.device).float()
        powers = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = (t.unsqueeze(-1) / torch.pow(self.base, powers)).repeat(1, 2)
        other = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * angles.cos().to(x.dtype) + other * angles.sin().to(x.dtype)


@right('one 2 x 2 matrix for each position and pair, and einsum')
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * torch.exp(-2 * i / self.dim * math.log(self.base))
        c, s = angles.cos(), angles.sin()
        matrix = torch.stack([torch.stack([c, -s]), torch.stack([s, c])]).to(x.dtype)
        pairs = x.unflatten(-1, (2, self.dim // 2))
        return torch.einsum("abti,...tbi->...tai", matrix, pairs).flatten(-2)


@right('loops over the pairs and writes into a new tensor')
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = x.size(-1) // 2
        t = torch.arange(x.size(-2), device=x.device, dtype=torch.float32).add(past)
        out = torch.empty_like(x)
        for i in range(half):
            angle = t * self.base ** (-2 * i / self.dim)
            c, s = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
            out[..., i] = x[..., i] * c - x[..., i + half] * s
            out[..., i + half] = x[..., i + half] * c + x[..., i] * s
        return out


@wrong(
    'neighbouring entries are pairs: wrong for D > 2',
    'Entry i of the first half and entry i of the second half of a vector are a pair.',
    'neighbours taken as pairs',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        ).flatten(-2)


@wrong(
    'turned the other way round: scores of queries and keys stay right, the vectors are wrong',
    "x'_{t,i} = x_{t,i} \\cos\\theta_{ti} - x_{t,i+D/2} \\sin\\theta_{ti}, \\qquad x'_{t,i+D/2} = x_{t,i+D/2} \\cos\\theta_{ti} + x_{t,i} \\sin\\theta_{ti}",
    'turned in the wrong direction',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines + second * sines, second * cosines - first * sines], dim=-1
        )


@wrong(
    'the length is read from axis 1: wrong for (T, D) and for (B, H, T, D)',
    'There may be any number of axes before the last two: (T, D), (B, T, D) and (B, H, T, D) are all possible.',
    'length read from a fixed axis',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(1)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        )


@wrong(
    'the base is fixed: wrong for another base than 10,000',
    'base: b; the larger it is, the slower the slow pairs turn.',
    'base of the constructor ignored',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * 10_000.0 ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        )


@wrong(
    'positions and angles in the dtype of x: wrong in half precision from a few hundred positions on',
    'Take the angles, their sines and their cosines in float32 also if x has another dtype.',
    'angles in half precision',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device).to(x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        )


@wrong(
    'sines and cosines stay in float32: a half-precision x comes back in float32',
    'The turned vectors (..., T, D), of the dtype of x.',
    'returns float32 for half-precision input',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos(), angles.sin()
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        )


@wrong(
    "the halves are turned in place: the caller's x changes",
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'changes its input in place',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        old = first.clone()
        first.copy_(first * cosines - second * sines)
        second.copy_(second * cosines + old * sines)
        return x


@wrong(
    'the second half is computed from the turned first half: right at position 0 only',
    "x'_{t,i} = x_{t,i} \\cos\\theta_{ti} - x_{t,i+D/2} \\sin\\theta_{ti}, \\qquad x'_{t,i+D/2} = x_{t,i+D/2} \\cos\\theta_{ti} + x_{t,i} \\sin\\theta_{ti}",
    'uses the already turned first half',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        first = first * cosines - second * sines
        second = second * cosines + first * sines
        return torch.cat([first, second], dim=-1)


@wrong(
    'sines and cosines of the longest input so far are kept and cut to the length, from row 0 on if the table is long enough: a past after a long input is ignored',
    'Positions count from `past`, which is the number of tokens that have come before.',
    'kept table forgets the past',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        table = self.__dict__.get("table")
        if table is None or table.size(0) < length or past >= table.size(0):
            t = torch.arange(past + length, dtype=torch.float32)
            i = torch.arange(self.dim // 2, dtype=torch.float32)
            self.table = table = t[:, None] * self.base ** (-2 * i / self.dim)
            angles = table[past:].to(x.device)
        else:
            angles = table[:length].to(x.device)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        )


@wrong(
    'a single vector is not turned, as if one token were always the first: with T = 1 the past is lost',
    'Positions count from `past`, which is the number of tokens that have come before. Without a past, the first position is 0.',
    'single token is not turned',
)
class RotaryPositions(nn.Module):
    """Say where a token stands by turning its query and its key."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.size(-2)
        if length == 1:
            return x.clone()
        t = torch.arange(past, past + length, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * cosines - second * sines, second * cosines + first * sines], dim=-1
        )
