import torch
from blind import right, wrong
from torch import nn


class Base(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def angles(self, length, past, device):
        t = torch.arange(past, past + length, device=device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=device, dtype=torch.float32)
        return t[:, None] * self.base ** (-2 * i / self.dim)

    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@right("as the hints say")
class R1(Base):
    pass


@right("complex numbers, computed in single precision or better")
class R2(Base):
    def forward(self, x, past=0):
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        angles = self.angles(x.size(-2), past, x.device)
        turn = torch.polar(torch.ones_like(angles), angles)
        a, b = x.to(wide).chunk(2, dim=-1)
        z = torch.complex(a, b) * turn
        return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)


@right("rotate_half as in Llama")
class R3(Base):
    def forward(self, x, past=0):
        angles = self.angles(x.shape[-2], past, x.device)
        angles = torch.cat([angles, angles], -1)
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


@right("speeds by log and exp, positions added to past")
class R4(Base):
    def angles(self, length, past, device):
        i = torch.arange(0, self.dim, 2, device=device).float()
        speed = torch.exp(-torch.log(torch.tensor(float(self.base))) * i / self.dim)
        t = torch.arange(length, device=device).float() + past
        return torch.outer(t, speed.to(device))


@wrong(
    "the position is ignored from the past",
    "Positions count from past",
    "past ignored",
)
class W1(Base):
    def angles(self, length, past, device):
        return super().angles(length, 0, device)


@wrong(
    "turns the other way",
    "the formula of x'",
    "turned backwards",
)
class W2(Base):
    def angles(self, length, past, device):
        return -super().angles(length, past, device)


@wrong(
    "neighbours are the pairs",
    "Entry i of the first half and entry i of the second half of a vector are a pair.",
    "neighbours as pairs",
)
class W3(Base):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


@wrong(
    "exponent -i / D",
    "t b^(-2i/D)",
    "factor 2 missing",
)
class W4(Base):
    def angles(self, length, past, device):
        t = torch.arange(past, past + length, device=device).float()
        i = torch.arange(self.dim // 2, device=device).float()
        return t[:, None] * self.base ** (-i / self.dim)


@wrong(
    "the first position is 1",
    "Without a past, the first position is 0.",
    "positions from 1",
)
class W5(Base):
    def angles(self, length, past, device):
        return super().angles(length, past + 1, device)


@wrong(
    "angles in the dtype of x",
    "Take the angles, their sines and their cosines in float32 also if x has another dtype.",
    "angles in half precision",
)
class W6(Base):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(-2), device=x.device).to(x.dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(x.dtype)
        angles = t[:, None] * self.base ** (-2 * i / self.dim)
        a, b = x.chunk(2, dim=-1)
        return torch.cat(
            [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()],
            dim=-1,
        )


@wrong(
    "the base is always 10,000",
    "The base b says how much more slowly",
    "base ignored",
)
class W7(Base):
    def angles(self, length, past, device):
        self_base, self.base = self.base, 10_000.0
        angles = super().angles(length, past, device)
        self.base = self_base
        return angles


@wrong(
    "positions run along the second axis",
    "There may be any number of axes before the last two",
    "length of axis 1",
)
class W8(Base):
    def forward(self, x, past=0):
        if x.dim() < 3:
            return super().forward(x, past)
        return super().forward(x.transpose(1, -2), past).transpose(1, -2)


@wrong(
    "a table of 2048 positions",
    "Your code works for every length from one on",
    "table too short",
)
class W9(Base):
    def angles(self, length, past, device):
        return super().angles(2048, 0, device)[past : past + length]


@wrong(
    "both formulas with minus",
    "the formula of x'",
    "sign of the second half",
)
class W10(Base):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos - a * sin], dim=-1)


@wrong(
    "gives float32 for half precision",
    "of the dtype of x",
    "dtype lost",
)
class W11(Base):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        a, b = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


@wrong(
    "keeps the angles of the first call",
    "Positions count from past",
    "angles kept",
)
class W12(Base):
    def angles(self, length, past, device):
        kept = getattr(self, "kept", None)
        if kept is None or len(kept) != length:
            self.kept = super().angles(length, past, device)
        return self.kept


@wrong(
    "turns in place",
    "What comes in stays as it is",
    "in place",
)
class W13(Base):
    def forward(self, x, past=0):
        x.copy_(super().forward(x, past))
        return x


@wrong(
    "adds the encoding to the vector",
    "Rotary positions add nothing to a vector.",
    "added",
)
class W14(Base):
    def forward(self, x, past=0):
        angles = self.angles(x.size(-2), past, x.device)
        return x + torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype)


@wrong(
    "the slowest pair comes first",
    "each pair turns more slowly than the one before",
    "speeds reversed",
)
class W15(Base):
    def angles(self, length, past, device):
        return super().angles(length, past, device).flip(-1)


@wrong(
    "angles modulo 2 pi with 3.14159",
    "the angle of the formula",
    "coarse pi",
)
class W16(Base):
    def angles(self, length, past, device):
        return super().angles(length, past, device) % (2 * 3.1416)
