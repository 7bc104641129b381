import math

import torch
from torch import nn

from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("plain Python: two loops with math.sin and math.cos, float64")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def row(self, t):
        numbers = []
        for i in range(self.dim // 2):
            angle = t / 10000 ** (2 * i / self.dim)
            numbers += [math.sin(angle), math.cos(angle)]
        return numbers

    def forward(self, x, past=0):
        table = [self.row(past + t) for t in range(x.size(1))]
        table = torch.tensor(table, dtype=torch.float64, device=x.device)
        return x + table.to(x.dtype)


@right("complex numbers: the hands are e^(i angle), their parts flipped")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.shape[1], device=x.device, dtype=torch.float64) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        angles = torch.outer(t, torch.exp(-math.log(10000.0) * 2 * i / self.dim))
        hands = torch.polar(torch.ones_like(angles), angles)
        parts = torch.view_as_real(hands).flip(-1)  # (T, D/2, 2): sine, cosine
        return parts.reshape(1, x.shape[1], self.dim).to(x.dtype) + x


@right("sines only: every second entry is shifted by a quarter of a turn")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        entry = torch.arange(self.dim, device=x.device)
        t = torch.arange(past, past + x.size(1), device=x.device).unsqueeze(1)
        slow = torch.pow(10000.0, (entry - entry % 2).double() / self.dim)
        shift = (entry % 2).double() * (math.pi / 2)
        return x.add(torch.sin(t.double() / slow + shift).type_as(x))


@right("keeps each table in float64, under all that it depends on")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.tables = {}

    def table(self, past, length, device):
        key = (past, length, str(device))
        if key not in self.tables:
            t = torch.arange(past, past + length, dtype=torch.float64, device=device)
            table = torch.empty(length, self.dim, dtype=torch.float64, device=device)
            for column in range(0, self.dim, 2):
                angle = t / 10000 ** (column / self.dim)
                table[:, column] = angle.sin()
                table[:, column + 1] = angle.cos()
            self.tables[key] = table
        return self.tables[key]

    def forward(self, x, past=0):
        return x + self.table(past, x.size(1), x.device).to(x.dtype)


# ---------------------------------------------------------------- wrong answers


@wrong(
    "puts all sines first and all cosines behind them",
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of the"
    " clock's hand, followed by the cosine:",
    "sines and cosines not interleaved",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong(
    "always counts from 0 and ignores past",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that"
    " came before x.",
    "past ignored",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        hands = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + hands.to(x.dtype)


@wrong(
    "takes the exponent i/D instead of 2i/D, so that the slow clocks are too fast",
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t /"
    r" 10000^{2i/D}\big)",
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
        hands = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + hands.to(x.dtype)


@wrong(
    "makes positions and angles in the dtype of x: in bfloat16 token 257 gets the"
    " encoding of token 256",
    "Compute the positions and angles in float32 or in a more precise dtype, whatever"
    " the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "positions in bfloat16",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "makes a table of 5000 rows once: fails if past + T is more than 5000",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "table with a last position",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        t = torch.arange(5000, dtype=torch.float64)
        i = torch.arange(dim // 2, dtype=torch.float64)
        angles = t[:, None] / 10000 ** (2 * i / dim)
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    def forward(self, x, past=0):
        rows = self.table[past : past + x.size(1)]
        return x + rows.to(device=x.device, dtype=x.dtype)


@wrong(
    "adds float32 encodings to x as they are: bfloat16 vectors give a float32 result",
    "(B, T, D), of the dtype of x.",
    "result has another dtype than x",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "adds the encodings to x in place",
    "Do not change the inputs.",
    "changes x",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        hands = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        x += hands.to(x.dtype)
        return x


@wrong(
    "ends the positions at T instead of past + T: right for past = 0 only",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that"
    " came before x.",
    "arange(past, T)",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        hands = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + hands.to(x.dtype)


@wrong(
    "makes the positions on the CPU: fails for vectors on a GPU",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "device of x ignored",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), dtype=torch.float32)
        i = torch.arange(self.dim // 2, dtype=torch.float32)
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        hands = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + hands.to(x.dtype)


@wrong(
    "keeps tables in a dictionary of the class, in the dtype of the first x: after"
    " bfloat16 vectors, float32 vectors get encodings rounded to bfloat16",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "cached in the dtype of an earlier call",
    subtle=True,
)
class SinusoidalPositions(nn.Module):
    tables = {}

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        key = (self.dim, past, x.size(1))
        if key not in self.tables:
            t = torch.arange(past, past + x.size(1), dtype=torch.float64)
            i = torch.arange(self.dim // 2, dtype=torch.float64)
            angles = t[:, None] / 10000 ** (2 * i / self.dim)
            hands = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            self.tables[key] = hands.to(device=x.device, dtype=x.dtype)
        return x + self.tables[key].to(device=x.device, dtype=x.dtype)
