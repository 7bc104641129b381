import torch
from torch import nn
from blind import right, wrong

PAIR = "Entry i of the first half of a vector and entry i of the second half form a pair."
SLOWER = "Each pair turns more slowly than the pair before, and the base $b$ controls how much more slowly:"
ROTATE = r"x'_{t,i} = x_{t,i} \cos\theta_{ti} - x_{t,i+D/2} \sin\theta_{ti}, \qquad x'_{t,i+D/2} = x_{t,i+D/2} \cos\theta_{ti} + x_{t,i} \sin\theta_{ti}"
PAST = "Count the positions from `past`, the number of tokens that came before x."
AXES = "x may have any number of axes before the last two, for example (T, D), (B, T, D) or (B, H, T, D)."
PRECISE = "Compute the angles, their sines and their cosines in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257."
DTYPE = "The rotated vectors (..., T, D), of the dtype of x."
GRADIENTS = "Gradients must be right, too."
EARLIER = "The result of a call must not depend on earlier calls or on other objects of the same class."
LENGTHS = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."


@right('complex numbers in double precision')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        t = torch.arange(x.shape[-2], device=x.device, dtype=torch.float64) + past
        i = torch.arange(0, self.dim, 2, device=x.device, dtype=torch.float64)
        angles = torch.outer(t, self.base ** (-i / self.dim))
        one, two = x.double().tensor_split(2, dim=-1)
        turned = torch.complex(one, two) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


@right('2 by 2 rotation matrices and einsum')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float64)
        t = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float64)
        angles = t[:, None] / self.base ** (2 * i / self.dim)
        cos, sin = angles.cos(), angles.sin()
        turn = torch.stack([torch.stack([cos, -sin]), torch.stack([sin, cos])])  # (2, 2, T, D/2)
        pairs = x.unflatten(-1, (2, self.dim // 2))  # (..., T, 2, D/2)
        turned = torch.einsum("oitp,...tip->...top", turn.to(x.dtype), pairs)
        return turned.flatten(-2)


@right('roll by half of the width, with signs')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = self.dim // 2
        i = torch.arange(self.dim, device=x.device) % half
        t = torch.arange(x.size(-2), device=x.device, dtype=torch.float32).add(past)
        angles = t.unsqueeze(-1) * torch.pow(self.base, -2.0 * i.float() / self.dim)
        signed = angles.sin()
        signed = torch.cat([-signed[:, :half], signed[:, half:]], dim=-1)
        return x * angles.cos().to(x.dtype) + x.roll(half, dims=-1) * signed.to(x.dtype)


@right('a loop over the pairs, columns stacked at the end')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = x.size(-1) // 2
        t = torch.arange(past, past + x.size(-2), device=x.device).to(torch.float64)
        first, second = [], []
        for i in range(half):
            angle = t * self.base ** (-2 * i / self.dim)
            cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
            a, b = x[..., i], x[..., i + half]
            first.append(a * cos - b * sin)
            second.append(b * cos + a * sin)
        return torch.stack(first + second, dim=-1)


@wrong('pairs neighbours 2i and 2i + 1 instead of the halves', breaks=PAIR, name='interleaved pairs')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x[..., 0::2], x[..., 1::2]
        turned = torch.stack([one * cos - two * sin, two * cos + one * sin], dim=-1)
        return turned.flatten(-2)


@wrong('rotates in the other direction, which gives the same scores', breaks=ROTATE, name='sign of the sine')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos + two * sin, two * cos - one * sin], dim=-1)


@wrong('positions and angles in the dtype of x', breaks=PRECISE, name='angles in bfloat16')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=x.dtype)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(x.size(-2), device=x.device, dtype=x.dtype) + past
        angles = positions[:, None] * speeds
        cos, sin = angles.cos(), angles.sin()
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong('keeps the table of a length and uses it again, whatever past is', breaks=EARLIER, name='table kept without regard to past')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        if getattr(self, "table", None) is None or self.table[0].size(0) != x.size(-2):
            half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            speeds = self.base ** (-2 * half / self.dim)
            positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
            angles = positions[:, None] * speeds
            self.table = angles.cos(), angles.sin()
        cos, sin = (part.to(x.device, x.dtype) for part in self.table)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong('adds a batch axis to (T, D) and does not remove it', breaks=AXES, name='two axes come back as three')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        if x.dim() == 2:
            x = x.unsqueeze(0)
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong('computes with 10,000 whatever the base is', breaks=SLOWER, name='base ignored')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = 10_000.0 ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong('float32 sines turn a bfloat16 x into float32', breaks=DTYPE, name='result not cast back')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos(), angles.sin()
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong('rotates the second half with the first half that is already rotated', breaks=ROTATE, name='first half overwritten too early')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        turned, h = x.clone(), self.dim // 2
        turned[..., :h] = turned[..., :h] * cos - turned[..., h:] * sin
        turned[..., h:] = turned[..., h:] * cos + turned[..., :h] * sin
        return turned


@wrong('a module without parameters, so no_grad: x gets no gradient', breaks=GRADIENTS, name='no gradient to x')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    @torch.no_grad()
    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


@wrong('a table for 4,096 positions; later tokens all get the last position', breaks=LENGTHS, name='positions end at 4,095')
class RotaryPositions(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x, past=0):
        half = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        speeds = self.base ** (-2 * half / self.dim)
        positions = torch.arange(past, past + x.size(-2), device=x.device, dtype=torch.float32)
        positions = positions.clamp(max=4095.0)
        angles = positions[:, None] * speeds
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)
