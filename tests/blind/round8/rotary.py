import torch
from torch import nn

from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base


@right("rotate-half: x times cosines plus the exchanged and negated halves times sines")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        half = self.dim // 2
        like = dict(device=x.device, dtype=torch.float32)
        t = torch.arange(past, past + x.size(-2), **like)
        speed = self.base ** (-torch.arange(0, self.dim, 2, **like) / self.dim)
        angles = torch.outer(t, speed)
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * cos.to(x.dtype) + turned * sin.to(x.dtype)


@right("a product of complex numbers, real parts first")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        one, other = wide.split(self.dim // 2, dim=-1)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] * torch.pow(self.base, -2 * i / self.dim)
        turns = torch.complex(angles.cos(), angles.sin())
        pairs = torch.complex(one.contiguous(), other.contiguous()) * turns
        return torch.cat([pairs.real, pairs.imag], dim=-1).to(x.dtype)


@right("pair after pair in a loop over columns, written into a new tensor")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        half, out = self.dim // 2, []
        t = torch.arange(past, past + x.size(-2), device=x.device).float()
        for i in range(half):
            angle = t * self.base ** (-2 * i / self.dim)
            cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            a, b = x[..., i], x[..., i + half]
            out.append((a * cos - b * sin, b * cos + a * sin))
        first, second = zip(*out)
        return torch.stack(first + second, dim=-1)


@right("a 2 x 2 matrix for each position and pair, applied with einsum")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        T, half = x.size(-2), self.dim // 2
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        i = torch.arange(half, device=x.device, dtype=torch.float32)
        angle = t[:, None] * self.base ** (-2 * i / self.dim)
        c, s = angle.cos(), angle.sin()
        turn = torch.stack([torch.stack([c, -s]), torch.stack([s, c])]).to(x.dtype)
        pairs = x.unflatten(-1, (2, half))
        return torch.einsum("abti,...tbi->...tai", turn, pairs).flatten(-2)


@wrong(
    "neighbouring entries 2i and 2i+1 are the pairs; wrong for D of at least 4",
    "Entry i of the first half and entry i of the second half of a vector are a pair.",
    "neighbours paired instead of halves",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


@wrong(
    "turns the other way round: the signs of the sines are exchanged",
    r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}",
    "turned in the wrong direction",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)


@wrong(
    "the positions begin at 0 whatever the past is",
    "Positions count from `past`, which is the number of tokens that have come before.",
    "past ignored",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "positions in the dtype of x: in bfloat16 wrong from position 257 on, in float16 from 2049 on",
    "Compute the angles, their sines and their cosines in float32 even if x has another dtype.",
    "angles computed in the input's dtype",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device)[:, None].to(x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        angles = t * self.base ** (-2 * i / self.dim)
        a, b = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "sines and cosines are not cast: vectors in bfloat16 or float16 come back in float32",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "result promoted to float32",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * self.base ** (-2 * i / self.dim)
        a, b = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "unpacks exactly three axes: (T, D) and (B, H, T, D) raise",
    "There may be any number of axes before the last two: (T, D), (B, T, D) and (B, H, T, D) are all possible.",
    "only three axes accepted",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        B, T, D = x.shape
        t = torch.arange(past, past + T, device=x.device).float()[:, None]
        angles = t * self.base ** (-2 * torch.arange(D // 2, device=x.device) / D)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "the base is the usual 10000 and not the one that was given; wrong for another base and D of at least 4",
    r"\theta_{ti} = t\, b^{-2i/D}, \qquad i = 0, \dots, D/2 - 1",
    "base ignored",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * 10_000.0 ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "turns the first half in place and then uses the turned half for the second; the caller's x is spared by a clone, but the second half is wrong from position 1 on (small at slow pairs)",
    r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}",
    "second half made from the turned first",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        y, half = x.clone(), self.dim // 2
        y[..., :half] = y[..., :half] * cos - y[..., half:] * sin
        y[..., half:] = y[..., half:] * cos + y[..., :half] * sin
        return y


@wrong(
    "makes sines and cosines once for each length and forgets that the past may differ: the second call of the same length with another past (every step of a writer) is wrong",
    "Positions count from `past`, which is the number of tokens that have come before.",
    "cached angles forget the past",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        known, T = self.__dict__.setdefault("known", {}), x.size(-2)
        if (T, x.dtype, x.device) not in known:
            t = torch.arange(past, past + T, device=x.device).float()[:, None]
            i = torch.arange(self.dim // 2, device=x.device).float()
            angles = t * self.base ** (-2 * i / self.dim)
            both = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
            known[T, x.dtype, x.device] = both
        cos, sin = known[T, x.dtype, x.device]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "positions start again from 0 at 65536, as in a table of that size: wrong for a past or a length beyond it",
    "Positions count from `past`, which is the number of tokens that have come before.",
    "past wraps around at 65536",
)
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(x.size(-2), device=x.device).float()[:, None]
        t = (t + past) % 65536
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
