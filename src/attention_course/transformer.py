"""Transformers: sequences that are their own memory, layer upon layer.

In pre-norm blocks a sub-layer reads the normalised sequence, y = x + f(LN(x)); in
post-norm blocks the sum is normalised, y = LN(x + f(x)). Dropout stands where Vaswani
et al. (2017), Section 5.4, put it: on what a sub-layer adds, and on embeddings with
positions; not on attention weights and inside feed-forward networks, as
`nn.Transformer` has it too.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_course.attention import KeyValue, MultiHeadAttention, attend, check_width
from attention_course.dropout import Dropout
from attention_course.masks import causal_mask
from attention_course.seq2seq import Encoded, source_mask


class SinusoidalPositions(nn.Module):
    r"""Say where a token stands by the hands of D/2 clocks, each slower than the one
    before. There is no last position.

    .. math:: p_{t,2i} = \sin(t / 10000^{2i/D}), \quad p_{t,2i+1} = \cos(t /
    10000^{2i/D})

    Vaswani et al. (2017), Section 3.5, where t is pos, D is d_model.

    Args:
        dim: D, width of a position; even.

    Raises:
        ValueError: `dim` is odd.
    """

    def __init__(self, dim: int):
        super().__init__()
        if dim % 2:
            raise ValueError(f"sines and cosines come in pairs, got width {dim}")
        self.dim = dim

    def forward(
        self, x: Float[Tensor, "B T D"], past: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Add to each vector its position.

        Args:
            x: embedded tokens.
            past: tokens that came before them.

        Returns:
            x_t + p_{past + t}.

        Raises:
            ValueError: the tokens are not of width D.
        """
        _check_position(self.dim, x)
        t = torch.arange(past, past + x.size(1), device=x.device, dtype=torch.float32)
        i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
        # (T, D/2)
        angles = t[:, None] * torch.exp(i * (-2 * math.log(10000.0) / self.dim))
        # (T, D)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(
            x.dtype
        )


