"""Encoder-decoder: what an encoder returns (`Encoded`), and the protocol of a decoder.

    encoded = encoder(source, lengths)                  once per source
    memory = decoder.remember(encoded)                  once per source
    logits, weights = decoder.decode(target, memory)    all tokens at once (training)
    logits, weights, cache = decoder.step(token, memory, cache)
                                                        one token at a time (inference)

In every tensor of `Encoded`, of a memory and of a cache the batch is axis 0, so that
`select` can reorder them.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attention_course.masks import padding_mask


class Encoded(NamedTuple):
    """What an encoder returns.

    Attributes:
        states: (B, S, E), one vector per source token; whatever stands on padding is
            meaningless.
        final: (B, E), the source in one vector.
        mask: (B, 1, S), True on tokens, False on padding.
    """

    states: Tensor
    final: Tensor
    mask: Tensor


class Memory(NamedTuple):
    """All that a recurrent decoder needs of the source, computed once per source.

    Attributes:
        key: (B, S, A), what queries are compared with, projected for the decoder's
            score.
        value: (B, S, E), what is looked up.
        mask: (B, 1, S), True = may attend.
        state: (B, D), the decoder's first state; of a stack (B, L, D), each layer's.
    """

    key: Tensor
    value: Tensor
    mask: Tensor
    state: Tensor


@runtime_checkable
class Decoder(Protocol):
    """What `EncoderDecoder` and the decoding methods ask of a decoder.

    Its memory and its cache are its own affair: a tensor, None, or a tuple of such.
    Weights are (B, T, S); a decoder with many layers and heads has (B, L, H, T, S). If
    nobody asks for them by `need_weights`, a decoder to which they cost extra returns
    None. One that always returns them may do without the word where nobody asks.
    """

    def remember(self, encoded: Encoded) -> Any:
        """Compute what depends on the source alone."""

    def decode(
        self, target: Tensor, memory: Any, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Predict every next token from the right ones before it (teacher forcing)."""

    def start(self, memory: Any) -> Any:
        """Return the cache before the first step."""

    def step(
        self, token: Tensor, memory: Any, cache: Any, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Predict the token after `token`."""


def select(tree: Any, rows: Int[Tensor, " N"]) -> Any:
    """Pick sentences from a memory or a cache.

    Args:
        tree: a tensor with the batch on axis 0, None, or a tuple (named or not) of
            such.
        rows: which sentences, in which order; one may come more than once.

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
        ValueError: not one length per source.
    """
    if lengths.shape != source.shape[:1]:
        raise ValueError(
            f"lengths of shape {tuple(lengths.shape)} for {source.size(0)} sources"
        )
    return padding_mask(lengths.to(source.device), source.size(1))


class EncoderDecoder(nn.Module):
    r"""A conditional generator: :math:`P(y_t \mid y_{<t}, x)`, x behind a memory.

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
        """Read the source once.

        Args:
            source: what the encoder reads: token ids (B, S), padded, or images (B, C,
                height, width).
            lengths: tokens in each source, on its device; of an image, whose memory has
                no padding, its slots.

        Returns:
            The memory that `decode`, `start` and `step` take.
        """
        return self.decoder.remember(self.encoder(source, lengths))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Any, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B *LH T slots"] | None]:
        """Predict every next token from the right ones before it (teacher forcing).

        Args:
            target: token ids, the first one BOS.
            memory: from `encode`.
            need_weights: return weights even where they cost extra, as a Transformer's
                do.

        Returns:
            Logits of the token after each target token, and the weights over the
            memory's slots, or None.
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
            token: the token before it; BOS at first.
            memory: from `encode`.
            cache: from `start`, then from the step before.
            need_weights: return weights even where they cost extra, as a Transformer's
                do.

        Returns:
            Logits of the next token, the weights over the memory's slots, or None, and
            the next cache.
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
