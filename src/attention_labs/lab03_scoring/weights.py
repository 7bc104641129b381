"""What several questions of this lab share: sizes, and signs in weights."""

from collections.abc import Callable

import torch
from torch import Tensor

from nbjudge import Reply, Request, Sign, close, comparable, wrong_output

B, H, T, S, D, A, DK, DV = 2, 6, 3, 5, 7, 11, 13, 4


def sums_to_one_over(axis: int) -> Sign:
    """Look for numbers that sum to one along an axis."""

    def sign(given: Tensor, wanted: Tensor) -> bool:
        sums = given.sum(axis)
        return given.shape == wanted.shape and close(sums, torch.ones_like(sums))

    return wrong_output(sign)


def weight_where(mask: Callable[[Tensor], Tensor]) -> Sign:
    """Look for weight on the positions that a mask, made from the request's mask,
    picks."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        allowed = next(
            (x for x in request.inputs if x is not None and x.dtype == torch.bool), None
        )
        return allowed is not None and bool(
            (reply.outputs[-1].abs() * mask(allowed) > 1e-6).any()
        )

    return comparable(sign)
