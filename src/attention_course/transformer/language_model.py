"""A Transformer language model (decoder-only) that continues padded batches of prompts.

The encoder and decoder stacks of a translator are in `stacks`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import KeyValue
from attention_course.seq2seq import source_mask
from attention_course.transformer.positions import Past, TokenEmbedding
from attention_course.transformer.stacks import causal_after, check_depth


class Prompt(NamedTuple):
    """The prompts that a language model continues; they are its memory.

    Attributes:
        token: (B, S), token ids, padded on the right.
        mask: (B, S), True on tokens, False on padding.
    """

    token: Tensor
    mask: Tensor


class TransformerLM(nn.Module):
    r"""A language model: predict each token from all tokens before it.

    .. math:: P(y) = \prod_t P(y_t \mid y_{<t})

    Radford et al. (2018), Section 3.1, Eqs. 1-2: a decoder-only Transformer, a stack of
    encoder blocks under a causal mask.

    It has the interface of an `EncoderDecoder` whose source is a prompt, the beginning
    of what it writes. Every sentence starts with the first token of the first step,
    BOS; then come the prompt and the generated text. The prompt may therefore be empty,
    and if there is no prompt, the memory is None. Prompts of unequal length are padded.
    No position attends to the padding, each row counts only its own tokens, and the
    padding is put before BOS, so all distances are the same as without it. A prompt is
    therefore continued in a batch as it is alone.

    Args:
        embedding: of tokens, of width D.
        blocks: L `EncoderBlock`s.
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

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> Prompt:
        """Store the prompts.

        Args:
            source: ids of their tokens, without BOS, padded on the right.
            lengths: tokens in each prompt; 0 for an empty prompt.

        Returns:
            The memory that `decode`, `start` and `step` take.

        Raises:
            ValueError: there is not exactly one length per prompt.
        """
        return Prompt(source, source_mask(source, lengths)[:, 0])

    def decode(
        self, target: Int[Tensor, "B T"], memory: Prompt | None = None
    ) -> tuple[Float[Tensor, "B T V"], None]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`.

        Args:
            target: token ids, the first one BOS; the others come after the prompt.
            memory: from `encode`; None: no prompt.

        Returns:
            Logits of the token after each target token; those for BOS are of the token
            after BOS and the prompt.
        """
        logits, _, _ = self.step(target, memory, self.start(memory))
        return logits, None

    def start(self, memory: Prompt | None = None) -> tuple[None, ...]:
        """Return the cache before the first step: None for each layer."""
        return (None,) * len(self.blocks)

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: Prompt | None,
        cache: tuple[KeyValue | None, ...],
    ) -> tuple[Float[Tensor, "B T V"], None, tuple[KeyValue, ...]]:
        """Predict the token after each of T tokens; the first step reads the prompt.

        See `EncoderDecoder.step`.
        """
        if memory is None or cache[0] is not None:
            x, cache = self._read(token, memory, cache)
        else:
            begin = _padding_first(token[:, :1], memory)  # (B, 1 + S)
            x, cache = self._read(begin, memory, cache)
            x = x[:, -1:]  # (B, 1, D)
            if token.size(1) > 1:
                rest, cache = self._read(token[:, 1:], memory, cache)
                x = torch.cat([x, rest], dim=1)
        return self.head(self.norm(x)), None, cache

    def _read(
        self,
        token: Int[Tensor, "B T"],
        memory: Prompt | None,
        cache: tuple[KeyValue | None, ...],
    ) -> tuple[Float[Tensor, "B T D"], tuple[KeyValue, ...]]:
        """Compute the states of T tokens that come after those in the cache."""
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_after(past, token)
        before: Past = past
        if memory is not None:
            padding = _padding(memory)
            slot = torch.arange(past + token.size(1), device=token.device)
            real = (slot >= padding[:, None])[:, None]  # (B, 1, past + T)
            mask = real if mask is None else mask & real
            before = past - padding  # padding does not count as past
        x = self.embedding(token, before)
        all_seen = []
        for block, layer_past in zip(self.blocks, cache):
            x, seen = block(x, mask, layer_past)
            all_seen.append(seen)
        return x, tuple(all_seen)

    def forward(self, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Predict every next token."""
        return self.decode(target)[0]


def _padding(memory: Prompt) -> Int[Tensor, " B"]:
    """Count the padding tokens of each prompt."""
    return (~memory.mask).sum(dim=1)


def _padding_first(bos: Int[Tensor, "B 1"], memory: Prompt) -> Int[Tensor, "B T"]:
    """Put the prompts after BOS, and their padding before it."""
    begin = torch.cat([bos, memory.token], dim=1)  # (B, 1 + S)
    slot = torch.arange(begin.size(1), device=begin.device)
    return begin.gather(1, (slot - _padding(memory)[:, None]) % begin.size(1))
