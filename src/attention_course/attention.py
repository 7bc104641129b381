"""Attention: masked softmax, `attend`, multi-head attention and its keys and values.

Every model in the course calls `attend`. The score functions are in `scores`, the masks
in `masks`, and heads that share keys in `transformer.rotary`.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_course.checks import check_mask, check_width
from attention_course.fast.dropout import Dropout
from attention_course.scores import ScaledDotScore


def masked_softmax(
    scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*B T S"]:
    r"""Turn scores into weights over the source positions that the mask allows.

    .. math:: \alpha_{ts} = \frac{\exp(e_{ts})}{\sum_{s'} \exp(e_{ts'})}

    Bahdanau et al. (2015), Eq. 6, with the sum over the allowed positions s' only.

    Args:
        scores: any real numbers.
        mask: True = may attend, broadcastable to `scores`; None allows everything.

    Returns:
        Weights: each row sums to one; a row that may attend to nothing is zero, and so
            is its gradient.

    Raises:
        ValueError: the mask is not of dtype bool or does not broadcast to the scores.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, scores.shape)
    # The lowest finite number, not -inf: the softmax of a row of -inf is NaN, and the
    # NaN would spread in the backward pass.
    lowest = torch.finfo(scores.dtype).min
    return torch.where(mask, scores, lowest).softmax(dim=-1) * mask


