"""Dropout that costs little on a CPU: its random numbers are cheaper.

The readable form is `nn.Dropout`; tests/test_dropout.py holds share, scale and gradient
to it. The two draw different numbers, so that they are equal in distribution alone.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Dropout(nn.Dropout):
    r"""Drop a share p of all numbers in training, and scale up the others.

    .. math:: y = x m / (1 - p), \quad P(m = 1) = 1 - p

    Srivastava et al. (2014), Section 4, with the scale in training instead of in use.
    `nn.Dropout` draws a random number of full precision for each decision; here each
    takes 16 bits, and p is rounded to a multiple of 2^-16.
    """

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Drop, in training."""
        if not self.training or self.p == 0:
            return x
        if self.p == 1 or x.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(x)
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(
            -(2**63), None
        )
        # from -2^15 to 2^15 - 1
        decisions = bits.view(torch.int16)[: x.numel()].view(x.shape)
        keep = decisions >= round(self.p * 2**16) - 2**15
        return x * keep.to(x.dtype).mul_(1 / (1 - self.p))
