"""Encoder-decoder: what an encoder returns, what a decoder remembers of it, and how the two are driven.

    encoded = encoder(source, lengths)           once per source
    memory  = decoder.remember(encoded)          once per source
    logits, weights = decoder.decode(target, memory)              all target tokens at once (training)
    logits, weights, cache = decoder.step(token, memory, cache)   one token at a time (inference)

In every tensor of `Encoded`, `Memory` and a cache the batch is axis 0.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn


class Encoded(NamedTuple):
    """What an encoder returns.

    Attributes:
        states: (B, S, E), one vector per source token; whatever stands on padding is meaningless.
        final: (B, E), the source in one vector.
        mask: (B, 1, S), True on tokens, False on padding.
    """

    states: Tensor
    final: Tensor
    mask: Tensor


class Memory(NamedTuple):
    """All that a decoder needs of the source, computed once per source.

    Attributes:
        key: (B, S, A), what queries are compared with, projected for the decoder's score.
        value: (B, S, E), what is looked up.
        mask: (B, 1, S), True = may attend.
        state: (B, H), the decoder's first state; of a stack (B, L, H), each layer's.
    """

    key: Tensor
    value: Tensor
    mask: Tensor
    state: Tensor


Cache = Tensor | tuple[Any, ...]
"""What a decoder hands from step to step: a tensor, or a tuple of caches."""


@runtime_checkable
class Decoder(Protocol):
    """What `EncoderDecoder` and the decoding methods ask of a decoder."""

    def remember(self, encoded: Encoded) -> Memory:
        """Compute what depends on the source alone."""

    def decode(self, target: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Predict every next token, given the right tokens before it (teacher forcing)."""

    def start(self, memory: Memory) -> Cache:
        """Return the cache before the first step."""

    def step(self, token: Tensor, memory: Memory, cache: Any) -> tuple[Tensor, Tensor, Cache]:
        """Predict the token after `token`."""


class EncoderDecoder(nn.Module):
    r"""A conditional generator: :math:`P(y_t \mid y_{<t}, x)`, with the source x behind a memory.

    Sutskever et al. (2014), Eq. 1; Cho et al. (2014), Section 2.2.

    Args:
        encoder: a module that maps (source, lengths) to `Encoded`.
        decoder: a module that follows the `Decoder` protocol.
    """

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> Memory:
        """Read the source once.

        Args:
            source: token ids, padded.
            lengths: tokens in each source, on the CPU.

        Returns:
            The memory that `decode`, `start` and `step` take.
        """
        return self.decoder.remember(self.encoder(source, lengths))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Memory
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"]]:
        """Predict every next token from the right ones before it (teacher forcing).

        Args:
            target: token ids, the first one BOS.
            memory: from `encode`.

        Returns:
            Logits of the token after each target token, and the weights over the memory's slots.
        """
        return self.decoder.decode(target, memory)

    def start(self, memory: Memory) -> Cache:
        """Return the cache before the first step."""
        return self.decoder.start(memory)

    def step(
        self, token: Int[Tensor, "B 1"], memory: Memory, cache: Cache
    ) -> tuple[Float[Tensor, "B 1 V"], Float[Tensor, "B 1 S"], Cache]:
        """Predict one token.

        Args:
            token: the token before it; BOS at first.
            memory: from `encode`.
            cache: from `start`, then from the step before.

        Returns:
            Logits of the next token, the weights over the memory's slots, and the next cache.
        """
        return self.decoder.step(token, memory, cache)

    def forward(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], target: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T slots"]]:
        """Encode, then decode with teacher forcing."""
        return self.decode(target, self.encode(source, lengths))
