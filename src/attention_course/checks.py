"""Checks of widths and masks that raise a ValueError with both sizes."""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_width(x: Tensor, width: int, hint: str = "") -> None:
    """Check that vectors have the expected width.

    Args:
        x: vectors, on the last axis.
        width: the width that they must have.
        hint: what may have gone wrong, for the end of the message.

    Raises:
        ValueError: they are wider or narrower.
    """
    if x.size(-1) != width:
        raise ValueError(
            f"expected vectors of width {width}, got width {x.size(-1)}{hint}"
        )


def check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    """Check that a mask is boolean and fits scores of a given shape.

    Args:
        mask: True = may attend.
        shape: shape of the scores.

    Raises:
        ValueError: the mask is not of dtype bool or does not broadcast to that shape.
    """
    if mask.dtype != torch.bool:
        raise ValueError(
            f"a mask has dtype torch.bool (True = may attend), got {mask.dtype}"
        )
    trailing = shape[len(shape) - mask.dim() :]
    if mask.dim() > len(shape) or any(
        m not in (1, s) for m, s in zip(mask.shape, trailing)
    ):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to scores of"
            f" {tuple(shape)}"
        )
