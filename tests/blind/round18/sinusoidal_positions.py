import math

import torch
from torch import nn

from blind import right, wrong

ORDER = (
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of the "
    "clock's hand, followed by the cosine:"
)
FORMULA = (
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad "
    r"p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)"
)
FROM_0 = "Both i and t count from 0."
RETURN = (
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that "
    "came before x."
)
EACH = "Add its positional encoding to each vector."
PRECISE = (
    "Compute the positions and angles in float32 or in a more precise dtype, whatever "
    "the dtype of x is: bfloat16 cannot tell 256 from 257."
)
LENGTHS = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for "
    "large and for small numbers, in train mode and in eval mode."
)
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class."
)
GRADIENTS = "Gradients must be right, too."


# ---------------------------------------------------------------- right


@right("turns the hands as complex numbers: a rotation by past times one by t")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, dtype=torch.float64, device=x.device)
        speed = torch.exp(-2 * i / self.dim * math.log(10000))
        t = torch.arange(x.size(1), dtype=torch.float64, device=x.device)
        start = torch.polar(torch.ones_like(speed), past * speed)
        turn = torch.polar(
            torch.ones(len(t), len(speed), dtype=torch.float64, device=x.device),
            torch.outer(t, speed),
        )
        hands = torch.view_as_real(start * turn)  # (T, D/2, 2): cosine, sine
        return x + hands.flip(-1).flatten(1).to(x.dtype)


@right("a sine for all entries: odd entries are a quarter turn ahead, in float64")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        entry = torch.arange(self.dim, device=x.device)
        clock = entry.div(2, rounding_mode="floor").double()
        quarter = entry.remainder(2).double() * (math.pi / 2)
        t = torch.arange(past, past + x.size(1), device=x.device).double()
        angle = t[:, None] * torch.pow(10000.0, -2 * clock / self.dim) + quarter
        return (x.double() + angle.sin()).to(x.dtype)


@right("plain Python numbers, one at a time")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        table = []
        for t in range(past, past + x.size(1)):
            row = []
            for i in range(self.dim // 2):
                angle = t / 10000 ** (2 * i / self.dim)
                row += [math.sin(angle), math.cos(angle)]
            table.append(row)
        table = torch.tensor(table, dtype=torch.float64)
        return x + table.to(device=x.device, dtype=x.dtype)


@right("float32 and whole numbers, written into every second column of a table")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        places = past + torch.arange(x.size(1), device=x.device)
        even = torch.arange(0, self.dim, 2, dtype=torch.float32, device=x.device)
        angles = places.unsqueeze(1) / torch.tensor(
            10000.0, dtype=torch.float32, device=x.device
        ).pow(even / self.dim)
        table = angles.new_empty(x.size(1), self.dim)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        return torch.add(x, table.to(x.dtype))


# ---------------------------------------------------------------- wrong


def clocks(places, dim):
    """Encode positions rightly, in float64: (T,) -> (T, D)."""
    i = torch.arange(dim // 2, dtype=torch.float64, device=places.device)
    angles = places.double()[:, None] / 10000 ** (2 * i / dim)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "puts all sines into the first half and all cosines into the second half",
    breaks=ORDER,
    name="sines and cosines not interleaved",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong(
    "uses 10000 to the power of j/D for entry j, also for the cosines",
    breaks=FORMULA,
    name="the cosine's clock runs at another speed than the sine's",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        j = torch.arange(self.dim, device=x.device).float()
        angles = t[:, None] / 10000 ** (j / self.dim)
        table = torch.empty_like(angles)
        table[:, 0::2] = angles[:, 0::2].sin()
        table[:, 1::2] = angles[:, 1::2].cos()
        return x + table.to(x.dtype)


@wrong(
    "counts the first token as position 1",
    breaks=FROM_0,
    name="positions count from 1",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        places = torch.arange(1, x.size(1) + 1, device=x.device) + past
        return x + clocks(places, self.dim).to(x.dtype)


@wrong(
    "multiplies x by the square root of D before it adds, as the Transformer paper does",
    breaks=RETURN,
    name="vectors scaled",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        places = torch.arange(past, past + x.size(1), device=x.device)
        return x * math.sqrt(self.dim) + clocks(places, self.dim).to(x.dtype)


@wrong(
    "counts along the batch: all tokens of sentence b get position past + b",
    breaks=EACH,
    name="positions along the wrong axis",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        places = past + torch.arange(len(x), device=x.device)
        return x + clocks(places, self.dim).to(x.dtype)[:, None]


@wrong(
    "makes the positions in the dtype of x: bfloat16 merges positions from 256 on",
    breaks=PRECISE,
    name="positions rounded to bfloat16",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        places = torch.arange(x.size(1), device=x.device).to(x.dtype) + past
        return x + clocks(places, self.dim).to(x.dtype)


@wrong(
    "gives all tokens the position `past` if past > 0, as if only one token followed",
    breaks=RETURN,
    name="several tokens after a past share one position",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        if past > 0:  # we generate: the new token is number `past`
            places = torch.full((x.size(1),), past, device=x.device)
        else:
            places = torch.arange(x.size(1), device=x.device)
        return x + clocks(places, self.dim).to(x.dtype)


@wrong(
    "shares the table of a length between objects and cuts a wider one to D columns",
    breaks=CALLS,
    name="a cache of the class forgets the width",
)
class SinusoidalPositions(nn.Module):
    tables = {}

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        size = past + x.size(1)
        table = self.tables.get(size)
        if table is None or table.size(1) < self.dim:
            table = clocks(torch.arange(size), self.dim)
            self.tables[size] = table
        table = table[past:, : self.dim]
        return x + table.to(device=x.device, dtype=x.dtype)


@wrong(
    "runs without gradients, since a positional encoding has no parameters",
    breaks=GRADIENTS,
    name="no gradient reaches x",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    @torch.no_grad()
    def forward(self, x, past=0):
        places = torch.arange(past, past + x.size(1), device=x.device)
        return x + clocks(places, self.dim).to(x.dtype)


@wrong(
    "looks positions up in a table of 1000 rows; all later positions get the last row",
    breaks=LENGTHS,
    name="positions end at a maximal length",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        table = clocks(torch.arange(1000, device=x.device), self.dim)
        places = torch.arange(past, past + x.size(1), device=x.device).clamp(max=999)
        return x + table[places].to(x.dtype)
