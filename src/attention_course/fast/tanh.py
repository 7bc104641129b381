"""A faster tanh for the CPU: torch computes a sigmoid faster there.

The version to read is `torch.tanh`; tests/test_tanh.py checks that values and gradients
agree.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def tanh(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    r"""Squash numbers into (-1, 1).

    .. math:: \tanh(x) = 2 \sigma(2x) - 1

    In single precision on a CPU, torch's sigmoid takes a fraction of the time of its
    tanh; elsewhere, this function calls `torch.tanh`.

    Args:
        x: any real numbers.

    Returns:
        tanh(x), to within 2e-7.
    """
    if (
        x.device.type != "cpu"
        or x.dtype != torch.float32
        or torch.compiler.is_compiling()
    ):
        return torch.tanh(x)
    return _FromSigmoid.apply(x)


class _FromSigmoid(torch.autograd.Function):
    """Keep one tensor for the backward pass, as torch's tanh does.

    Written with ordinary operators, it would keep two.
    """

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        y = (2 * x).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grad, y)
