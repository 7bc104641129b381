import math

import torch
from blind import right, wrong
from torch import nn

PAIR = "Entry i of the first half of a vector and entry i of the second half form a pair."
PAST = "The first vector of x is at position t = `past`."
AXES = "x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D)."
ANGLES = "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257."
DTYPE = "The rotated vectors (..., T, D), of the dtype of x."
INPUTS = "Do not change the inputs."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
LAYOUT = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
BASE = "base: b; the larger it is, the slower the slow pairs turn."
SPEED = "Each pair turns more slowly than the pair before, and the base $b$ controls how much more slowly:"


class Given(nn.Module):
    """The given lines of the lab."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def angles(self, length, past, device, dtype=torch.float32):
        t = torch.arange(past, past + length, device=device, dtype=dtype)
        i = torch.arange(self.dim // 2, device=device, dtype=dtype)
        return t[:, None] * self.base ** (-2 * i / self.dim)


def turned(x, angles):
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, two = x.chunk(2, dim=-1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@right("multiplies complex numbers in double precision")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        half = self.dim // 2
        arrows = torch.complex(x[..., :half].double(), x[..., half:].double())
        angles = self.angles(x.size(-2), past, x.device, torch.float64)
        arrows = arrows * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([arrows.real, arrows.imag], dim=-1).to(x.dtype)


@right("doubled tables, as in Llama: x cos + (-x2, x1) sin")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        angles = self.angles(x.shape[-2], past, x.device).repeat(1, 2)
        half = x.shape[-1] // 2
        other = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * angles.cos().to(x.dtype) + other * angles.sin().to(x.dtype)


@right("a 2 x 2 matrix for each position and pair, applied with einsum")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device, torch.float64)
        c, s = angles.cos(), angles.sin()
        turns = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
        pairs = x.double().unflatten(-1, (2, -1))
        return torch.einsum("tiab,...tbi->...tai", turns, pairs).flatten(-2).to(x.dtype)


@right("swaps the halves with roll and gives the sines their sign; speeds by exp and log")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        half = self.dim // 2
        place = torch.arange(self.dim, device=x.device)
        speed = torch.exp((place % half).double() * (-2 * math.log(self.base) / self.dim))
        angle = torch.outer(torch.arange(x.size(-2), device=x.device).double() + past, speed)
        sign = torch.where(place < half, -1.0, 1.0).double()
        wide = x.double()
        return (wide * angle.cos() + wide.roll(half, -1) * (sign * angle.sin())).to(x.dtype)


@wrong("takes neighbors (entries 0 and 1, 2 and 3, ...) as pairs", breaks=PAIR, name="neighbors as pairs")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x[..., 0::2], x[..., 1::2]
        return torch.stack([one * cos - two * sin, two * cos + one * sin], -1).flatten(-2)


@wrong("makes positions and angles in the dtype of x: in bfloat16, positions after 256 coincide", breaks=ANGLES, name="angles in bfloat16")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).to(x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        return turned(x, t[:, None] * self.base ** (-2 * i / self.dim))


@wrong("keeps the tables of the first call for each T, though `past` may differ the next time", breaks=CALLS, name="tables kept without past")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        kept = self.__dict__.setdefault("tables", {})
        if x.size(-2) not in kept:
            kept[x.size(-2)] = self.angles(x.size(-2), past, x.device)
        return turned(x, kept[x.size(-2)])


@wrong("keeps the speeds for each D in the class: a second object with another base uses those of the first", breaks=CALLS, name="speeds shared by all objects")
class RotaryPositions(Given):
    speeds = {}

    def forward(self, x, past=0):
        if self.dim not in self.speeds:
            i = torch.arange(self.dim // 2, dtype=torch.float32)
            self.speeds[self.dim] = self.base ** (-2 * i / self.dim)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        return turned(x, t[:, None] * self.speeds[self.dim].to(x.device))


@wrong("takes axis 1 for T, which is right only for (B, T, D)", breaks=AXES, name="T is always axis 1")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        return turned(x, self.angles(x.size(1), past, x.device))


@wrong("has a table of 4,096 positions and stays at the last one after that", breaks=LENGTHS, name="a last position")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        table = self.angles(4096, 0, x.device)
        t = torch.arange(past, past + x.size(-2), device=x.device).clamp(max=4095)
        return turned(x, table[t])


@wrong("writes the rotated halves into x itself", breaks=INPUTS, name="rotates x in place")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        new = turned(x, self.angles(x.size(-2), past, x.device))
        x.data.copy_(new.detach())
        return new


@wrong("flattens the leading axes with view, which fails for the transposed queries of several heads", breaks=LAYOUT, name="view of a transposed tensor")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        flat = x.view(-1, x.size(-2), self.dim)
        return turned(flat, self.angles(x.size(-2), past, x.device)).view(x.shape)


@wrong("does not convert the sines and cosines, so bfloat16 vectors become float32", breaks=DTYPE, name="float32 result")
class RotaryPositions(Given):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        one, two = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong("rotates the numbers of x outside the graph: no gradient reaches the projections", breaks=GRADIENTS, name="no gradients")
class RotaryPositions(Given):
    @torch.no_grad()
    def forward(self, x, past=0):
        return turned(x, self.angles(x.size(-2), past, x.device))
