import torch
from blind import right, wrong
from torch import nn


@right("complex numbers: each pair times a number of length one")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        steps = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        places = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = places[:, None] * self.base ** (-steps / self.dim)
        wide = torch.promote_types(x.dtype, torch.float32)
        turn = torch.complex(angles.cos().to(wide), angles.sin().to(wide))
        left, right = x.to(wide).tensor_split(2, dim=-1)
        arrows = torch.complex(left, right) * turn
        return torch.cat((arrows.real, arrows.imag), dim=-1).to(x.dtype)


@right("adds the vector and its halves exchanged, as many models do")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        powers = torch.arange(half, device=x.device, dtype=torch.float32) * 2 / self.dim
        places = torch.arange(past, past + x.size(-2), device=x.device).float()
        angles = torch.outer(places, 1.0 / torch.pow(self.base, powers)).repeat(1, 2)
        crossed = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * angles.cos().to(x.dtype) + crossed * angles.sin().to(x.dtype)


@right("a loop over the positions, a rotation matrix for each pair")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        options = {"device": x.device, "dtype": torch.float32}
        speeds = self.base ** (-torch.arange(0, self.dim, 2, **options) / self.dim)
        rows = []
        for t in range(x.shape[-2]):
            angles = speeds * (past + t)
            c, s = angles.cos(), angles.sin()
            matrix = torch.stack((torch.stack((c, -s)), torch.stack((s, c))))
            pairs = x[..., t, :].unflatten(-1, (2, self.dim // 2))
            row = torch.einsum("abi,...bi->...ai", matrix.to(x.dtype), pairs)
            rows.append(row.flatten(-2))
        return torch.stack(rows, dim=-2)


def turned(x, past, base):
    """Rotate the pairs of x; the first vector is at position `past`."""
    dim = x.shape[-1]
    pair = torch.arange(dim // 2, device=x.device, dtype=torch.float32)
    place = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32).add(past)
    angle = place.unsqueeze(-1) * torch.pow(base, -2 * pair / dim)
    wide = torch.promote_types(x.dtype, torch.float32)
    left, right = x[..., : dim // 2].to(wide), x[..., dim // 2 :].to(wide)
    result = torch.empty(x.shape, dtype=wide, device=x.device)
    result[..., : dim // 2] = left * angle.cos() - right * angle.sin()
    result[..., dim // 2 :] = right * angle.cos() + left * angle.sin()
    return result.to(x.dtype)


@right("a function of its own, which writes both halves into an empty tensor")
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        return turned(x, past, self.base)


@wrong(
    "pairs neighbours (0 with 1, 2 with 3) instead of the halves; the scores still"
    " depend on the distance only, but the vectors are wrong for D above 2",
    "Entry i of the first half of a vector and entry i of the second half form a pair.",
    "pairs neighbouring entries",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * c - b * s, b * c + a * s), dim=-1).flatten(-2)


@wrong(
    "leaves out the factor 2 in the exponent, so the slow pairs turn too fast; right"
    " for D = 2 and at position 0",
    "\\theta_{ti} = t\\, b^{-2i/D}, \\qquad i = 0, \\dots, D/2 - 1",
    "exponent -i/D instead of -2i/D",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


@wrong(
    "computes the second half from the new first half instead of the old one; right"
    " only at position 0",
    "If both queries and keys are rotated, their product depends on their positions"
    " only through the distance between them.",
    "second half uses the rotated first half",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        a = a * c - b * s
        b = b * c + a * s
        return torch.cat((a, b), dim=-1)


@wrong(
    "computes positions and angles in the dtype of x: bfloat16 vectors at the positions"
    " 256 and 257 are rotated by the same angle",
    "Compute the angles, their sines and their cosines in float32 even if x has a"
    " different dtype, because bfloat16 cannot tell 256 from 257.",
    "angles in bfloat16",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=x.dtype)
        t = torch.arange(past, past + x.shape[-2], device=x.device).to(x.dtype)
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos(), angles.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


@wrong(
    "takes axis 1 for the tokens: right for (B, T, D); for (B, H, T, D) it is the heads"
    " and for (T, D) the width",
    "x may have any number of axes before the last two, for example (T, D), (B, T, D)"
    " or (B, H, T, D).",
    "shape[1] is T only for one batch axis",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[1], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


@wrong(
    "never converts the float32 sines and cosines, so bfloat16 and float16 vectors come"
    " back as float32",
    "The rotated vectors (..., T, D), of the dtype of x.",
    "result is float32 for bfloat16",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        a, b = x.chunk(2, dim=-1)
        c, s = angles.cos(), angles.sin()
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


@wrong(
    "works on views of x: the halves are overwritten, so the caller's vectors are"
    " rotated too",
    "Do not change the inputs.",
    "rotates the caller's vectors in place",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., : self.dim // 2], x[..., self.dim // 2 :]
        first, second = a * c - b * s, b * c + a * s
        with torch.no_grad():
            a.copy_(first)
            b.copy_(second)
        return torch.cat((first, second), dim=-1)


@wrong(
    "counts from past only for a single new token, and from 0 for several: right for"
    " whole texts and token by token, wrong for two or more tokens after a past",
    "Count the positions from `past`, the number of tokens that came before.",
    "past only counts for one token",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
        if x.shape[-2] == 1:
            t = t + past
        angles = t[:, None] * self.base ** (-i / self.dim)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


@wrong(
    "keeps one table of sines and cosines for all objects of the same width, without"
    " the base: a second object with another base gets the speeds of the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "table shared by objects with different bases",
)
class RotaryPositions(nn.Module):
    tables = {}

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        name, end = (self.dim, x.device), past + x.shape[-2]
        if name not in self.tables or len(self.tables[name]) < end:
            i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float32)
            t = torch.arange(2 * end, device=x.device, dtype=torch.float32)
            self.tables[name] = t[:, None] * self.base ** (-i / self.dim)
        angles = self.tables[name][past:end]
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


@wrong(
    "keeps the speeds in a buffer: after module.bfloat16() they are rounded to"
    " bfloat16, and at large positions the angles are wrong by radians",
    "Compute the angles, their sines and their cosines in float32 even if x has a"
    " different dtype, because bfloat16 cannot tell 256 from 257.",
    "speeds rounded together with the model",
)
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base
        i = torch.arange(0, dim, 2, dtype=torch.float32)
        self.register_buffer("speeds", base ** (-i / dim), persistent=False)

    def forward(self, x, past=0):
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32) + past
        angles = t[:, None] * self.speeds.to(x.device, torch.float32)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)