class LearnedPositions(nn.Module):
    """Say where a token stands by a learned vector per position. The last row of the
    table is the last position.

    Gehring et al. (2017), Section 3.1; Vaswani et al. (2017), Section 3.5, found them
    as good as sines.

    Args:
        max_length: rows of the table, in tokens.
        dim: D, width of a position.
    """

    def __init__(self, max_length: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(max_length, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def forward(
        self, x: Float[Tensor, "B T D"], past: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Add to each vector its position. See `SinusoidalPositions.forward`.

        Raises:
            ValueError: there are more tokens than positions, or they are not of width
                D.
        """
        _check_position(self.table.embedding_dim, x)
        end = past + x.size(1)
        if end > self.table.num_embeddings:
            raise ValueError(
                f"{end} tokens, but positions were learned for"
                f" {self.table.num_embeddings}"
            )
        return x + self.table.weight[past:end]


def _check_position(dim: int, x: Tensor) -> None:
    if x.size(-1) != dim:
        raise ValueError(
            f"positions of width {dim} cannot be added to vectors of width {x.size(-1)}"
        )


class TokenEmbedding(nn.Module):
    r"""Embed tokens, and say where they stand.

    .. math:: x_t = \sqrt{D}\, E_{w_t} + p_t

    Vaswani et al. (2017), Section 3.4. The table is drawn with variance 1/D, so that
    what enters the first block has variance 1, and so have the logits where the same
    table is used for the output.

    Args:
        vocab_size: V, tokens in the vocabulary.
        dim: D, width of an embedding.
        positions: adds positions of width D.
        dropout: share of the sum that training drops.
    """

    def __init__(
        self, vocab_size: int, dim: int, positions: nn.Module, dropout: float = 0.0
    ):
        super().__init__()
        self.table = nn.Embedding(vocab_size, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        self.positions = positions
        self.dropout = Dropout(dropout)

    @property
    def weight(self) -> Tensor:
        """The table, one row per token."""
        return self.table.weight

    def forward(
        self, token: Int[Tensor, "B T"], past: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Embed T tokens that come after `past` others."""
        embedded = self.table(token) * math.sqrt(self.table.embedding_dim)
        return self.dropout(self.positions(embedded, past))


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
        check_width(self.inner, x)
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
        if x.size(-1) != self.norm.normalized_shape[0]:
            raise ValueError(
                f"expected vectors of width {self.norm.normalized_shape[0]}, got width"
                f" {x.size(-1)}"
            )
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


class TransformerEncoder(nn.Module):
    """Read a source with a stack of encoder blocks: the encoder of a translator, or an
    encoder-only model's body.

    Vaswani et al. (2017), Section 3.1.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        dim: D, width of the states.
        num_heads: H; it divides D.
        hidden_dim: width inside the feed-forward networks.
        num_layers: L, blocks.
        positions: adds positions of width D.
        dropout: see `EncoderBlock`.
        pre_norm: see `Residual`; the sum that pre-norm blocks leave is normalised once,
            at the end.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        positions: nn.Module,
        dropout: float = 0.0,
        pre_norm: bool = True,
    ):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions, dropout)
        self.blocks = nn.ModuleList(
            EncoderBlock(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim) if pre_norm else nn.Identity()
        self.output_dim = dim

    def forward(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]
    ) -> Encoded:
        """Read a padded batch of sources.

        Args:
            source: token ids.
            lengths: tokens in each source, on the CPU.

        Returns:
            The top layer's states; their mean over each sentence's tokens; the mask.
        """
        mask = source_mask(source, lengths)
        x = self.embedding(source)
        for block in self.blocks:
            x, _ = block(x, mask)
        states = self.norm(x)
        # equal scores: equal weights
        mean, _ = attend(states.new_zeros(mask.shape), states, mask)
        return Encoded(states, mean[:, 0], mask)


class TransformerMemory(NamedTuple):
    """All that a Transformer's decoder needs of the source, computed once per source.

    Attributes:
        layers: what each block's cross-attention looks things up in.
        mask: (B, 1, S), True = may attend.
    """

    layers: tuple[KeyValue, ...]
    mask: Tensor


class TransformerDecoder(nn.Module):
    r"""Predict each token from all tokens before it and from the source, all positions
    at once.

    Vaswani et al. (2017), Section 3.1. No position depends on what comes after it, so
    keys and values of past tokens never change: they are the cache of `step`, and
    `decode` is one long step.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        dim: D, width of the states and of the encoder's states.
        num_heads: H; it divides D.
        hidden_dim: width inside the feed-forward networks.
        num_layers: L, blocks.
        positions: adds positions of width D.
        dropout: see `DecoderBlock`.
        pre_norm: see `Residual`; the sum that pre-norm blocks leave is normalised once,
            at the end.
        tied: use one table as embedding and as output map (Press and Wolf, 2017;
            Vaswani et al., Section 3.4).

    Raises:
        ValueError: fewer than 1 block.
    """

    weights_on_request = True

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        positions: nn.Module,
        dropout: float = 0.0,
        pre_norm: bool = True,
        tied: bool = False,
    ):
        super().__init__()
        _check_depth(num_layers)
        self.embedding = TokenEmbedding(vocab_size, dim, positions, dropout)
        self.blocks = nn.ModuleList(
            DecoderBlock(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim) if pre_norm else nn.Identity()
        self.head = _head(self.embedding, tied)

    def remember(self, encoded: Encoded) -> TransformerMemory:
        """Project every state of the source once per layer."""
        states = encoded.states
        layers = [
            block.cross_attention.remember(states, states)  # type: ignore[operator, union-attr]
            for block in self.blocks
        ]
        return TransformerMemory(tuple(layers), encoded.mask)

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: TransformerMemory,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B L H T S"] | None]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`."""
        logits, weights, _ = self.step(target, memory, self.start(memory), need_weights)
        return logits, weights

    def start(self, memory: TransformerMemory) -> tuple[None, ...]:
        """Return the cache before the first step: nothing per layer."""
        return (None,) * len(self.blocks)

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: TransformerMemory,
        cache: tuple[KeyValue | None, ...],
        need_weights: bool = False,
    ) -> tuple[
        Float[Tensor, "B T V"], Float[Tensor, "B L H T S"] | None, tuple[KeyValue, ...]
    ]:
        """Predict the token after each of T tokens. See `EncoderDecoder.step`."""
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = _causal_after(past, token)
        x = self.embedding(token, past)
        all_weights, all_seen = [], []
        for block, source, layer_past in zip(self.blocks, memory.layers, cache):
            x, weights, seen = block(
                x, source, mask, memory.mask, layer_past, need_weights
            )
            all_weights.append(weights)
            all_seen.append(seen)
        logits = self.head(self.norm(x))
        # (B, L, H, T, S)
        return (
            logits,
            torch.stack(all_weights, dim=1) if need_weights else None,
            tuple(all_seen),
        )


class TransformerLM(nn.Module):
    r"""A language model: predict each token from all tokens before it, and from nothing
    else.

    .. math:: P(y) = \prod_t P(y_t \mid y_{<t})

    Radford et al. (2018), Section 3.1, Eqs. 1-2: a decoder-only Transformer, a stack of
    encoder blocks under a causal mask. There is no source, so its memory is None;
    otherwise it is driven like an `EncoderDecoder`.

    Args:
        vocab_size: V, tokens in the vocabulary.
        dim: D, width of the states.
        num_heads: H; it divides D.
        hidden_dim: width inside the feed-forward networks.
        num_layers: L, blocks.
        positions: adds positions of width D.
        dropout: see `EncoderBlock`.
        pre_norm: see `Residual`; the sum that pre-norm blocks leave is normalised once,
            at the end.
        tied: use one table as embedding and as output map, see `TransformerDecoder`.

    Raises:
        ValueError: fewer than 1 block.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        positions: nn.Module,
        dropout: float = 0.0,
        pre_norm: bool = True,
        tied: bool = False,
    ):
        super().__init__()
        _check_depth(num_layers)
        self.embedding = TokenEmbedding(vocab_size, dim, positions, dropout)
        self.blocks = nn.ModuleList(
            EncoderBlock(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim) if pre_norm else nn.Identity()
        self.head = _head(self.embedding, tied)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> None:
        """Return no memory: the source only says how many sentences are wanted."""

    def decode(
        self, target: Int[Tensor, "B T"], memory: None = None
    ) -> tuple[Float[Tensor, "B T V"], None]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`."""
        logits, _, _ = self.step(target, memory, self.start(memory))
        return logits, None

    def start(self, memory: None = None) -> tuple[None, ...]:
        """Return the cache before the first step: nothing per layer."""
        return (None,) * len(self.blocks)

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: None,
        cache: tuple[KeyValue | None, ...],
    ) -> tuple[Float[Tensor, "B T V"], None, tuple[KeyValue, ...]]:
        """Predict the token after each of T tokens. See `EncoderDecoder.step`."""
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = _causal_after(past, token)
        x = self.embedding(token, past)
        all_seen = []
        for block, layer_past in zip(self.blocks, cache):
            x, seen = block(x, mask, layer_past)
            all_seen.append(seen)
        return self.head(self.norm(x)), None, tuple(all_seen)

    def forward(self, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Predict every next token."""
        return self.decode(target)[0]


def _causal_after(past: int, token: Tensor) -> Tensor | None:
    """Let each of T tokens see the past and itself; a single token may see everything,
    so it needs no mask."""
    size = past + token.size(1)
    # (T, past + T)
    return None if token.size(1) == 1 else causal_mask(size, token.device)[past:]


def _check_depth(num_layers: int) -> None:
    if num_layers < 1:
        raise ValueError(f"a decoder has at least 1 block, got num_layers {num_layers}")


def _head(embedding: TokenEmbedding, tied: bool) -> nn.Linear:
    vocab_size, dim = embedding.weight.shape
    head = nn.Linear(dim, vocab_size)
    if tied:
        head.weight = embedding.table.weight
    return head
