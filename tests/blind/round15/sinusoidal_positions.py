import math

import torch
from torch import nn

from blind import right, wrong

FORMULA = r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)"


@right("the hands as complex numbers of length one, in float64")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), dtype=torch.float64, device=x.device)
        speed = 10000.0 ** -(
            torch.arange(0, self.dim, 2, dtype=torch.float64, device=x.device)
            / self.dim
        )
        angle = torch.outer(t, speed)
        hands = torch.view_as_real(torch.polar(torch.ones_like(angle), angle))
        return x + hands.flip(-1).flatten(1).to(x.dtype)


@right("a cosine is a sine, a quarter turn ahead")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        entry = torch.arange(self.dim, device=x.device)
        even = (entry - entry % 2).double()
        t = past + torch.arange(x.size(1), device=x.device)[:, None]
        angle = t.double() / torch.pow(10000.0, even / self.dim)
        return x + torch.sin(angle + (entry % 2).double() * (math.pi / 2)).to(x.dtype)


@right("one clock after the other, into slices of a table")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T = x.size(1)
        table = torch.empty(T, self.dim, dtype=torch.float64, device=x.device)
        t = torch.arange(T, dtype=torch.float64, device=x.device) + past
        for i in range(self.dim // 2):
            angle = t / 10000.0 ** (2 * i / self.dim)
            table[:, 2 * i] = angle.sin()
            table[:, 2 * i + 1] = angle.cos()
        return x + table.to(x.dtype)[None]


@right("float32 or better, sum before rounding")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        precise = torch.promote_types(x.dtype, torch.float32)
        t = torch.arange(x.size(1), device=x.device).add(past).to(precise)
        i = torch.arange(self.dim // 2, device=x.device).to(precise)
        angle = t.unsqueeze(1) * torch.exp(-2 * i / self.dim * math.log(10000))
        pairs = torch.stack((angle.sin(), angle.cos()), dim=2)
        return (x.to(precise) + pairs.reshape(1, len(t), self.dim)).to(x.dtype)


def table_of(t, dim, exponent=2):
    i = torch.arange(dim // 2, dtype=torch.float32, device=t.device)
    angle = t.float()[:, None] / 10000 ** (exponent * i / dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@wrong(
    "all sines first, then all cosines",
    breaks="For clock i, the positional encoding $p_t$ holds the sine of the angle of the clock's hand, followed by the cosine:",
    name="sines and cosines not interleaved",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angle = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype)


@wrong(
    "exponent i/D instead of 2i/D; right for D = 2",
    breaks=FORMULA,
    name="factor 2 missing in the exponent",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device)
        return x + table_of(t, self.dim, exponent=1).to(x.dtype)


@wrong(
    "positions in the dtype of x",
    breaks="Compute the positions and angles in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    name="positions rounded to bfloat16",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
        return x + table_of(t, self.dim).to(x.dtype)


@wrong(
    "uses past for a single token only",
    breaks="Return $x_t + p_{\\mathrm{past} + t}$, where `past` is the number of tokens that came before x.",
    name="past ignored for several tokens",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device)
        if x.size(1) == 1:
            t = t + past
        return x + table_of(t, self.dim).to(x.dtype)


@wrong(
    "adds in place",
    breaks="Do not change the inputs.",
    name="input changed",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device)
        x += table_of(t, self.dim).to(x.dtype)
        return x


@wrong(
    "a table of 1000 positions",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="table too short",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        table = table_of(torch.arange(1000, device=x.device), self.dim)
        return x + table[past : past + x.size(1)].to(x.dtype)


@wrong(
    "keeps tables in the class, and looks them up without past",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="stale table of an earlier past",
)
class SinusoidalPositions(nn.Module):
    tables = {}

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        known = (x.size(1), self.dim, x.dtype, x.device)
        if known not in self.tables:
            t = torch.arange(past, past + x.size(1), device=x.device)
            self.tables[known] = table_of(t, self.dim).to(x.dtype)
        return x + self.tables[known]


@wrong(
    "the cosine of a clock has a speed of its own, 10000^((2i+1)/D)",
    breaks=FORMULA,
    name="a clock for every entry",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        j = torch.arange(self.dim, device=x.device)
        angle = t[:, None] / 10000 ** (j.float() / self.dim)
        return x + torch.where(j % 2 == 0, angle.sin(), angle.cos()).to(x.dtype)


@wrong(
    "counts the sentences of the batch instead of the tokens",
    breaks="Both i and t count from 0.",
    name="positions along the batch axis",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(0), device=x.device)
        return x + table_of(t, self.dim).to(x.dtype)[:, None]


@wrong(
    "float32 encodings turn a bfloat16 sum into float32",
    breaks="(B, T, D), of the dtype of x.",
    name="wrong dtype for bfloat16",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device)
        return x + table_of(t, self.dim)
