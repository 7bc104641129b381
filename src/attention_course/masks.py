"""Masks: made from lengths or sizes, they say who may attend to what.

True = may attend, as in `F.scaled_dot_product_attention`.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B 1 S"]:
    """Allow every query to attend to its own sentence's tokens, and to no padding.

    Args:
        lengths: tokens in each sentence, padding not counted.
        size: S, the length to which the batch was padded, in tokens.

    Returns:
        True where position s < lengths[b], on the device of `lengths`.
    """
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None]


def causal_mask(size: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """Allow position t to attend to the positions up to and including t.

    Args:
        size: T, in tokens.
        device: where the mask is made.

    Returns:
        True on and below the diagonal.
    """
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def sliding_window_mask(
    size: int, width: int, device: torch.device | None = None
) -> Bool[Tensor, "T T"]:
    """Allow every position to attend to those at most `width` away, on either side.

    Beltagy et al. (2020), Section 3.1, where w is 2 `width`. With `& causal_mask(size)`
    it looks back only.

    Args:
        size: T, in tokens.
        width: largest distance, in tokens; 0 leaves a position only itself.
        device: where the mask is made.

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
