"""A Transformer's encoder and decoder: stacks of blocks, with the decoder's cache.

Decoder-only models are in `language_model`.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attention_course.attention import KeyValue, attend
from attention_course.masks import causal_mask
from attention_course.seq2seq import Encoded, source_mask
from attention_course.transformer.blocks import DecoderBlock
from attention_course.transformer.positions import (
    PatchEmbedding,
    SegmentEmbedding,
    TokenEmbedding,
)


class TransformerEncoder(nn.Module):
    """Encode a source with a stack of blocks, for a translator or as the body of BERT.

    Vaswani et al. (2017), Section 3.1.

    Args:
        embedding: of the source's tokens or patches, of width D.
        blocks: L `EncoderBlock`s.
        norm: normalizes the final sum of pre-norm blocks; `nn.Identity()` after
            post-norm blocks.

    Raises:
        ValueError: fewer than 1 block.
    """

    def __init__(
        self,
        embedding: TokenEmbedding | SegmentEmbedding | PatchEmbedding,
        blocks: Sequence[nn.Module],
        norm: nn.Module,
    ):
        super().__init__()
        check_depth(blocks)
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.output_dim = embedding.weight.size(1)

    def forward(
        self,
        source: Shaped[Tensor, "B ..."],
        lengths: Int[Tensor, " B"],
        segment: Int[Tensor, "B S"] | None = None,
    ) -> Encoded:
        """Read a padded batch of sources.

        Args:
            source: token ids (B, S), or images (B, C, height, width) for a
                `PatchEmbedding`.
            lengths: tokens or patches in each source.
            segment: for a `SegmentEmbedding`, which text each token is in; None: there
                is only one text.

        Returns:
            The top layer's states; their mean over each sentence's tokens; the mask.
        """
        x = self.embedding(*([source] if segment is None else [source, segment]))
        mask = source_mask(x, lengths)
        for block in self.blocks:
            x, _ = block(x, mask)
        states = self.norm(x)
        # equal scores give uniform weights
        mean, _ = attend(states.new_zeros(mask.shape), states, mask)
        return Encoded(states, mean[:, 0], mask)


class TransformerMemory(NamedTuple):
    """What a Transformer's decoder needs from the source, computed once per source.

    Attributes:
        layers: the keys and values of each block's cross-attention.
        mask: (B, 1, S), True = may attend.
    """

    layers: tuple[KeyValue, ...]
    mask: Tensor


class TransformerDecoder(nn.Module):
    r"""Predict each token from the source and all tokens before it, all at once.

    Vaswani et al. (2017), Section 3.1. No position depends on what comes after it, so
    the keys and values of past tokens never change: they are the cache of `step`, and
    `decode` is one long step.

    Args:
        embedding: of the target's tokens; its width D is that of the encoder's states.
        blocks: L `DecoderBlock`s.
        norm: see `TransformerEncoder`.
        head: maps a state to V logits.

    Raises:
        ValueError: fewer than 1 block.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        blocks: Sequence[nn.Module],
        norm: nn.Module,
        head: nn.Linear,
    ):
        super().__init__()
        check_depth(blocks)
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.head = head

    def remember(self, encoded: Encoded) -> TransformerMemory:
        """Project every state of the source once per layer."""
        states = encoded.states
        blocks = cast(Sequence[DecoderBlock], self.blocks)
        layers = [block.cross_attention.remember(states, states) for block in blocks]
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
        """Return the cache before the first step: None for each layer."""
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
        mask = causal_after(past, token)
        x = self.embedding(token, past)
        all_weights, all_seen = [], []
        for block, source, layer_past in zip(self.blocks, memory.layers, cache):
            x, weights, seen = block(
                x, source, mask, memory.mask, layer_past, need_weights
            )
            all_weights.append(weights)
            all_seen.append(seen)
        # (B, L, H, T, S)
        weights = torch.stack(all_weights, dim=1) if need_weights else None
        return self.head(self.norm(x)), weights, tuple(all_seen)


def causal_after(past: int, token: Int[Tensor, "B T"]) -> Bool[Tensor, "T all"] | None:
    """Let each of T tokens attend to all tokens up to and including itself.

    Returns:
        A mask (T, past + T); None for a single token, which may attend to everything.
    """
    if token.size(1) == 1:
        return None
    return causal_mask(past + token.size(1), token.device)[past:]


def check_depth(blocks: Sequence[nn.Module]) -> None:
    """Check that a stack has a block.

    Raises:
        ValueError: fewer than 1 block.
    """
    if len(blocks) < 1:
        raise ValueError(f"a stack has at least 1 block, got {len(blocks)}")
