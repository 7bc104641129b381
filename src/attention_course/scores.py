"""Score functions: how well does a query match a key?

Every score has two steps. `project_keys` depends on the source alone and is called once
per sentence; calling the score compares queries with those projected keys, at every
step of the decoder.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attention_course.checks import check_width
from attention_course.fast.tanh import tanh

_HINT = (
    "; were the keys projected with project_keys, and the query and key widths given in"
    " this order?"
)


class Score(nn.Module, ABC):
    """The base of all scores; keys are used unchanged unless a subclass maps them."""

    # return type of a call, for type checkers
    __call__: Callable[..., Tensor]

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Compute, once per source, what does not depend on the query.

        Args:
            key: one vector per source token.

        Returns:
            What `forward` takes as `projected`.
        """
        return key

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "*B T Dq"], projected: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every query against every key.

        Args:
            query: the decoder's queries.
            projected: `project_keys(key)`.

        Returns:
            Scores: any real number; a better match has a higher score.

        Raises:
            ValueError: the queries or keys have the wrong width, or they are not of one
                batch.
        """


class DotScore(Score):
    r"""The dot product: high if two vectors are long and point in the same direction.

    .. math:: e_{ts} = q_t^\top k_s

    Luong et al. (2015), Section 3.1, "dot", where q is h_t, k is the source state h_s.
    """

    def forward(
        self, query: Float[Tensor, "*B T D"], projected: Float[Tensor, "*B S D"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every query against every key. See `Score.forward`."""
        _check_batch(query, projected)
        check_width(projected, query.size(-1), _HINT)
        return query @ projected.mT


