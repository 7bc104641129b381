"""Questions of lab 7: loading a body by name, a new head, freezing, and accuracy."""

from attention_labs.lab07_transfer import (
    accuracy,
    freeze,
    grow_embedding,
    load_body,
    parameter_groups,
    sentence_head,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        load_body,
        grow_embedding,
        sentence_head,
        freeze,
        accuracy,
        parameter_groups,
    )
)
