"""Questions of lab 2: an encoder and a decoder with a single vector between them."""

from attention_labs.lab02_bottleneck import (
    at_end,
    context_step,
    encoder,
    final_state_step,
    remember,
    stacked_encoder,
    two_slots,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        at_end,
        encoder,
        remember,
        two_slots,
        final_state_step,
        context_step,
        stacked_encoder,
    )
)
