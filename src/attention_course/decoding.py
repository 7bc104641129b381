"""Decoding: from a trained model to a sentence, over `start` and `step`."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.seq2seq import EncoderDecoder


class Decoded(NamedTuple):
    """What decoding returns.

    Attributes:
        tokens: (B, T), token ids; after a sentence's EOS come EOS.
        weights: (B, T, S), what each step attended to; None from a model that gives weights on request only.
    """

    tokens: Int[Tensor, "B T"]
    weights: Float[Tensor, "B T S"] | None


@torch.no_grad()
def greedy(
    model: EncoderDecoder,
    source: Int[Tensor, "B S"],
    lengths: Int[Tensor, " B"],
    bos: int,
    eos: int,
    max_length: int,
) -> Decoded:
    """Take the likeliest token at every step, for a batch of sources at once.

    Args:
        model: switch it to `eval()` first.
        source: token ids, padded.
        lengths: tokens in each source, on the CPU.
        bos: id of the token that starts a target.
        eos: id of the token that ends it.
        max_length: steps after which decoding stops also without EOS.

    Returns:
        Tokens and weights, T <= `max_length` steps of them.

    Raises:
        ValueError: `max_length` is below 1.
    """
    if max_length < 1:
        raise ValueError(f"decoding takes at least 1 step, got max_length {max_length}")
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    token = source.new_full((source.size(0), 1), bos)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens, weights = [], []
    for _ in range(max_length):
        logits, step_weights, cache = model.step(token, memory, cache)
        token = logits.argmax(dim=-1).masked_fill(ended, eos)  # (B, 1)
        tokens.append(token)
        if step_weights is not None:
            weights.append(step_weights)
        ended = ended | (token == eos)
        if ended.all():
            break
    return Decoded(torch.cat(tokens, dim=1), torch.cat(weights, dim=1) if weights else None)
