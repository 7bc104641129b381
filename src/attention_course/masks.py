"""Masks: who may attend to what. True = may attend, as in `F.scaled_dot_product_attention`."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B 1 S"]:
    """Allow every query to attend to the tokens of its own sentence, and to none of the padding.

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
