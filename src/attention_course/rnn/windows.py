"""Windows of local attention (Luong et al.): local-m (monotonic), local-p (predictive).

A Luong decoder has one window or none. Positions count from 0, in the source as in the
target. The window of a Transformer's self-attention is `masks.sliding_window_mask`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import attend, masked_softmax
from attention_course.checks import check_mask, check_width
from attention_course.seq2seq import Memory


class LocalM(nn.Module):
    r"""At target step t, attend around source position t.

    The target is assumed to be in step with the source:

    .. math:: p_t = t, \quad a_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}\, e_{ts}

    Luong et al. (2015), Section 3.2, "local-m". A query whose window lies beyond the
    end of its sentence attends to nothing.

    Args:
        half_width: w, in tokens; a window contains at most 2 w + 1 of them.

    Raises:
        ValueError: the half-width is negative.
    """

    def __init__(self, half_width: int):
        super().__init__()
        if not half_width >= 0:
            raise ValueError(
                "a window reaches at least 0 tokens to each side, got half_width"
                f" {half_width}"
            )
        self.half_width = half_width

    def forward(
        self,
        scores: Float[Tensor, "B T S"],
        query: Float[Tensor, "B T D"],
        position: Int[Tensor, " B"],
        memory: Memory,
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B T S"]]:
        """Attend within the window.

        Args:
            scores: how well each query matches each key.
            query: not used here.
            position: step number t of the first query.
            memory: values and mask.

        Returns:
            The context of each query, and the weights, which are zero outside the
            window.

        Raises:
            ValueError: scores, query, position and memory disagree on B, T or S, or the
                mask is not of dtype bool.
        """
        check_mask(memory.mask, scores.shape)
        t = torch.arange(scores.size(1), device=position.device)
        steps = position[:, None] + t  # (B, T)
        near = _distance(steps, scores, memory) <= self.half_width
        return attend(scores, memory.value, memory.mask & near)


class LocalP(nn.Module):
    r"""Attend around a source position that the query predicts.

    A Gaussian lowers the weights with the distance from that position:

    .. math::

        p_t = S\, \sigma(v^\top \tanh(W h_t)), \quad
        a_{ts} = \mathrm{softmax}_{s:\, |s - p_t| \le w}(e_{ts})\,
        \exp\left(-\frac{(s - p_t)^2}{2 (w / 2)^2}\right)

    Luong et al. (2015), Section 3.2, "local-p", where W is W_p, v is v_p, w is D, w / 2
    is sigma. S is the length of the sentence itself, without padding. The Gaussian
    comes after the softmax, so the weights sum to at most one. The predicted position
    gets its gradient through the Gaussian, because shifting the window is not
    differentiable.

    Args:
        query_dim: width D of a query.
        hidden_dim: width of the network that predicts the position.
        half_width: w, in tokens.

    Raises:
        ValueError: the half-width is below 1.
    """

    def __init__(self, query_dim: int, hidden_dim: int, half_width: int):
        super().__init__()
        if not half_width >= 1:
            raise ValueError(
                "a predicted window reaches at least 1 token to each side, got"
                f" half_width {half_width}"
            )
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(
        self,
        scores: Float[Tensor, "B T S"],
        query: Float[Tensor, "B T D"],
        position: Int[Tensor, " B"],
        memory: Memory,
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B T S"]]:
        """Attend around the predicted position.

        See `LocalM.forward`; here, `position` is not used.
        """
        check_mask(memory.mask, scores.shape)
        check_width(query, self.hidden_proj.in_features)
        lengths = memory.mask.sum(dim=-1)  # (B, 1)
        hidden = torch.tanh(self.hidden_proj(query))
        logit = self.position_proj(hidden).squeeze(-1)  # (B, T)
        # In half precision, several positions would get the same number: above 256,
        # bfloat16 has only even numbers.
        share = torch.sigmoid(logit.to(torch.promote_types(logit.dtype, torch.float32)))
        distance = _distance(lengths * share, scores, memory)
        weights = masked_softmax(scores, memory.mask & (distance <= self.half_width))
        weights = weights * torch.exp(
            -((distance / (self.half_width / 2)) ** 2) / 2
        ).to(weights.dtype)
        return weights @ memory.value, weights


def _distance(centre: Tensor, scores: Tensor, memory: Memory) -> Tensor:
    """Compute the distance of source positions from each query's center: (B, T, S)."""
    if centre.shape != scores.shape[:2] or memory.value.shape[:2] != scores.shape[::2]:
        raise ValueError(
            f"scores of {tuple(scores.shape)} do not fit windows for"
            f" {tuple(centre.shape)} queries and values of {tuple(memory.value.shape)}"
        )
    return (
        torch.arange(scores.size(2), device=centre.device) - centre[..., None]
    ).abs()
