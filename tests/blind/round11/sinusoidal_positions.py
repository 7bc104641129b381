import math

import torch
from torch import nn

from blind import right, wrong


@right("hands of the clocks as complex numbers, in float64")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        options = {"dtype": torch.float64, "device": x.device}
        time = torch.arange(past, past + x.size(1), **options)
        speed = 10000.0 ** (-torch.arange(0, self.dim, 2, **options) / self.dim)
        angles = torch.outer(time, speed)
        hands = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
        return x + hands.flip(-1).flatten(1).to(x.dtype)


@right("plain Python: a list of rows with math.sin and math.cos")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        slow = [10000 ** (2 * i / self.dim) for i in range(self.dim // 2)]
        rows = [
            [f(t / s) for s in slow for f in (math.sin, math.cos)]
            for t in range(past, past + x.size(1))
        ]
        return x + torch.tensor(rows, dtype=x.dtype, device=x.device)


@right("cosines as sines a quarter turn later, speeds kept as Python numbers")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.speeds = [10000.0 ** (-(j - j % 2) / dim) for j in range(dim)]

    def forward(self, x, past=0):
        steps = torch.arange(x.size(1), dtype=torch.float64, device=x.device) + past
        angles = steps[:, None] * steps.new_tensor(self.speeds)
        angles[:, 1::2] += math.pi / 2
        return (x.double() + angles.sin()).to(x.dtype)


@right("float32 angles added to every other entry of a copy")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        clock = torch.arange(self.dim // 2, dtype=torch.float32, device=x.device)
        turn = past + torch.arange(x.size(1), device=x.device)
        angle = turn.to(torch.float32).unsqueeze(1) / 10000 ** (2 * clock / self.dim)
        result = x.clone()
        result[..., 0::2] += angle.sin().to(x.dtype)
        result[..., 1::2] += angle.cos().to(x.dtype)
        return result


@wrong(
    "all sines in the first half, all cosines in the second half",
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of the clock's hand, followed by the cosine:",
    "sines and cosines in two halves",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t / 10000 ** (2 * i / self.dim)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


@wrong(
    "the exponent is i / D, so the clocks slow down half as much from one to the next",
    r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)",
    "exponent i / D instead of 2i / D",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t / 10000 ** (i / self.dim)
        code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + code.to(x.dtype)


@wrong(
    "counts positions along the first axis, as in code for (T, B, D): all tokens of a sentence get the same encoding",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that came before x.",
    "positions along the batch axis",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(0), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t / 10000 ** (2 * i / self.dim)
        code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + code.to(x.dtype).unsqueeze(1)


@wrong(
    "uses past only if x is a single token, and ignores it for longer pieces",
    r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that came before x.",
    "past ignored for T > 1",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        start = past if x.size(1) == 1 else 0
        t = torch.arange(start, start + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t / 10000 ** (2 * i / self.dim)
        code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + code.to(x.dtype)


@wrong(
    "computes positions and angles in the dtype of x, such as bfloat16",
    "Compute the positions and angles in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "positions in the dtype of x",
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
    "does not cast the encodings back, so bfloat16 vectors give a float32 result",
    "(B, T, D), of the dtype of x.",
    "result in float32 instead of the dtype of x",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t / 10000 ** (2 * i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "adds the sines and cosines to the input itself",
    "Do not change the inputs.",
    "input changed in place",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()[:, None]
        i = torch.arange(self.dim // 2, device=x.device)
        angles = t / 10000 ** (2 * i / self.dim)
        x[..., 0::2] += angles.sin().to(x.dtype)
        x[..., 1::2] += angles.cos().to(x.dtype)
        return x


@wrong(
    "the speeds are a buffer, which model.bfloat16() rounds; then positions and angles are bfloat16 too",
    "Compute the positions and angles in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257.",
    "angles lose precision when the module is cast",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        speeds = 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("speeds", speeds, persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(self.speeds)
        angles = torch.outer(t, self.speeds)
        code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + code.to(x.dtype)


@wrong(
    "keeps the table of the first call in that call's dtype: after a bfloat16 call, float32 vectors get rounded encodings",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "table cached with the dtype of an earlier call",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.table = None

    def forward(self, x, past=0):
        end = past + x.size(1)
        if self.table is None or len(self.table) < end:
            t = torch.arange(end, device=x.device).float()[:, None]
            i = torch.arange(self.dim // 2, device=x.device)
            angles = t / 10000 ** (2 * i / self.dim)
            code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            self.table = code.to(x.dtype)
        return x + self.table[past:end].to(x)


@wrong(
    "a table of 5000 rows, made once: later positions have no row",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "only a fixed number of positions",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        angles = torch.arange(5000).float()[:, None] / 10000 ** (
            torch.arange(0, dim, 2).float() / dim
        )
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    def forward(self, x, past=0):
        return x + self.table[past : past + x.size(1)].to(x)
