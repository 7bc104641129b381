"""Blocks: what one layer of a Transformer does, and in which order.

In pre-norm blocks a sub-layer reads the normalised sequence, y = x + f(LN(x)); in
post-norm blocks the sum is normalised, y = LN(x + f(x)). Dropout stands where Vaswani
et al. (2017), Section 5.4, put it: on what a sub-layer adds, and on embeddings with
positions; not on attention weights and inside feed-forward networks, as
`nn.Transformer` has it too.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.checks import check_width
from attention_course.fast.dropout import Dropout


class FeedForward(nn.Module):
    r"""What each position does for itself, between looking at the others.

    .. math:: \mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2

    Vaswani et al. (2017), Eq. 2.

    Args:
        dim: D, width of what comes in and goes out.
        hidden_dim: width in between, the paper's d_ff.
    """

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.inner = nn.Linear(dim, hidden_dim)
        self.outer = nn.Linear(hidden_dim, dim)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Map every position by itself."""
        check_width(x, self.inner.in_features)
        return self.outer(self.inner(x).relu_())


class Residual(nn.Module):
    r"""The way around a sub-layer f, and the norm on it: `after(x, f(before(x)))`.

    .. math:: \text{post-norm: } y = \mathrm{LN}(x + f(x)), \quad \text{pre-norm: } y =
    x + f(\mathrm{LN}(x))

    Post-norm is Vaswani et al. (2017), Section 3.1; pre-norm is Xiong et al. (2020),
    Table 1 (right).

    Args:
        dim: D, width of the sequence.
        dropout: share of what the sub-layer adds that training drops.
        pre_norm: normalise what the sub-layer reads, instead of the sum.
    """

    def __init__(self, dim: int, dropout: float, pre_norm: bool):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)
        self.pre_norm = pre_norm

    def before(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return what the sub-layer reads."""
        check_width(x, self.norm.normalized_shape[0])
        return self.norm(x) if self.pre_norm else x

    def after(
        self, x: Float[Tensor, "B T D"], added: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D"]:
        """Add what the sub-layer says."""
        x = x + self.dropout(added)
        return x if self.pre_norm else self.norm(x)


class EncoderBlock(nn.Module):
    """Every position looks at the others (self-attention), then thinks for itself
    (feed-forward).

    Vaswani et al. (2017), Section 3.1, Figure 1 left. With a causal mask it is the
    block of a decoder-only model.

    Args:
        dim: D, width of the sequence.
        num_heads: H; it divides D.
        hidden_dim: width inside the feed-forward network.
        dropout: share of what a sub-layer adds that training drops.
        pre_norm: where the norm stands, see `Residual`.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        pre_norm: bool = True,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(dim, dropout, pre_norm)
        self.around_feed_forward = Residual(dim, dropout, pre_norm)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "..."] | None = None,
        past: KeyValue | None = None,
    ) -> tuple[Float[Tensor, "B T D"], KeyValue]:
        """Compute a layer's states.

        Args:
            x: the states of the layer below.
            mask: True = may attend, broadcastable to (B, T, P + T) with P positions in
                `past`.
            past: what this block returned for the positions before x.

        Returns:
            The states, and the keys and values of all P + T positions.
        """
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        seen = seen if past is None else past.extend(seen)
        context, _ = self.self_attention.ask(query, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, seen


class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source (cross-attention),
    then thinks for itself.

    Vaswani et al. (2017), Section 3.1, Figure 1 right.

    Args:
        dim: D, width of both sequences.
        num_heads: H; it divides D.
        hidden_dim: width inside the feed-forward network.
        dropout: share of what a sub-layer adds that training drops.
        pre_norm: where the norm stands, see `Residual`.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        pre_norm: bool = True,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(dim, dropout, pre_norm)
        self.around_cross = Residual(dim, dropout, pre_norm)
        self.around_feed_forward = Residual(dim, dropout, pre_norm)

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
            mask: which target positions may be attended to, broadcastable to (B, T, P +
                T) with P positions in `past`.
            source_mask: which source positions may be attended to, broadcastable to (B,
                T, S).
            past: the keys and values that this block returned for the positions before
                x.
            need_weights: return the weights of the cross-attention.

        Returns:
            The states; the weights over the source, or None; the keys and values of all
            P + T target positions.
        """
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        seen = seen if past is None else past.extend(seen)
        context, _ = self.self_attention.ask(query, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, seen
