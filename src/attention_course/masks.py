"""Attention masks (padding, causal, sliding window): who may attend to what.

True = may attend, as in `F.scaled_dot_product_attention`.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B 1 S"]:
    """Allow every query to attend to its own sentence's tokens, but not to padding.

    Args:
        lengths: tokens in each sentence, without padding.
        size: S, the length to which the batch is padded, in tokens.

    Returns:
        True where position s < lengths[b], on the device of `lengths`.
    """
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None]


def causal_mask(size: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """Allow each position to attend to itself and to all earlier positions.

    Args:
        size: T, in tokens.
        device: where to create the mask.

    Returns:
        True on and below the diagonal.
    """
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def sliding_window_mask(
    size: int, width: int, device: torch.device | None = None
) -> Bool[Tensor, "T T"]:
    """Allow each position to attend to those at most `width` away, on either side.

    Beltagy et al. (2020), Section 3.1, where w is 2 `width`. Combine it with `&
    causal_mask(size)` for a window that only looks back.

    Args:
        size: T, in tokens.
        width: largest distance, in tokens; 0 allows only the position itself.
        device: where to create the mask.

    Returns:
        True where |t - s| <= width.

    Raises:
        ValueError: `width` is below 0.
    """
    if width < 0:
        raise ValueError(
            f"a window reaches 0 tokens or more to each side, got width {width}"
        )
    positions = torch.arange(size, device=device)
    return (positions[:, None] - positions).abs() <= width
