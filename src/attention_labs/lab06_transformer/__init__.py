"""Questions of lab 6: Transformer blocks, a training step, and cached decoding."""

from attention_labs.lab06_transformer import (
    cached_step,
    causal_mask,
    decoder_block,
    encoder_block,
    greedy,
    looks_ahead,
    train_step,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        causal_mask,
        encoder_block,
        decoder_block,
        train_step,
        greedy,
        looks_ahead,
        cached_step,
    )
)
