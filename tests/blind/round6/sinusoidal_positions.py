import torch
from blind import bugs
from torch import nn


def make(bug):
    class SinusoidalPositions(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dim = dim

        def forward(self, x, past=0):
            if bug == "past of the first call" and hasattr(self, "first"):
                past = self.first
            self.first = past
            t = torch.arange(past, past + x.size(1), device=x.device).float()
            i = torch.arange(0, self.dim, 2, device=x.device).float()
            if bug == "exponent i / D":
                i = i / 2
            if bug == "exponent 2i / (D - 2)":
                i = i * self.dim / max(self.dim - 2, 1)
            base = 1000.0 if bug == "base 1000" else 10000.0
            if bug == "past ignored":
                t = t - past
            if bug == "positions from 1":
                t = t + 1
            if bug == "wraps around at 512":
                t = t % 512
            if bug == "at most 5000":
                t = t.clamp(max=4999)
            if bug == "counted in the dtype of x":
                t = t.to(x.dtype).float()
            angle = t[:, None] / base ** (i / self.dim)
            if bug == "angles in the dtype of x":
                angle = angle.to(x.dtype).float()
            sin, cos = angle.sin(), angle.cos()
            if bug == "cosine first":
                sin, cos = cos, sin
            p = torch.stack([sin, cos], -1).flatten(-2)
            if bug == "halves, not side by side":
                p = torch.cat([sin, cos], -1)
            if bug == "positions alone":
                return p.to(x.dtype).expand_as(x)
            if bug == "x scaled up":
                x = x * self.dim**0.5
            if bug == "float32 returned":
                return x + p
            if bug == "in place":
                return x.add_(p.to(x.dtype))
            if bug == "first sentence alone":
                y = x.clone()
                y[0] += p.to(x.dtype)
                return y
            if bug == "positions multiplied":
                return x * p.to(x.dtype)
            return x + p.to(x.dtype)

    return SinusoidalPositions


RULE = "p_{t,2i} = sin(t / 10000^{2i/D}), p_{t,2i+1} = cos; return x_t + p_{past + t}"
bugs(
    make,
    {
        name: RULE
        for name in (
            "past of the first call",
            "exponent i / D",
            "exponent 2i / (D - 2)",
            "base 1000",
            "past ignored",
            "positions from 1",
            "wraps around at 512",
            "at most 5000",
            "counted in the dtype of x",
            "angles in the dtype of x",
            "cosine first",
            "halves, not side by side",
            "positions alone",
            "x scaled up",
            "float32 returned",
            "in place",
            "first sentence alone",
            "positions multiplied",
        )
    },
)
