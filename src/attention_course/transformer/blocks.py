"""Transformer blocks: sub-layers, residual connections, norms, feed-forward networks.

In pre-norm blocks, a sub-layer reads the normalized sequence, y = x + f(LN(x)); in
post-norm blocks, the sum is normalized, y = LN(x + f(x)). Dropout is where Vaswani et
al. (2017), Section 5.4, put it: on the output of each sub-layer, and on embeddings with
positions. `nn.Transformer` also has dropout on attention weights and inside
feed-forward networks; these blocks do not.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_course.attention import Attention, KeyValue
from attention_course.checks import check_width
from attention_course.fast.dropout import Dropout


class FeedForward(nn.Module):
    r"""A feed-forward network that maps each position separately.

    .. math:: \mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2

    Vaswani et al. (2017), Eq. 2.

    Args:
        dim: D, width of the input and the output.
        hidden_dim: width of the hidden layer, the paper's d_ff.
    """

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.inner = nn.Linear(dim, hidden_dim)
        self.outer = nn.Linear(hidden_dim, dim)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Map every position separately."""
        check_width(x, self.inner.in_features)
        return self.outer(self.inner(x).relu())


class SwiGLU(nn.Module):
    r"""A feed-forward network with a gate, which scales each hidden unit.

    .. math:: \mathrm{FFN}(x) = (\mathrm{Swish}(x W) \odot x V)\, W_2,
        \quad \mathrm{Swish}(z) = \frac{z}{1 + e^{-z}}

    Shazeer (2020), Eq. 6, where W is `gate`, V is `inner`, W_2 is `outer`. It has three
    maps where `FeedForward` has two, and no biases.

    Args:
        dim: D, width of the input and the output.
        hidden_dim: width of the hidden layer, the paper's d_ff.
    """

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.gate = nn.Linear(dim, hidden_dim, bias=False)
        self.inner = nn.Linear(dim, hidden_dim, bias=False)
        self.outer = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Map every position separately."""
        check_width(x, self.inner.in_features)
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


class RMSNorm(nn.Module):
    r"""Scale every vector to the same length, without subtracting its mean.

    .. math:: y_d = g_d\, \frac{x_d}{\mathrm{RMS}(x)}, \quad
        \mathrm{RMS}(x) = \sqrt{\tfrac{1}{D} \sum_d x_d^2 + \epsilon}

    Zhang and Sennrich (2019), Eq. 4, where x is a, D is n; epsilon, which keeps a
    vector of zeros at zero, is not in the paper. `nn.RMSNorm` computes the same.

    Args:
        dim: D, width of a vector.
        eps: epsilon.
    """

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.normalized_shape = (dim,)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Normalize every vector separately."""
        check_width(x, self.normalized_shape[0])
        # Squares overflow in half precision.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rms = (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return self.weight * (wide / rms).to(x.dtype)


