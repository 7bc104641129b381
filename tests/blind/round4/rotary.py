import torch
from blind import right, wrong
from torch import nn


@right("a loop over the pairs, filled into an empty tensor")
class R1(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        steps = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        out = torch.empty_like(x)
        for i in range(half):
            angle = steps * self.base ** (-2 * i / self.dim)
            cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            out[..., i] = x[..., i] * cos - x[..., i + half] * sin
            out[..., i + half] = x[..., i + half] * cos + x[..., i] * sin
        return out


@right("complex numbers, multiplied in at least float32, rounded once at the end")
class R2(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(
            past, past + x.shape[-2], device=x.device, dtype=torch.float32
        )
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = where[:, None] * self.base ** (-2 * i / self.dim)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        arrows = torch.view_as_complex(torch.stack(wide.chunk(2, dim=-1), dim=-1))
        circle = torch.view_as_complex(
            torch.stack((angles.cos(), angles.sin()), dim=-1)
        )
        turned = torch.view_as_real(arrows * circle)
        return torch.cat(turned.unbind(-1), dim=-1).to(x.dtype)


@right("two columns of a matrix of rotation, on an axis of pairs")
class R3(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = x.shape[-1] // 2
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
        where = where.add(past).unsqueeze(-1)
        speeds = self.base ** (
            torch.arange(0, 2 * half, 2, device=x.device, dtype=torch.float32)
            / (-2 * half)
        )
        cos, sin = (f(where * speeds).to(x.dtype) for f in (torch.cos, torch.sin))
        pairs = x.unflatten(-1, (2, half))
        from_first = pairs[..., :1, :] * torch.stack((cos, sin), dim=-2)
        from_second = pairs[..., 1:, :] * torch.stack((-sin, cos), dim=-2)
        return (from_first + from_second).flatten(-2)


@right("angles with signs for both halves, and the vector rolled by half its width")
class R4(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device).float()
        speeds = torch.pow(self.base, -2 * i / self.dim)
        where = torch.arange(past, past + x.size(-2), device=x.device).float()
        angles = where[:, None] * torch.cat((-speeds, speeds))
        swapped = x.roll(self.dim // 2, dims=-1)
        return x * angles.cos().to(x.dtype) + swapped * angles.sin().to(x.dtype)


@wrong(
    "takes neighbouring entries as a pair",
    breaks="Entry i of the first half and entry i of the second half of a vector are a"
    " pair.",
    name="pairs of neighbours",
    subtle=False,
)
class W1(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = where[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
        return turned.flatten(-2)


@wrong(
    "the second half is computed from the first half that is turned already",
    breaks="They take its entries in pairs, look at each pair as an arrow in a plane,"
    " and turn the arrow by an angle that grows with the position.",
    name="first half overwritten too early",
    subtle=False,
)
class W2(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = where[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        first = first * cos - second * sin
        second = second * cos + first * sin
        return torch.cat((first, second), dim=-1)


@wrong(
    "goes to float32 for float16 only, so bfloat16 has angles of its own precision",
    breaks="Take the angles, their sines and their cosines in float32 also if x has"
    " another dtype.",
    name="bfloat16 forgotten",
    subtle=True,
)
class W3(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        dtype = torch.float32 if x.dtype == torch.float16 else x.dtype
        where = torch.arange(past, past + x.shape[-2], device=x.device).to(dtype)
        i = torch.arange(self.dim // 2, device=x.device).to(dtype)
        angles = where[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        )


@wrong(
    "rounds the angles to the dtype of x before it takes sines and cosines",
    breaks="Take the angles, their sines and their cosines in float32 also if x has"
    " another dtype.",
    name="angles rounded before the sine",
    subtle=True,
)
class W4(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = (where[:, None] * self.base ** (-2 * i / self.dim)).to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (
                first * angles.cos() - second * angles.sin(),
                second * angles.cos() + first * angles.sin(),
            ),
            dim=-1,
        )


@wrong(
    "keeps the angles of an earlier call of the same length, whatever its past was",
    breaks="Positions count from `past`, which is the number of tokens that have come"
    " before.",
    name="stale angles",
    subtle=True,
)
class W5(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        kept = getattr(self, "angles", None)
        if kept is None or len(kept) != x.shape[-2] or kept.device != x.device:
            where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            speeds = self.base ** (-2 * i / self.dim)
            self.angles = (where + past)[:, None] * speeds
        cos, sin = self.angles.cos().to(x.dtype), self.angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        )


@wrong(
    "looks the angles up in a table that ends at 4,096 positions",
    breaks="Your code works for every length from one on, for large numbers as for"
    " small ones, in train mode and in eval mode.",
    name="a last position",
    subtle=True,
)
class W6(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(4096, device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        table = where[:, None] * self.base ** (-2 * i / self.dim)
        angles = table[past : past + x.shape[-2]]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        )


@wrong(
    "takes x.to(float32) for a copy and turns it in place; in float32 it is x itself",
    breaks="What comes in stays as it is, and what goes out has its dtype and its"
    " device.",
    name="x turned in place unless it is half",
    subtle=True,
)
class W7(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        i = torch.arange(half, device=x.device, dtype=torch.float32)
        angles = where[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos(), angles.sin()
        turned = x.to(torch.promote_types(x.dtype, torch.float32))
        first = turned[..., :half].clone()
        second = turned[..., half:].clone()
        turned[..., :half] = first * cos - second * sin
        turned[..., half:] = second * cos + first * sin
        return turned.to(x.dtype)


@wrong(
    "squeezes the angles, and loses the axis of the pairs where D is 2",
    breaks="The turned vectors (..., T, D), of the dtype of x.",
    name="squeezed angles",
    subtle=True,
)
class W8(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = (where[:, None] * self.base ** (-2 * i / self.dim)).squeeze()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        )


@wrong(
    "makes the positions and speeds on the default device",
    breaks="What comes in stays as it is, and what goes out has its dtype and its"
    " device.",
    name="angles on the CPU",
    subtle=True,
)
class W9(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        where = torch.arange(past, past + x.shape[-2], dtype=torch.float32)
        speeds = self.base ** (-torch.arange(0, self.dim, 2).float() / self.dim)
        angles = where[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        )


@wrong(
    "does not turn a single token, even if it has a past",
    breaks="Positions count from `past`, which is the number of tokens that have come"
    " before.",
    name="a single token is not turned",
    subtle=True,
)
class W10(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        length = x.shape[-2]
        if length == 1:  # position 0 has the angle 0
            return x.clone()
        where = torch.arange(length, device=x.device, dtype=torch.float32) + past
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        angles = where[:, None] * self.base ** (-2 * i / self.dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        )
