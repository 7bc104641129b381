import math

import torch
from torch import nn

from blind import right, wrong

FORMULA = r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)"
PAIRS = "For clock i, the positional encoding $p_t$ holds the sine of the angle of the clock's hand, followed by the cosine:"
COUNT = "Both i and t count from 0."
SUM = "Return $x_t + p_{\\mathrm{past} + t}$, where `past` is the number of tokens that came before x."
FLOAT32 = "Compute the positions and angles in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
COUNTS = "Positions and counts must be exact in every dtype."


class Base(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim


def frequencies(dim, device, dtype=torch.float32):
    i = torch.arange(dim // 2, device=device, dtype=dtype)
    return 10000.0 ** (-2 * i / dim)


# ---------------------------------------------------------------- right answers


@right("hands as complex numbers in float64")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float64)
        angles = t[:, None] * frequencies(self.dim, x.device, torch.float64)
        hands = torch.polar(torch.ones_like(angles), angles)
        # a hand is cos + i sin, but the sine comes first
        return x + torch.view_as_real(hands).flip(-1).flatten(1).to(x.dtype)


@right("plain Python numbers, one entry after the other")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        rows = []
        for t in range(past, past + x.size(1)):
            row = []
            for i in range(self.dim // 2):
                angle = t / 10000 ** (2 * i / self.dim)
                row += [math.sin(angle), math.cos(angle)]
            rows.append(row)
        return x + torch.tensor(rows, dtype=x.dtype, device=x.device)


@right("every entry is a sine; odd entries are a quarter turn ahead")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        j = torch.arange(self.dim, device=x.device)
        speed = torch.exp((j - j % 2).double() / self.dim * -math.log(10000))
        t = past + torch.arange(x.size(1), device=x.device)
        table = torch.sin(t.double()[:, None] * speed + (j % 2) * (math.pi / 2))
        return (x.double() + table).to(x.dtype)


@right("the past is a rotation of each hand, by the addition theorem")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        speed = frequencies(self.dim, x.device, torch.float64)
        a = torch.arange(x.size(1), device=x.device).double()[:, None] * speed
        b = past * speed
        out = torch.empty(x.size(1), self.dim, device=x.device, dtype=torch.float64)
        out[:, 0::2] = a.sin() * b.cos() + a.cos() * b.sin()
        out[:, 1::2] = a.cos() * b.cos() - a.sin() * b.sin()
        return torch.add(x, out.to(x.dtype))


# ---------------------------------------------------------------- wrong answers


@wrong("first all sines, then all cosines", breaks=PAIRS, name="not interleaved")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        angles = t[:, None] * frequencies(self.dim, x.device)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong("slows each clock down by i/D", breaks=FORMULA, name="exponent lacks its 2")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t[:, None] / 10000 ** (i / self.dim)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + table.to(x.dtype)


@wrong("makes the positions in the dtype of x", breaks=FLOAT32, name="rounded positions")
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
        angles = t[:, None].float() * frequencies(self.dim, x.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + table.to(x.dtype)


@wrong(
    "multiplies x by the root of D first, as in the paper",
    breaks=SUM,
    name="scales the embeddings",
)
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        angles = t[:, None] * frequencies(self.dim, x.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x * math.sqrt(self.dim) + table.to(x.dtype)


@wrong(
    "adds past only when a single token comes in",
    breaks="past: the number of tokens that came before x.",
    name="a long input is taken for a beginning",
)
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        first = past if x.size(1) == 1 else 0
        t = torch.arange(first, first + x.size(1), device=x.device).float()
        angles = t[:, None] * frequencies(self.dim, x.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + table.to(x.dtype)


@wrong(
    "looks positions up in a table of 5000 rows, and stays in the last one",
    breaks=LENGTHS,
    name="a table with an end",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        angles = torch.arange(5000.0)[:, None] * frequencies(dim, None)
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1)).clamp(max=4999)
        return x + self.table[t].to(device=x.device, dtype=x.dtype)


@wrong(
    "keeps the table in the dtype of the first x that it has seen",
    breaks=CALLS,
    name="table made by an earlier call",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.table = None

    def forward(self, x, past=0):
        end = past + x.size(1)
        if self.table is None or self.table.size(0) < end:
            t = torch.arange(end, device=x.device, dtype=torch.float64)
            angles = t[:, None] * frequencies(self.dim, x.device, torch.float64)
            table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            self.table = table.to(x.dtype)
        return x + self.table[past:end].to(device=x.device, dtype=x.dtype)


@wrong(
    "adds in float32 and casts the sum back, also for float64",
    breaks=PRECISE,
    name="float64 vectors lose digits",
)
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        angles = t[:, None] * frequencies(self.dim, x.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return (x.float() + table).to(x.dtype)


@wrong(
    "decorates forward with no_grad because nothing is learned here",
    breaks=GRADIENTS,
    name="no gradient to x",
)
class SinusoidalPositions(Base):
    @torch.no_grad()
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        angles = t[:, None] * frequencies(self.dim, x.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + table.to(x.dtype)


@wrong(
    "makes the positions in float16 'to save memory', exact only up to 2048",
    breaks=COUNTS,
    name="half-precision positions",
)
class SinusoidalPositions(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).half().float()
        angles = t[:, None] * frequencies(self.dim, x.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + table.to(x.dtype)
