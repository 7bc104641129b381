"""Stacks: embeddings, and block upon block over them. A translator's two halves."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import KeyValue, attend
from attention_course.masks import causal_mask
from attention_course.seq2seq import Encoded, source_mask
from attention_course.transformer.blocks import DecoderBlock, EncoderBlock
from attention_course.transformer.positions import TokenEmbedding


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
