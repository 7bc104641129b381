import math

import torch
from torch import nn

from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
FORMULA = (
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad"
    r" p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)"
)
ORDER = (
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of the"
    " clock's hand, followed by the cosine:"
)
PAST = (
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that"
    " came before x."
)
FLOAT = (
    "Compute the positions and angles in float32 or in a more precise dtype, whatever"
    " the dtype of x is: bfloat16 cannot tell 256 from 257."
)


@right("unit complex numbers in complex128, seen as pairs and flipped")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        times = torch.arange(past, past + x.size(1), dtype=torch.float64)
        exponents = torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim
        angles = torch.outer(times, torch.pow(10000.0, exponents).reciprocal())
        hands = torch.polar(torch.ones_like(angles), angles)
        encoding = torch.view_as_real(hands).flip(-1).reshape(x.size(1), self.dim)
        return x + encoding.to(device=x.device, dtype=x.dtype)


@right("plain Python numbers, one list per position")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        speeds = [10000 ** (-2 * i / self.dim) for i in range(self.dim // 2)]
        rows = [
            [hand((past + t) * speed) for speed in speeds for hand in (math.sin, math.cos)]
            for t in range(x.size(1))
        ]
        return torch.add(x, torch.tensor(rows, dtype=x.dtype, device=x.device))


@right("turns the clocks by past with the addition theorems, in float64")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, dtype=torch.float64)
        speed = torch.exp(-math.log(10000.0) * 2 * i / self.dim)
        angle = torch.arange(x.size(1), dtype=torch.float64)[:, None] * speed
        turned = past * speed
        sine = angle.sin() * turned.cos() + angle.cos() * turned.sin()
        cosine = angle.cos() * turned.cos() - angle.sin() * turned.sin()
        table = torch.zeros(x.size(1), self.dim, dtype=torch.float64)
        table[:, 0::2] = sine
        table[:, 1::2] = cosine
        return x + table.to(x)


@right("one sine for all entries: the cosine is a sine a quarter turn later; adds wide")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        entry = torch.arange(self.dim)
        even = (entry - entry % 2).double()
        quarter = (entry % 2) * (math.pi / 2)
        time = past + torch.arange(x.size(1)).double()
        table = torch.sin(time[:, None] / 10000 ** (even / self.dim) + quarter.double())
        wide = torch.promote_types(x.dtype, torch.float32)
        return (x.to(wide) + table.to(x.device, wide)).to(x.dtype)


@wrong(
    "puts all sines into the first half and all cosines into the second half",
    ORDER,
    "sines and cosines in two halves",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        power = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = time / 10000**power
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong(
    "uses i instead of 2i in the exponent, so all clocks but the first are too fast",
    FORMULA,
    "exponent i/D instead of 2i/D",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        power = torch.arange(self.dim // 2, device=x.device).float() / self.dim
        angles = time / 10000**power
        both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + both.to(x.dtype)


@wrong(
    "makes the positions in the dtype of x, so late positions are rounded in bfloat16",
    FLOAT,
    "positions in the dtype of x",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(past, past + x.size(1), dtype=x.dtype, device=x.device)
        power = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = time[:, None].to(torch.promote_types(x.dtype, torch.float32)) / 10000**power
        both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + both.to(x.dtype)


@wrong(
    "adds float32 encodings, so that bfloat16 vectors give a float32 result",
    DTYPE,
    "float32 result for bfloat16 vectors",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        power = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = time / 10000**power
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "counts past only if x is a single token, as in generation; longer pieces always"
    " start from position 0",
    PAST,
    "past ignored for several tokens",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        if x.size(1) == 1:
            time = torch.full((1,), float(past), device=x.device)
        else:
            time = torch.arange(x.size(1), device=x.device).float()
        power = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = time[:, None] / 10000**power
        both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + both.to(x.dtype)


@wrong(
    "looks up a table of 5000 rows, as many tutorials do, so longer inputs fail",
    ALL,
    "table of fixed length",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(5000, device=x.device).float()[:, None]
        power = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = time / 10000**power
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + table[past : past + x.size(1)].to(x.dtype)


@wrong(
    "keeps its table in the dtype of the first x, so a float64 call after a bfloat16"
    " call gets rounded encodings",
    STATE,
    "cached table in an earlier dtype",
)
class SinusoidalPositions(nn.Module):
    table = None

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        end = past + x.size(1)
        if self.table is None or self.table.size(0) < end:
            time = torch.arange(end, dtype=torch.float64)[:, None]
            power = torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim
            angles = time / 10000**power
            table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            self.table = table.to(x.device, x.dtype)
        return x + self.table[past:end].to(x.device, x.dtype)


@wrong(
    "shares a cache of tables between all objects, with the length as its key but not"
    " the width or the past",
    STATE,
    "cache shared between objects",
)
class SinusoidalPositions(nn.Module):
    tables = {}

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        end = past + x.size(1)
        if end not in self.tables:
            time = torch.arange(end).double()[:, None]
            angles = time / 10000 ** (torch.arange(0, self.dim, 2).double() / self.dim)
            self.tables[end] = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return x + self.tables[end][past:].to(x.device, x.dtype)


@wrong(
    "spreads the clocks over D/2 - 1 steps, so the last one is slowest by 10000; with"
    " one clock it divides by zero",
    FORMULA,
    "frequencies divided by D/2 minus 1",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        half = self.dim // 2
        time = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        step = math.log(10000.0) / (half - 1)
        angles = time * torch.exp(-step * torch.arange(half, device=x.device).float())
        both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + both.to(x.dtype)


@wrong(
    "adds the encodings to x in place if no gradient is recorded",
    CHANGE,
    "adds to the input in place",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        time = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        power = torch.arange(0, self.dim, 2, device=x.device).float() / self.dim
        angles = time / 10000**power
        both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(x.dtype)
        if torch.is_grad_enabled():
            return x + both
        return x.add_(both)
