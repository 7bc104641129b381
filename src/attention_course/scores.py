"""Scores: how alike are a query and a key?

Every score has two steps. `project_keys` depends on the source alone and is called once per sentence; calling
the score compares queries with those projected keys, as often as the decoder asks.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Score(nn.Module):
    """What every score shares: keys are used as they are, unless a kind of score projects them."""

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Do once per source what does not depend on the query.

        Args:
            key: one vector per source token.

        Returns:
            What `forward` takes as `projected`.
        """
        return key


class DotScore(Score):
    r"""The dot product: alike is what points the same way, and far.

    .. math:: e_{ts} = q_t^\top k_s

    Luong et al. (2015), Eq. 8, "dot", where q is h_t, k is the source state h_s.
    """

    def forward(self, query: Float[Tensor, "*B T D"], projected: Float[Tensor, "*B S D"]) -> Float[Tensor, "*B T S"]:
        """Score every query against every key.

        Args:
            query: what the decoder looks for.
            projected: `project_keys(key)`.

        Returns:
            Scores: any real number, higher = more alike.

        Raises:
            ValueError: queries and keys differ in width.
        """
        _check_width(query.size(-1), projected.size(-1))
        return query @ projected.mT


class ScaledDotScore(Score):
    r"""The dot product divided by the root of the width, so that wide vectors do not saturate the softmax.

    .. math:: e_{ts} = q_t^\top k_s / \sqrt{D}

    Vaswani et al. (2017), Eq. 1, where D is d_k. If the entries of q and k are independent with mean 0 and
    variance 1, the dot product has variance D, and this score has variance 1.
    """

    def forward(self, query: Float[Tensor, "*B T D"], projected: Float[Tensor, "*B S D"]) -> Float[Tensor, "*B T S"]:
        """Score every query against every key. See `DotScore.forward`."""
        _check_width(query.size(-1), projected.size(-1))
        return (query / math.sqrt(query.size(-1))) @ projected.mT


class GeneralScore(DotScore):
    r"""A dot product after a learned map of the keys, so that queries and keys may have different widths.

    .. math:: e_{ts} = q_t^\top W k_s

    Luong et al. (2015), Eq. 8, "general" (the lectures' "bilinear"), where W is W_a.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Map the keys into the space of the queries: W k_s. See `Score.project_keys`."""
        _check_width(self.key_proj.in_features, key.size(-1))
        return self.key_proj(key)


class AdditiveScore(Score):
    r"""A small network compares each query with each key.

    .. math:: e_{ts} = v^\top \tanh(W q_t + U k_s)

    Bahdanau et al. (2015), A.1.2, where q is s_{i-1}, k is h_j, e is e_{ij}. Luong et al. (2015), Eq. 8,
    "concat", is the same function: W_a [q; k] = W q + U k with W_a = [W U].

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden_dim: width A of the comparison. Memory grows as B T S A.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Compute U k_s. See `Score.project_keys`."""
        _check_width(self.key_proj.in_features, key.size(-1))
        return self.key_proj(key)

    def forward(self, query: Float[Tensor, "*B T Dq"], projected: Float[Tensor, "*B S A"]) -> Float[Tensor, "*B T S"]:
        """Score every query against every projected key. See `DotScore.forward`."""
        _check_width(self.query_proj.in_features, query.size(-1))
        _check_width(self.query_proj.out_features, projected.size(-1))
        q = self.query_proj(query).unsqueeze(-2)  # (..., T, 1, A)
        k = projected.unsqueeze(-3)  # (..., 1, S, A)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


def _check_width(expected: int, given: int) -> None:
    if expected != given:
        raise ValueError(
            f"expected vectors of width {expected}, got width {given}; "
            "were the keys projected with project_keys, and the query and key widths given in this order?"
        )
