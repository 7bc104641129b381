import math

import torch
from torch import nn

from blind import right, wrong

ORDER = "holds the sine of the angle of the clock's hand, followed by the cosine:"
FORMULA = r"p_{t,2i} = \sin\big(t / 10000^{2i/D}\big), \qquad p_{t,2i+1} = \cos\big(t / 10000^{2i/D}\big)"
RETURN = r"Return $x_t + p_{\mathrm{past} + t}$, where `past` is the number of tokens that came before x."
PRECISE = "Compute the positions and angles in float32 or in a more precise dtype, whatever the dtype of x is: bfloat16 cannot tell 256 from 257."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
INPUTS = "Do not change the inputs."
DTYPE = "(B, T, D), of the dtype of x."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
EACH = "Add its positional encoding to each vector."
GRADS = "Gradients must be right, too."


class Given(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim


def table(start, stop, dim, device, dtype=torch.float64):
    """The right encodings of the positions start ... stop - 1, in float64."""
    t = torch.arange(start, stop, device=device, dtype=torch.float64)[:, None]
    i = torch.arange(0, dim, 2, device=device, dtype=torch.float64)
    angles = t / 10000 ** (i / dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(dtype)


@right("complex numbers of length 1 (polar, view_as_real) with the two parts swapped by flip")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(x.size(1), device=x.device) + past
        i = torch.arange(self.dim // 2, device=x.device).double()
        angles = torch.outer(t.double(), (-math.log(10000.0) * 2 * i / self.dim).exp())
        hands = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
        return x + hands.flip(-1).flatten(1).to(x.dtype)


@right("only sines: the cosine is the sine a quarter turn later; the sum is rounded once")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        j = torch.arange(self.dim, device=x.device)
        speed = torch.pow(10000.0, -(j - j % 2).double() / self.dim)
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float64)
        angles = t[:, None] * speed + (j % 2).double() * (math.pi / 2)
        return (x.double() + angles.sin()).to(x.dtype)


@right("plain Python: math.sin and math.cos in two nested loops")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        rows = []
        for t in range(past, past + x.size(1)):
            row = []
            for i in range(self.dim // 2):
                angle = t / 10000 ** (2 * i / self.dim)
                row += [math.sin(angle), math.cos(angle)]
            rows.append(row)
        return x + torch.tensor(rows, dtype=torch.float64, device=x.device).to(x.dtype)


@right("turns the clocks of 0 ... T-1 on by past steps with the addition theorems, and writes into "
       "every second column")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        speed = 10000.0 ** -(torch.arange(0, self.dim, 2, device=x.device).double() / self.dim)
        a = torch.arange(x.size(1), device=x.device).double()[:, None] * speed
        b = past * speed
        p = torch.empty(x.size(1), self.dim, dtype=torch.float64, device=x.device)
        p[:, 0::2] = a.sin() * b.cos() + a.cos() * b.sin()
        p[:, 1::2] = a.cos() * b.cos() - a.sin() * b.sin()
        return torch.add(x, p.to(x.dtype))


@wrong("all sines first, then all cosines", breaks=ORDER, name="sines and cosines in two halves")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        p = table(past, past + x.size(1), self.dim, x.device)
        return x + torch.cat([p[:, 0::2], p[:, 1::2]], dim=1).to(x.dtype)


@wrong("exponent i/D instead of 2i/D (right only for D = 2)", breaks=FORMULA, name="exponent i/D")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).double()[:, None]
        angles = t / 10000 ** (torch.arange(self.dim // 2, device=x.device).double() / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype)


@wrong("positions in the dtype of x: in bfloat16, 257 becomes 256", breaks=PRECISE, name="positions in bfloat16")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        t = torch.arange(past, past + x.size(1), device=x.device).to(x.dtype)[:, None]
        i = torch.arange(0, self.dim, 2, device=x.device).double()
        angles = t.double() / 10000 ** (i / self.dim)
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype)


@wrong("a table of 5000 positions: fails when past + T is more than 5000", breaks=LENGTHS, name="table with a largest length")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        p = table(0, 5000, self.dim, x.device, x.dtype)
        return x + p[past : past + x.size(1)]


@wrong("adds the encodings to x in place", breaks=INPUTS, name="x += encodings")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        p = table(past, past + x.size(1), self.dim, x.device, x.dtype)
        if x.requires_grad:
            return x + p
        x += p
        return x


@wrong("float32 encodings are added to x without a conversion: bfloat16 becomes float32", breaks=DTYPE,
       name="bfloat16 promoted to float32")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        return x + table(past, past + x.size(1), self.dim, x.device, torch.float32)


@wrong("keeps the encodings of the first call with this T; a later call with another past gets them again",
       breaks=CALLS, name="encodings kept without their past")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        kept = self.__dict__.setdefault("kept", {})
        if x.size(1) not in kept:
            kept[x.size(1)] = table(past, past + x.size(1), self.dim, x.device)
        return x + kept[x.size(1)].to(x.device, x.dtype)


@wrong("one list of speeds for the whole class, which the object that is called first makes: a second "
       "object with another D uses its beginning, or fails", breaks=CALLS, name="table shared by all objects")
class SinusoidalPositions(Given):
    speeds = []

    def forward(self, x, past=0):
        if not self.speeds:
            self.speeds.extend(10000 ** (-i / self.dim) for i in range(0, self.dim, 2))
        speed = torch.tensor(self.speeds[: self.dim // 2], dtype=torch.float64, device=x.device)
        angles = torch.arange(past, past + x.size(1), device=x.device).double()[:, None] * speed
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype)


@wrong("takes vectors of zeros for padding and leaves them alone", breaks=EACH, name="no positions for zero vectors")
class SinusoidalPositions(Given):
    def forward(self, x, past=0):
        p = table(past, past + x.size(1), self.dim, x.device, x.dtype)
        return x + p * (x != 0).any(-1, keepdim=True)


@wrong("the whole forward runs under no_grad, so no gradient reaches x", breaks=GRADS, name="no_grad around the sum")
class SinusoidalPositions(Given):
    @torch.no_grad()
    def forward(self, x, past=0):
        return x + table(past, past + x.size(1), self.dim, x.device, x.dtype)