class ScaledDotScore(Score):
    r"""The dot product divided by the square root of the width.

    Without this factor, wide vectors would saturate the softmax.

    .. math:: e_{ts} = q_t^\top k_s / \sqrt{D}

    Vaswani et al. (2017), Eq. 1, where D is d_k. If the entries of q and k are
    independent with mean 0 and variance 1, the dot product has variance D, and this
    score has variance 1.
    """

    def forward(
        self, query: Float[Tensor, "*B T D"], projected: Float[Tensor, "*B S D"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every query against every key. See `Score.forward`."""
        _check_batch(query, projected)
        check_width(projected, query.size(-1), _HINT)
        return (query / math.sqrt(query.size(-1))) @ projected.mT


class CosineScore(DotScore):
    r"""The cosine of the angle between query and key: their lengths do not matter.

    .. math:: e_{ts} = \frac{q_t^\top k_s}{\|q_t\| \|k_s\|}

    Graves et al. (2014), Section 3.3.1, where q is u, k is v, e is K[u, v]; their key
    strength beta is left out. All scores lie between -1 and 1, so no weight is more
    than e^2 times another. A vector of zeros scores 0.
    """

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Normalize the keys to length 1. See `Score.project_keys`."""
        return _direction(key)

    def forward(
        self, query: Float[Tensor, "*B T D"], projected: Float[Tensor, "*B S D"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every query against every normalized key. See `Score.forward`."""
        return super().forward(_direction(query), projected)


class GeneralScore(DotScore):
    r"""A dot product after a learned linear map of the keys.

    Queries and keys may have different widths.

    .. math:: e_{ts} = q_t^\top W k_s

    Luong et al. (2015), Section 3.1, "general" (the lectures' "bilinear"), where W is
    W_a.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Map the keys to the space of queries: W k_s. See `Score.project_keys`."""
        check_width(key, self.key_proj.in_features, _HINT)
        return self.key_proj(key)


class AdditiveScore(Score):
    r"""A small network compares each query with each key.

    .. math:: e_{ts} = v^\top \tanh(W q_t + U k_s)

    Bahdanau et al. (2015), A.1.2, where q is s_{i-1}, k is h_j, e is e_{ij}. Luong et
    al. (2015), Section 3.1, "concat", is the same function: W_a [q; k] = W q + U k with
    W_a = [W U].

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden_dim: width A of the network's hidden layer. Memory grows as B T S A.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Compute U k_s. See `Score.project_keys`."""
        check_width(key, self.key_proj.in_features, _HINT)
        return self.key_proj(key)

    def forward(
        self, query: Float[Tensor, "*B T Dq"], projected: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every query against every projected key. See `Score.forward`."""
        _check_batch(query, projected)
        check_width(query, self.query_proj.in_features, _HINT)
        check_width(projected, self.query_proj.out_features, _HINT)
        q = self.query_proj(query).unsqueeze(-2)  # (..., T, 1, A)
        k = projected.unsqueeze(-3)  # (..., 1, S, A)
        return self.energy_proj(tanh(q + k)).squeeze(-1)


class LocationScore(Score):
    r"""A score of positions: the query alone says where to look, whatever the keys are.

    .. math:: e_{ts} = (W q_t)_s

    Luong et al. (2015), Section 3.1, "location", where q is h_t, W is W_a. Only the
    number S of the keys is used. Luong et al. ignore the words of a longer source that
    come after the last row of W; here, a longer source is an error.

    Args:
        query_dim: width of a query.
        max_length: rows of W: the longest source, in tokens.
    """

    def __init__(self, query_dim: int, max_length: int):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, max_length, bias=False)

    def forward(
        self, query: Float[Tensor, "*B T Dq"], projected: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every source position for every query.

        Args:
            query: the decoder's queries.
            projected: `project_keys(key)`.

        Returns:
            Scores: any real number; a position with a higher score gets more weight.

        Raises:
            ValueError: the source is longer than `max_length`, or the queries have the
                wrong width or are of another batch.
        """
        _check_batch(query, projected)
        check_width(query, self.query_proj.in_features, _HINT)
        size, longest = projected.size(-2), self.query_proj.out_features
        if size > longest:
            raise ValueError(
                f"a source of {size} tokens is longer than max_length {longest}"
            )
        return self.query_proj(query)[..., :size]


class GaussianScore(Score):
    r"""A Gaussian kernel: the closer a key is to the query, the higher its score.

    Attention with this score is kernel regression with a Gaussian kernel:

    .. math:: e_{ts} = -\frac{\|q_t - k_s\|^2}{2 b^2}
        = \frac{2 q_t^\top k_s - \|q_t\|^2 - \|k_s\|^2}{2 b^2}

    Nadaraya (1964) and Watson (1964), where q is the point x at which to predict, k is
    an observed x_i, the value is its y_i, and b is the bandwidth. The right-hand side
    is a matrix product and needs no (T, S, D) differences (`torch.cdist` supports
    neither half precision nor second derivatives). Because it subtracts large numbers
    from one another, it is computed at least in single precision.

    Args:
        bandwidth: b, the distance at which a key has exp(-1/2) times the weight of a
            key at the query.

    Raises:
        ValueError: the bandwidth is not positive.
    """

    def __init__(self, bandwidth: float):
        super().__init__()
        if not bandwidth > 0:
            raise ValueError(f"a bandwidth is greater than 0, got {bandwidth}")
        self.bandwidth = bandwidth

    def project_keys(self, key: Float[Tensor, "*B S Dk"]) -> Float[Tensor, "*B S A"]:
        """Append to each key half its squared length, negated, in units of b.

        The result is [k; -|k|^2 / 2]. See `Score.project_keys`.
        """
        k = self._in_bandwidths(key)
        return torch.cat([k, -_half_square(k)], dim=-1)

    def forward(
        self, query: Float[Tensor, "*B T D"], projected: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every query against every projected key. See `Score.forward`."""
        _check_batch(query, projected)
        check_width(projected, query.size(-1) + 1, _HINT)
        q, (k, cost) = (
            self._in_bandwidths(query),
            projected.split([query.size(-1), 1], dim=-1),
        )
        return (q @ k.mT + cost.mT - _half_square(q)).to(query.dtype)

    def _in_bandwidths(self, x: Tensor) -> Tensor:
        return x.to(torch.promote_types(x.dtype, torch.float32)) / self.bandwidth


class ConstantScore(Score):
    r"""A constant score: all keys match equally well.

    The weights are uniform, and the context is the mean of the values:

    .. math:: e_{ts} = 0

    This is mean pooling in the form of attention; Wiegreffe and Pinter (2019) use it as
    a baseline.
    """

    def forward(
        self, query: Float[Tensor, "*B T Dq"], projected: Float[Tensor, "*B S Dk"]
    ) -> Float[Tensor, "*B T S"]:
        """Score every key 0, for any query and any key. See `Score.forward`."""
        _check_batch(query, projected)
        return query.new_zeros(*query.shape[:-1], projected.size(-2))


def _direction(x: Tensor) -> Tensor:
    # In float16, the default of 1e-12 is 0, and 1 / 1e-6, the factor in the gradient of
    # a vector of zeros, is infinite.
    return F.normalize(x, dim=-1, eps=1e-3 if x.dtype == torch.float16 else 1e-6)


def _half_square(x: Tensor) -> Tensor:
    return x.square().sum(dim=-1, keepdim=True) / 2


def _check_batch(query: Tensor, projected: Tensor) -> None:
    if query.shape[:-2] != projected.shape[:-2]:
        raise ValueError(
            f"queries of {tuple(query.shape)} and keys of {tuple(projected.shape)} are"
            " not of one batch"
        )
