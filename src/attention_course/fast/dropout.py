"""Dropout with cheaper random numbers, for speed on a CPU.

The version to read is `nn.Dropout`; tests/test_dropout.py checks share, scale and
gradient against it. The two draw different random numbers, so they agree only in
distribution.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Dropout(nn.Dropout):
    r"""Drop a share p of all numbers in training, and scale up the others.

    .. math:: y = x m / (1 - p), \quad P(m = 1) = 1 - p

    Srivastava et al. (2014), Section 4, but with the scaling in training instead of at
    test time. `nn.Dropout` draws a random number of full precision for each decision;
    here, each decision takes 16 bits, and p is rounded to a multiple of 2^-16.
    """

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Apply dropout in training."""
        if not self.training or self.p == 0:
            return x
        if self.p == 1 or x.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(x)
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(
            -(2**63), None
        )
        # from -2^15 to 2^15 - 1
        decisions = bits.view(torch.int16)[: x.numel()].view(x.shape)
        keep = torch.empty(x.shape, dtype=x.dtype)
        torch.ge(decisions, round(self.p * 2**16) - 2**15, out=keep)
        return x * keep.mul_(1 / (1 - self.p))
