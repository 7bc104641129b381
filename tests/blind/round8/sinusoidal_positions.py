import math

import torch
from torch import nn

from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim


@right("fills the even and the odd columns of an empty table")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        T = x.shape[1]
        t = torch.arange(T, dtype=torch.float32, device=x.device) + float(past)
        i = torch.arange(0, self.dim, 2, dtype=torch.float32, device=x.device)
        angle = t[:, None] / 10000.0 ** (i / self.dim)
        table = torch.empty(T, self.dim, dtype=torch.float32, device=x.device)
        table[:, 0::2] = angle.sin()
        table[:, 1::2] = angle.cos()
        return x + table.to(x.dtype)


@right("unit arrows in the complex plane, imaginary part first")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        powers = 10000 ** (
            torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        )
        angles = t[:, None] / powers
        arrows = torch.polar(torch.ones_like(angles), angles)
        both = torch.view_as_real(arrows).flip(-1)
        return torch.add(x, both.reshape(x.size(1), self.dim).to(x.dtype))


@right("one clock after the other, in a loop, with extra default arguments")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        columns = []
        for i in range(self.dim // 2):
            angle = t / self.base ** (2 * i / self.dim)
            columns += [torch.sin(angle), torch.cos(angle)]
        return x + torch.stack(columns, dim=-1).to(x.dtype)


@right("a table that grows when it has to and is cut for each call")
class SinusoidalPositions(Given):
    table = None

    def grow(self, size, device):
        t = torch.arange(size, device=device, dtype=torch.float32).unsqueeze(1)
        i = torch.arange(self.dim // 2, device=device, dtype=torch.float32)
        angle = t / torch.pow(10000.0, 2 * i / self.dim)
        self.table = torch.stack((angle.sin(), angle.cos()), 2).view(size, self.dim)

    def forward(self, x, past=0):
        end = past + x.size(1)
        old = self.table
        if old is None or len(old) < end or old.device != x.device:
            self.grow(2 * end, x.device)
        return x + self.table[past:end].to(x.dtype)


@wrong(
    "all sines first, then all cosines; wrong for D of at least 4",
    "For each clock, the position's vector holds the sine and the cosine of the angle of its hand, side by side:",
    "sines and cosines not interleaved",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t / 10000 ** (i / self.dim)
        return x + torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype)


@wrong(
    "the exponent is i/D in place of 2i/D: the clocks slow down too little; wrong for D of at least 4",
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)",
    "exponent lacks the factor two",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angle = t / 10000 ** (i / self.dim)
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    "multiplies x by the root of D first, as in the paper's embedding; wrong for every x that is not 0",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.",
    "input is scaled",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t / 10000 ** (i / self.dim)
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return x * math.sqrt(self.dim) + p.to(x.dtype)


@wrong(
    "positions and angles in the dtype of x: from position 256 on, bfloat16 (float16 from 2048 on) cannot hold them",
    "Compute the positions and angles in float32 even if x has another dtype: in the dtype bfloat16, 256 and 257 are the same number.",
    "angles computed in the input's dtype",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        like = dict(device=x.device, dtype=x.dtype)
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)[:, None]
        i = torch.arange(0, self.dim, 2, **like)
        angle = t / 10000 ** (i / self.dim)
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@wrong(
    "a table of 1000 positions: a longer x, or a past near 1000, raises",
    "Your code works for every length from one on, for large and for small numbers, in train mode and in eval mode.",
    "fixed number of positions",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim, max_len=1000):
        super().__init__()
        self.dim = dim
        t = torch.arange(max_len).float()[:, None]
        angle = t / 10000 ** (torch.arange(0, dim, 2).float() / dim)
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        self.register_buffer("p", p, persistent=False)

    def forward(self, x, past=0):
        return x + self.p[past : past + x.size(1)].to(device=x.device, dtype=x.dtype)


@wrong(
    "no cast at the end: for x in bfloat16 or float16 the sum is float32",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "result promoted to float32",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t / 10000 ** (i / self.dim)
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@wrong(
    "a past is believed only while writing one token: with T > 1 and past > 0 the positions count from 0",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.",
    "past ignored for several tokens",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        if x.size(1) == 1:
            t = torch.tensor([float(past)], device=x.device)
        else:
            t = torch.arange(x.size(1), device=x.device).float()
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t[:, None] / 10000 ** (i / self.dim)
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    "takes vectors that are all zero for padding and gives them no position; wrong for a zero vector in x",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.",
    "zero vectors get no position",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t / 10000 ** (i / self.dim)
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(x.dtype)
        return x + p * (x != 0).any(dim=-1, keepdim=True)


@wrong(
    "keeps the positions of the first call and looks only at the length: a second call of the same length with another past gets the old positions",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.",
    "cached table forgets the past",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        known = self.__dict__.setdefault("known", {})
        T = x.size(1)
        if (T, x.device) not in known:
            t = torch.arange(past, past + T, device=x.device).float()[:, None]
            i = torch.arange(0, self.dim, 2, device=x.device).float()
            angle = t / 10000 ** (i / self.dim)
            p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
            known[T, x.device] = p
        return x + known[T, x.device].to(x.dtype)


@wrong(
    "wraps every angle at 6.2832, which is not quite a full turn: invisible near the beginning, wrong by several hundredths from some ten thousand positions on",
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)",
    "rounded pi in a modulo",
)
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = (t / 10000 ** (i / self.dim)) % 6.2832
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)
