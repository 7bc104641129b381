import math

import torch
from torch import nn

from blind import right, wrong


@right("complex numbers: torch.polar gives cosine and sine, view_as_real flips into pairs")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        T = x.size(1)
        t = torch.arange(T, device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = t[:, None] / torch.pow(10000.0, 2 * i / self.dim)
        hands = torch.polar(torch.ones_like(angles), angles)  # cos + i sin
        p = torch.view_as_real(hands).flip(-1).reshape(T, self.dim)
        return x + p.to(x.dtype)


@right("an empty table filled through strided slices, with a loop over the clocks")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        steps = torch.arange(past, past + x.shape[1], device=x.device).float()
        table = torch.empty(x.shape[1], self.dim, device=x.device)
        for even in range(0, self.dim, 2):
            angle = steps / 10000.0 ** (even / self.dim)
            table[:, even] = angle.sin()
            table[:, even + 1] = angle.cos()
        return x + table.type_as(x)


@right("only sines: the odd entries choose cos or sin with torch.where; repeat_interleave of the speeds")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        entry = torch.arange(self.dim, device=x.device)
        exponent = (entry - entry % 2).to(torch.float32) / self.dim
        where = torch.arange(past, past + x.size(-2), device=x.device).to(torch.float32)
        angle = torch.outer(where, torch.ones_like(exponent)) / self.base**exponent
        encoding = torch.where(entry % 2 == 0, torch.sin(angle), torch.cos(angle))
        return torch.add(x, encoding.to(dtype=x.dtype)[None])


@right("a table kept per device that grows when it is needed, not a buffer, so .to(bfloat16) cannot round it")
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self._tables = {}

    def _table(self, length, device):
        known = self._tables.get(device)
        if known is None or len(known) < length:
            with torch.no_grad():
                t = torch.arange(length, dtype=torch.float32, device=device)
                two_i = torch.arange(0, self.dim, 2, dtype=torch.float32, device=device)
                angles = t.unsqueeze(1) / 10000 ** (two_i / self.dim)
                known = torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)
            self._tables[device] = known
        return known

    def forward(self, x, past=0):
        end = past + x.size(1)
        with torch.inference_mode(False):
            rows = self._table(end, x.device)[past:end]
        return x + rows.to(x.dtype)


@wrong(
    "puts all sines in the first half and all cosines in the second half",
    "For clock i, the positional encoding $p_t$ holds the sine of the angle of its hand, followed by the cosine:",
    "sines and cosines are not interleaved",
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
    "counts from 0 in every call and ignores past",
    "Return $x_t + p_{\\mathrm{past} + t}$, where `past` is the number of tokens that came before.",
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
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(x.dtype)


@wrong(
    "scales x by the square root of D before it adds the encodings, as a Transformer's embedding does",
    "Return $x_t + p_{\\mathrm{past} + t}$, where `past` is the number of tokens that came before.",
    "x is scaled before the sum",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x * math.sqrt(self.dim) + p.to(x.dtype)


@wrong(
    "builds a table of 5000 rows in __init__; past + T beyond 5000 raises",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "the table ends at 5000 positions",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        t = torch.arange(5000).float()
        i = torch.arange(dim // 2).float()
        angles = t[:, None] / 10000 ** (2 * i / dim)
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    def forward(self, x, past=0):
        return x + self.table[past : past + x.size(1)].to(x)


@wrong(
    "makes the positions with the dtype of x; in bfloat16 the positions 256 and 257 become equal",
    "Compute the positions and angles in float32 even if x has a different dtype, because bfloat16 cannot tell 256 from 257.",
    "positions are computed in the dtype of x",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(x.dtype)


@wrong(
    "adds float32 encodings to x without a cast; a bfloat16 x gives a float32 result",
    "(B, T, D), of the dtype of x.",
    "the result is float32 for bfloat16 inputs",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "adds the encodings into x itself with +=, so the caller's tensor is changed",
    "Do not change the inputs.",
    "changes the input in place",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] / 10000 ** (2 * i / self.dim)
        x += torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(x.dtype)
        return x


@wrong(
    "keeps the speeds of the clocks in a buffer; module.to(torch.bfloat16) rounds them, so the angles of a bfloat16 model are far off at large t",
    "Compute the positions and angles in float32 even if x has a different dtype, because bfloat16 cannot tell 256 from 257.",
    "speeds in a buffer lose precision with the module",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        i = torch.arange(dim // 2).float()
        self.register_buffer("speeds", 10000 ** (-2 * i / dim), persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        # the buffer is rounded to bfloat16 by module.to(torch.bfloat16)
        angles = t[:, None] * self.speeds.to(x.device)
        p = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + p.to(x.dtype)


@wrong(
    "keeps the encodings of a call with past > 0 and takes them for a table that begins at 0: a later call with past=0 gets the positions of the earlier past",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "the cache does not know past",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.cached = None

    def forward(self, x, past=0):
        T = x.size(1)
        if self.cached is None or self.cached.size(0) < past + T or past:
            t = torch.arange(past, past + T, device=x.device).float()
            i = torch.arange(self.dim // 2, device=x.device).float()
            angles = t[:, None] / 10000 ** (2 * i / self.dim)
            self.cached = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            return x + self.cached.to(x.dtype)
        return x + self.cached[past : past + T].to(x.device, x.dtype)


@wrong(
    "uses i instead of 2i in the exponent, so every clock is too fast; with D = 2 there is only clock 0, which is right",
    "p_{t,2i} = \\sin\\big(t / 10000^{2i/D}\\big), \\qquad p_{t,2i+1} = \\cos\\big(t / 10000^{2i/D}\\big)",
    "exponent i/D instead of 2i/D",
)
class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).float()
        i = torch.arange(self.dim // 2, device=x.device).float()
        angles = t[:, None] * torch.exp(-math.log(10000.0) * i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(x.dtype)
