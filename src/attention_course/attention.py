"""Attention: scores become weights, weights become a context. Every model in the course calls `attend`."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


def masked_softmax(scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*B T S"]:
    r"""Turn scores into weights over the source positions that the mask allows.

    .. math:: \alpha_{ts} = \frac{\exp(e_{ts})}{\sum_{s'} \exp(e_{ts'})}

    Bahdanau et al. (2015), Eq. 6, with the sum over the allowed positions s' only.

    Args:
        scores: any real numbers.
        mask: True = may attend, broadcastable to `scores`; None allows everything.

    Returns:
        Weights: each row sums to one; a row that may attend to nothing is zero, and so is its gradient.

    Raises:
        ValueError: the mask is not of dtype bool, or does not broadcast to the scores.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    _check_mask(mask, scores)
    # The lowest finite number, not -inf: a row of -inf has no softmax, and its NaN would go through the backward pass.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def attend(
    scores: Float[Tensor, "*B T S"],
    value: Float[Tensor, "*B S Dv"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: nn.Dropout | None = None,
) -> tuple[Float[Tensor, "*B T Dv"], Float[Tensor, "*B T S"]]:
    r"""Look up values by scores: the step that every attention shares.

    .. math:: c_t = \sum_s \alpha_{ts} v_s

    Bahdanau et al. (2015), Eq. 5, where v_s is the annotation h_j.

    Args:
        scores: how alike each query is to each key.
        value: what is looked up, one vector per source position.
        mask: True = may attend, broadcastable to `scores`; None allows everything.
        dropout: applied to the weights that form the context.

    Returns:
        The context of each query, and the weights before dropout.

    Raises:
        ValueError: scores and values disagree on S, or the mask is wrong (see `masked_softmax`).
    """
    if scores.size(-1) != value.size(-2):
        raise ValueError(f"scores are over {scores.size(-1)} source positions, but there are {value.size(-2)} values")
    weights = masked_softmax(scores, mask)
    context = (weights if dropout is None else dropout(weights)) @ value
    return context, weights


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(f"a mask has dtype torch.bool (True = may attend), got {mask.dtype}")
    trailing = scores.shape[scores.dim() - mask.dim() :]
    if mask.dim() > scores.dim() or any(m not in (1, s) for m, s in zip(mask.shape, trailing)):
        raise ValueError(f"a mask of shape {tuple(mask.shape)} does not broadcast to scores of {tuple(scores.shape)}")
