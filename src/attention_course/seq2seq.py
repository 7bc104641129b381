"""Encoder-decoder models: `Encoded`, the `Decoder` protocol and `EncoderDecoder`.

    encoded = encoder(source, lengths)                  once per source
    memory = decoder.remember(encoded)                  once per source
    logits, weights = decoder.decode(target, memory)    all tokens at once (training)
    logits, weights, cache = decoder.step(token, memory, cache)
                                                        one token at a time (inference)

In every tensor of `Encoded`, of a memory and of a cache, the batch is axis 0, so that
`select` can reorder them. The encoders and decoders themselves are in `rnn`,
`transformer` and `vision`.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attention_course.masks import padding_mask


class Encoded(NamedTuple):
    """What an encoder returns.

    Attributes:
        states: (B, S, E), one vector per source token; vectors on padding are
            meaningless.
        final: (B, E), the source in one vector.
        mask: (B, 1, S), True on tokens, False on padding.
    """

    states: Tensor
    final: Tensor
    mask: Tensor


class Memory(NamedTuple):
    """What a recurrent decoder needs from the source, computed once per source.

    Attributes:
        key: (B, S, A), compared with the queries; projected for the decoder's score.
        value: (B, S, E), averaged by the weights.
        mask: (B, 1, S), True = may attend.
        state: (B, D), the decoder's first state; (B, L, D) for a stack of L layers.
    """

    key: Tensor
    value: Tensor
    mask: Tensor
    state: Tensor


@runtime_checkable
class Decoder(Protocol):
    """What `EncoderDecoder` and the decoding methods need from a decoder.

    Each decoder has its own kind of memory and cache: a tensor, None, or a tuple of
    these. Weights are (B, T, S), or (B, L, H, T, S) for a decoder with many layers and
    heads. A decoder for which weights cost extra returns None unless `need_weights` is
    True. A decoder that always returns its weights may leave this argument out if it is
    never passed.
    """

    def remember(self, encoded: Encoded) -> Any:
        """Compute what depends on the source alone."""

    def decode(
        self, target: Tensor, memory: Any, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Predict each next token from the correct ones before it (teacher forcing)."""

    def start(self, memory: Any) -> Any:
        """Return the cache before the first step."""

    def step(
        self, token: Tensor, memory: Any, cache: Any, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Predict the token after `token`."""


def select(tree: Any, rows: Int[Tensor, " N"]) -> Any:
    """Select sentences from a memory or a cache.

    Args:
        tree: a tensor with the batch on axis 0, None, or a tuple (named or not) of
            these.
        rows: which sentences, in which order; a sentence may be repeated.

    Returns:
        The same tree, with tensor[rows] in place of each tensor.
    """
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    parts = [select(part, rows) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def source_mask(
    source: Shaped[Tensor, "B S ..."], lengths: Int[Tensor, " B"]
) -> Bool[Tensor, "B 1 S"]:
    """Return the padding mask of a batch of sources, on its device.

    Raises:
        ValueError: there is not exactly one length per source.
    """
    if lengths.shape != source.shape[:1]:
        raise ValueError(
            f"lengths of shape {tuple(lengths.shape)} for {source.size(0)} sources"
        )
    return padding_mask(lengths.to(source.device), source.size(1))


class EncoderDecoder(nn.Module):
    r"""A conditional generator: :math:`P(y_t \mid y_{<t}, x)`, with x seen as a memory.

    Sutskever et al. (2014), Eq. 1; Cho et al. (2014), Section 2.2.

    Args:
        encoder: a module that maps (source, lengths) to `Encoded`.
        decoder: a module that follows the `Decoder` protocol.
    """

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def encode(
        self, source: Shaped[Tensor, "B ..."], lengths: Int[Tensor, " B"]
    ) -> Any:
        """Encode the source once.

        Args:
            source: the encoder's input: token ids (B, S), padded, or images (B, C,
                height, width).
            lengths: tokens in each source, on its device; for an image, whose memory
                has no padding, the number of its slots.

        Returns:
            The memory that `decode`, `start` and `step` take.
        """
        return self.decoder.remember(self.encoder(source, lengths))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Any, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B *LH T slots"] | None]:
        """Predict each next token from the correct ones before it (teacher forcing).

        Args:
            target: token ids, the first one BOS.
            memory: from `encode`.
            need_weights: return weights even if they cost extra, as in a Transformer.

        Returns:
            Logits of the token after each target token; the weights over the memory's
            slots, or None.
        """
        if not need_weights:
            return self.decoder.decode(target, memory)
        return self.decoder.decode(target, memory, need_weights=True)

    def start(self, memory: Any) -> Any:
        """Return the cache before the first step."""
        return self.decoder.start(memory)

    def step(
        self,
        token: Int[Tensor, "B 1"],
        memory: Any,
        cache: Any,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B 1 V"], Float[Tensor, "B *LH 1 slots"] | None, Any]:
        """Predict one token.

        Args:
            token: the previous token; BOS at first.
            memory: from `encode`.
            cache: from `start`, then from the previous step.
            need_weights: return weights even if they cost extra, as in a Transformer.

        Returns:
            Logits of the next token; the weights over the memory's slots, or None; the
            next cache.
        """
        if not need_weights:
            return self.decoder.step(token, memory, cache)
        return self.decoder.step(token, memory, cache, need_weights=True)

    def forward(
        self,
        source: Shaped[Tensor, "B ..."],
        lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B *LH T slots"] | None]:
        """Encode, then decode with teacher forcing."""
        return self.decode(target, self.encode(source, lengths), need_weights)