class Residual(nn.Module):
    r"""The residual connection around a sub-layer f, with its norm.

    Use it as `after(x, f(before(x)))`.

    .. math:: \text{post-norm: } y = \mathrm{LN}(x + f(x)), \quad \text{pre-norm: } y =
        x + f(\mathrm{LN}(x))

    Post-norm is Vaswani et al. (2017), Section 3.1; pre-norm is Xiong et al. (2020),
    Table 1 (right).

    Args:
        norm: normalizes vectors of width D.
        dropout: share of the sub-layer's output that is dropped in training.
        pre_norm: normalize the sub-layer's input instead of the sum.
    """

    def __init__(
        self,
        norm: nn.LayerNorm | nn.RMSNorm | RMSNorm,
        dropout: float,
        pre_norm: bool,
    ):
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.pre_norm = pre_norm

    def before(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the input of the sub-layer."""
        check_width(x, self.norm.normalized_shape[0])
        return self.norm(x) if self.pre_norm else x

    def after(
        self, x: Float[Tensor, "B T D"], added: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D"]:
        """Add the output of the sub-layer."""
        x = x + self.dropout(added)
        return x if self.pre_norm else self.norm(x)


class EncoderBlock(nn.Module):
    """An encoder layer: self-attention, then a feed-forward network.

    Vaswani et al. (2017), Section 3.1, Figure 1 left. With a causal mask, it is the
    block of a decoder-only model.

    Args:
        self_attention: attention within the sequence.
        feed_forward: maps vectors of width D to vectors of width D.
        around_self: the residual connection around the attention.
        around_feed_forward: the residual connection around the feed-forward network.
    """

    def __init__(
        self,
        self_attention: Attention,
        feed_forward: nn.Module,
        around_self: Residual,
        around_feed_forward: Residual,
    ):
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_self = around_self
        self.around_feed_forward = around_feed_forward

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "..."] | None = None,
        past: KeyValue | None = None,
    ) -> tuple[Float[Tensor, "B T D"], KeyValue]:
        """Compute a layer's states.

        Args:
            x: the states of the layer below.
            mask: True = may attend, broadcastable to (B, T, past + T), where the first
                positions are those of `past`.
            past: what this block returned for the positions before x.

        Returns:
            The states, and the keys and values of all past + T positions.
        """
        query = self.around_self.before(x)
        context, seen = look_around(self.self_attention, query, mask, past)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


class AttentionBlock(nn.Module):
    """A layer of self-attention alone, without a feed-forward network.

    Elhage et al. (2021) analyze models of such blocks: without feed-forward networks,
    what a layer adds to the residual stream is the sum of its heads' outputs.

    Args:
        self_attention: attention within the sequence.
        around_self: the residual connection around the attention.
    """

    def __init__(self, self_attention: Attention, around_self: Residual):
        super().__init__()
        self.self_attention = self_attention
        self.around_self = around_self

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "..."] | None = None,
        past: KeyValue | None = None,
    ) -> tuple[Float[Tensor, "B T D"], KeyValue]:
        """Compute a layer's states. See `EncoderBlock.forward`."""
        query = self.around_self.before(x)
        context, seen = look_around(self.self_attention, query, mask, past)
        return self.around_self.after(x, context), seen


class DecoderBlock(nn.Module):
    """A decoder layer: self-attention, cross-attention, then a feed-forward network.

    Vaswani et al. (2017), Section 3.1, Figure 1 right.

    Args:
        self_attention: attention to the target positions so far.
        cross_attention: attention to the source.
        feed_forward: maps vectors of width D to vectors of width D.
        around_self: the residual connection around the self-attention.
        around_cross: the residual connection around the cross-attention.
        around_feed_forward: the residual connection around the feed-forward network.
    """

    def __init__(
        self,
        self_attention: Attention,
        cross_attention: Attention,
        feed_forward: nn.Module,
        around_self: Residual,
        around_cross: Residual,
        around_feed_forward: Residual,
    ):
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_self = around_self
        self.around_cross = around_cross
        self.around_feed_forward = around_feed_forward

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        source: KeyValue,
        mask: Bool[Tensor, "..."] | None = None,
        source_mask: Bool[Tensor, "..."] | None = None,
        past: KeyValue | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None, KeyValue]:
        """Compute a layer's states.

        Args:
            x: the states of the layer below.
            source: `cross_attention.remember(states, states)` of the source.
            mask: which target positions may be attended to, broadcastable to (B, T,
                past + T), where the first positions are those of `past`.
            source_mask: which source positions may be attended to, broadcastable to (B,
                T, S).
            past: the keys and values that this block returned for the positions before
                x.
            need_weights: return the weights of the cross-attention.

        Returns:
            The states; the weights over the source, or None; the keys and values of all
            past + T target positions.
        """
        query = self.around_self.before(x)
        context, seen = look_around(self.self_attention, query, mask, past)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


def look_around(
    attention: Attention,
    query: Float[Tensor, "B T D"],
    mask: Bool[Tensor, "..."] | None,
    past: KeyValue | None,
) -> tuple[Float[Tensor, "B T D"], KeyValue]:
    """Apply self-attention to T new positions and the positions before them.

    Args:
        attention: the self-attention.
        query: the T new positions, which serve as queries, keys and values.
        mask: see `EncoderBlock.forward`.
        past: the keys and values of the positions before.

    Returns:
        The contexts, and the keys and values of all past + T positions.
    """
    now = attention.remember(query, query)
    seen = now if past is None else past.extend(now)
    context, _ = attention.ask(query, seen, mask, need_weights=False)
    return context, seen
