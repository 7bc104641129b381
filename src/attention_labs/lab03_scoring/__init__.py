"""Questions of lab 3: score functions, the masked softmax and attention."""

from attention_labs.lab03_scoring import (
    additive,
    attend,
    cosine,
    distance_bias,
    dot,
    gaussian,
    general,
    masked_softmax,
    scaled_dot,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        masked_softmax,
        dot,
        scaled_dot,
        cosine,
        general,
        additive,
        gaussian,
        distance_bias,
        attend,
    )
)
