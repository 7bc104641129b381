import math

import torch
from torch import nn

from blind import right, wrong


@right("one clock after the other, in float64, stacked column by column")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).double() + past
        columns = []
        for i in range(self.dim // 2):
            angle = t / 10000 ** (2 * i / self.dim)
            columns += [torch.sin(angle), torch.cos(angle)]
        return x + torch.stack(columns, dim=1).to(x.dtype)


@right("the hands are complex numbers, and view_as_real interleaves; cosine and sine flipped")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float64)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        angles = torch.outer(t, torch.exp(-math.log(10000.0) * 2 * i / self.dim))
        hands = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_real(hands).flip(-1)  # (T, D/2, 2): sine, cosine
        return x + pairs.flatten(1).to(x.dtype)


@right("a cosine is a sine a quarter turn later: one sine for all D entries; sum in float64")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        j = torch.arange(self.dim, device=x.device)
        odd = j % 2
        period = torch.pow(10000.0, (j - odd).double() / self.dim)
        t = torch.arange(x.size(1), device=x.device)[:, None] + past
        encoding = torch.sin(t.double() / period + odd.double() * (math.pi / 2))
        return (x.double() + encoding).to(x.dtype)


@right("rates are Python numbers made in __init__; sines and cosines written with strides")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.rates = [10000 ** -(2 * i / dim) for i in range(dim // 2)]

    def forward(self, x, past=0):
        rates = torch.tensor(self.rates, dtype=torch.float64, device=x.device)
        t = torch.arange(past, past + x.size(1), device=x.device)
        angles = t.unsqueeze(1) * rates
        table = torch.empty(
            x.size(1), self.dim, dtype=torch.float64, device=x.device
        )
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        return torch.add(x, table.to(x.dtype))


@wrong(
    "puts all sines into the first half and all cosines into the second half",
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of the"
    " clock's hand, followed by the cosine:",
    "sines and cosines not interleaved",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        encoding = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return x + encoding.to(x.dtype)


@wrong(
    "the exponent is i / D, not 2i / D, so the clocks run too fast",
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t /"
    r" 10000^{2i/D}\big)",
    "exponent without the 2",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (i / self.dim)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + encoding.to(x.dtype)


@wrong(
    "always counts from 0 and ignores past",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that"
    " came before x.",
    "past is ignored",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + encoding.to(x.dtype)


@wrong(
    "does not convert the encodings: bfloat16 vectors give a float32 result",
    "(B, T, D), of the dtype of x.",
    "result is promoted to float32",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + encoding


@wrong(
    "makes the positions in the dtype of x and only then goes to float32: in bfloat16,"
    " position 257 becomes 256",
    "Compute the positions and angles in float32 or in a more precise dtype, whatever"
    " the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "positions counted in bfloat16",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t.float()[:, None] / 10000 ** (2 * i / self.dim)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + encoding.to(x.dtype)


@wrong(
    "makes the encodings on the CPU, so vectors on a GPU raise an error",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "encodings are always on the CPU",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1)).float()
        i = torch.arange(self.dim // 2).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + encoding.to(x.dtype)


@wrong(
    "adds the encodings to x in place",
    "Do not change the inputs.",
    "changes x in place",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        x += encoding.to(x.dtype)
        return x


@wrong(
    "has a table of 5000 positions, as many tutorials do; where past + T is larger, the"
    " slice is too short",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "a last position",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        t, i = torch.arange(5000).float(), torch.arange(dim // 2).float()
        angles = t[:, None] / 10000 ** (2 * i / dim)
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    def forward(self, x, past=0):
        rows = self.table[past : past + x.size(1)]
        return x + rows.to(x.device, x.dtype)


@wrong(
    "keeps the speeds of the clocks in a buffer: `.to(torch.bfloat16)` on the module"
    " rounds them, and at position 1000, some angles are off by tenths of a radian",
    "Compute the positions and angles in float32 or in a more precise dtype, whatever"
    " the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "speeds of the clocks rounded to bfloat16",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        i = torch.arange(dim // 2).float()
        self.register_buffer("rates", 10000 ** (-2 * i / dim), persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        angles = t[:, None] * self.rates.to(x.device, torch.float32)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + encoding.to(x.dtype)


@wrong(
    "keeps encodings in a dictionary of the class, under past, T, dtype and device, but"
    " not under D: after an object of width 32, one of width 16 gets its encodings",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "a cache shared by all objects",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    tables = {}

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        name = (past, x.size(1), x.dtype, x.device)
        if name not in self.tables:
            t = torch.arange(past, past + x.size(1), device=x.device).float()
            i = torch.arange(self.dim // 2, device=x.device).float()
            angles = t[:, None] / 10000 ** (2 * i / self.dim)
            encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            self.tables[name] = encoding.to(x.dtype)
        return x + self.tables[name]
