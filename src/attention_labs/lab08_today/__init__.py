"""Questions of lab 8: the parts of today's language models."""

from attention_labs.lab08_today import (
    grouped_queries,
    induction_score,
    rotary,
    running_softmax,
    top_p,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (rotary, grouped_queries, running_softmax, top_p, induction_score)
)
