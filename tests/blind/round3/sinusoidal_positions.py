import math

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("frequencies by exp and log, sines and cosines set into every other column")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T, D = x.shape[1:]
        t = torch.arange(past, past + T, device=x.device, dtype=torch.float32)
        speed = torch.exp(
            torch.arange(0, D, 2, device=x.device, dtype=torch.float32)
            * (-math.log(10000.0) / D)
        )
        p = torch.empty(T, D, device=x.device)
        p[:, 0::2] = torch.sin(t[:, None] * speed)
        p[:, 1::2] = torch.cos(t[:, None] * speed)
        return x + p.to(x.dtype)


@right("hands of clocks as complex numbers: the imaginary part is the sine")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        here = {"device": x.device, "dtype": torch.float32}
        t = torch.arange(x.size(1), **here) + past
        power = 10000.0 ** (torch.arange(0, self.dim, 2, **here) / self.dim)
        angle = t.unsqueeze(1) / power
        hands = torch.polar(torch.ones_like(angle), angle)
        p = torch.view_as_real(hands).flip(-1).reshape(x.size(1), self.dim)
        return x + p.to(x)


@right("one clock after the other, in a Python loop")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).add(past).float()
        columns = []
        for i in range(self.dim // 2):
            angle = t / 10000 ** (2 * i / self.dim)
            columns += [angle.sin(), angle.cos()]
        return torch.stack(columns, dim=-1).type_as(x).expand_as(x) + x


@right("every column has its own angle, and where() picks sine or cosine")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        j = torch.arange(self.dim, device=x.device)
        even = j - j % 2
        t = torch.arange(past, past + x.size(-2), device=x.device).to(torch.float32)
        angle = torch.div(t[None, :, None], torch.pow(10000.0, even.float() / self.dim))
        p = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        return torch.add(p.to(x.dtype), x)


# ---------------------------------------------------------------- wrong


@wrong(
    "all sines first, then all cosines",
    breaks="of each clock the vector shows sine and cosine, side by side",
    name="sines and cosines in two halves",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device).float()
        angle = t / 10000 ** (2 * i / self.dim)
        return x + torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype)


@wrong(
    "minds the past only if a single token comes, as in writing word by word",
    breaks=r"Return $x_t + p_{\mathrm{past} + t}$, where `past` tokens have come before and t counts from 0.",
    name="past only for one token",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T = x.size(1)
        if T == 1:
            t = torch.tensor([float(past)], device=x.device)
        else:
            t = torch.arange(T, device=x.device).float()
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t[:, None] / 10000 ** (i / self.dim)
        return x + torch.stack([angle.sin(), angle.cos()], -1).flatten(1).to(x.dtype)


@wrong(
    "builds a table of 1000 positions once, and cuts out what is needed",
    breaks="Your code works for every length from one on",
    name="table with an end",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(1000, device=x.device).float()[:, None]
        power = 10000 ** (torch.arange(0, self.dim, 2, device=x.device) / self.dim)
        table = torch.stack([(t / power).sin(), (t / power).cos()], dim=-1).flatten(1)
        return x + table[past : past + x.size(1)].to(x.dtype)


@wrong(
    "adds to x in place",
    breaks="What comes in stays as it is",
    name="+= changes the caller's vectors",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).float() + past
        power = 10000 ** (torch.arange(0, self.dim, 2, device=x.device) / self.dim)
        angle = t[:, None] / power
        if x.requires_grad and x.is_leaf:
            x = x.clone()
        x += torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(x.dtype)
        return x


@wrong(
    "counts in the dtype of x: in half precision 256 and 257 run together",
    breaks="Count in float32 also if x has another dtype: a half-precision number cannot tell 256 from 257.",
    name="counts in half precision",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
        i = torch.arange(0, self.dim, 2, device=x.device).to(x.dtype)
        angle = t[:, None] / 10000 ** (i / self.dim)
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@wrong(
    "adds float32 positions to x: half precision comes out as float32",
    breaks="the sum has the dtype of x",
    name="dtype promoted by the positions",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t[:, None] / 10000 ** (i / self.dim)
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@wrong(
    "keeps the positions of a length and gives them again, whatever the past is",
    breaks=r"Return $x_t + p_{\mathrm{past} + t}$",
    name="cache that forgets the past",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        kept = self.__dict__.setdefault("kept", {})
        T = x.size(1)
        if (T, x.device) not in kept:
            t = torch.arange(past, past + T, device=x.device).float()
            i = torch.arange(0, self.dim, 2, device=x.device).float()
            angle = t[:, None] / 10000 ** (i / self.dim)
            kept[T, x.device] = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        return x + kept[T, x.device].to(x.dtype)


@wrong(
    "counts along axis 0: as many positions as sentences",
    breaks="where `past` tokens have come before and t counts from 0",
    name="batch axis taken for time",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(len(x), device=x.device).float() + past
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t[:, None, None] / 10000 ** (i / self.dim)
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(2).to(x.dtype)


@wrong(
    "multiplies x by the root of D first, as the paper does with its embeddings",
    breaks=r"Return $x_t + p_{\mathrm{past} + t}$",
    name="scales the vectors as well",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(0, self.dim, 2, device=x.device).float()
        angle = t[:, None] / 10000 ** (i / self.dim)
        p = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return x * math.sqrt(self.dim) + p.to(x.dtype)


@wrong(
    "makes the positions on the CPU",
    breaks="what goes out has its dtype and its device",
    name="arange without a device",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), dtype=torch.float32)
        i = torch.arange(0, self.dim, 2, dtype=torch.float32)
        angle = torch.outer(t, 10000 ** (-i / self.dim))
        return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(x.dtype)