def attend(
    scores: Float[Tensor, "*B T S"],
    value: Float[Tensor, "*B S Dv"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: nn.Dropout | None = None,
) -> tuple[Float[Tensor, "*B T Dv"], Float[Tensor, "*B T S"]]:
    r"""Average the values by the softmax of the scores, as every attention does.

    .. math:: c_t = \sum_s \alpha_{ts} v_s

    Bahdanau et al. (2015), Eq. 5, where v_s is the annotation h_j.

    Args:
        scores: how well each query matches each key.
        value: the vectors to average, one per source position.
        mask: True = may attend, broadcastable to `scores`; None allows everything.
        dropout: applied to the weights that form the context.

    Returns:
        The context of each query, and the weights before dropout.

    Raises:
        ValueError: scores and values disagree on B or S, or the mask is wrong (see
            `masked_softmax`).
    """
    if scores.shape[:-2] != value.shape[:-2]:
        raise ValueError(
            f"scores of {tuple(scores.shape)} and values of {tuple(value.shape)} are"
            " not of one batch"
        )
    if scores.size(-1) != value.size(-2):
        raise ValueError(
            f"scores are over {scores.size(-1)} source positions, but there are"
            f" {value.size(-2)} values"
        )
    weights = masked_softmax(scores, mask)
    context = (weights if dropout is None else dropout(weights)) @ value
    return context, weights


class KeyValue(NamedTuple):
    """The projected keys and values that multi-head attention works on.

    They come from a source, or from the tokens so far.

    Attributes:
        key: (B, H, S, Dh), compared with the queries; (B, G, S, Dh) where heads share
            keys, as in `GroupedQueryAttention`.
        value: of the same shape; the weights average these vectors.
    """

    key: Tensor
    value: Tensor

    @property
    def nbytes(self) -> int:
        """Return the size of the keys and values, in bytes."""
        return self.key.nbytes + self.value.nbytes

    def extend(self, new: "KeyValue") -> "KeyValue":
        """Append the keys and values of new positions, as a key-value cache does."""
        return KeyValue(
            torch.cat([self.key, new.key], dim=2),
            torch.cat([self.value, new.value], dim=2),
        )


@runtime_checkable
class Attention(Protocol):
    """What a block needs from its attention; `MultiHeadAttention` is one.

    Its methods are described there.
    """

    def remember(self, key: Tensor, value: Tensor) -> KeyValue:
        """Compute, once per source, what does not depend on the query."""

    def ask(
        self,
        query: Tensor,
        memory: KeyValue,
        mask: Tensor | None = None,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute each query's context from the remembered keys and values."""


class MultiHeadAttention(nn.Module):
    r"""H attentions in parallel, so that a query can look for H things at once.

    Each head works in a narrow space of its own.

    .. math::

        \mathrm{head}_h = \mathrm{attend}(\mathrm{score}(Q W^Q_h, K W^K_h), V W^V_h),
        \quad \mathrm{MultiHead}(Q, K, V) = [\mathrm{head}_1; \ldots; \mathrm{head}_H]
        W^O

    Vaswani et al. (2017), Section 3.2.2, where H is h, Dh is d_k = d_v, D is d_model;
    all four maps have a bias. The maps of all heads are stored in one matrix of width D
    = H Dh. Callers pass queries and get contexts of width D, not split into heads.

    Args:
        dim: D, width of queries, keys, values and contexts.
        num_heads: H; it must divide D.
        dropout: share of the weights that is dropped in training.

    Raises:
        ValueError: `num_heads` does not divide `dim`.
    """

    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        if min(dim, num_heads) < 1 or dim % num_heads:
            raise ValueError(f"width {dim} cannot be divided among {num_heads} heads")
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)
        self.score = ScaledDotScore()
        self.dropout = Dropout(dropout)

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Call `remember` on the keys and values, then `ask`."""
        return self.ask(query, self.remember(key, value), mask, need_weights)

    def remember(
        self, key: Float[Tensor, "B S D"], value: Float[Tensor, "B S D"]
    ) -> KeyValue:
        """Compute, once per source, what does not depend on the query.

        Args:
            key: one vector per source position.
            value: one vector per source position.

        Returns:
            Projected keys and values, split into heads.

        Raises:
            ValueError: the numbers of keys and values differ, or their width is not D.
        """
        if key.size(1) != value.size(1):
            raise ValueError(
                f"there are {key.size(1)} keys, but {value.size(1)} values"
            )
        if key.size(0) != value.size(0):
            raise ValueError(
                f"there are keys for {key.size(0)} sentences, but values for"
                f" {value.size(0)}"
            )
        check_width(key, self.key_proj.in_features)
        check_width(value, self.value_proj.in_features)
        # Make each head's numbers contiguous once, so that later queries need not
        # gather them again.
        return KeyValue(
            self._split(self.key_proj(key)).contiguous(),
            self._split(self.value_proj(value)).contiguous(),
        )

    def ask(
        self,
        query: Float[Tensor, "B T D"],
        memory: KeyValue,
        mask: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Compute each query's context from the remembered keys and values.

        Args:
            query: one vector per target position.
            memory: from `remember`.
            mask: True = may attend, broadcastable to (B, T, S); None allows everything.
            need_weights: if False, a fused kernel computes the same contexts without
                storing the weights.

        Returns:
            The context of each query, and the weights of each head before dropout, or
            None.

        Raises:
            ValueError: the queries are not of width D, the memory is of another batch
                or has other heads, or the mask is wrong (see `masked_softmax`).
        """
        check_width(query, self.query_proj.in_features)
        q, (k, v) = self._split(self.query_proj(query)), memory
        if q.size(0) != k.size(0):
            raise ValueError(
                f"there are queries for {q.size(0)} sentences, but a memory of"
                f" {k.size(0)}"
            )
        if (q.size(1), q.size(3)) != (k.size(1), k.size(3)):
            raise ValueError(
                f"queries have {q.size(1)} heads of width {q.size(3)}, but the memory"
                f" {k.size(1)} of width {k.size(3)}"
            )
        if mask is not None:
            check_mask(mask, (query.size(0), query.size(1), k.size(2)))
            if mask.dim() == 3:
                mask = mask[:, None]  # (B, 1, T, S)
            mask = torch.atleast_2d(mask)
        # a single row of weights is small, and faster without the kernel
        if need_weights or q.size(2) == 1:
            context, weights = attend(self.score(q, k), v, mask, self.dropout)
        else:
            share = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(q, k, v, mask, share)
        output = self.output_proj(context.transpose(1, 2).flatten(2))  # (B, T, D)
        return output, weights if need_weights else None

    def _split(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T Dh"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, Dh)
