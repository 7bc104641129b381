"""Questions of lab 1: text preprocessing, padded batches, the loss and exact match."""

from attention_labs.lab01_preprocessing import (
    collate,
    exact_match,
    loss,
    pad,
    pad_left,
    padding_mask,
    tokenize,
    vocabulary,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        tokenize,
        vocabulary,
        pad,
        pad_left,
        padding_mask,
        collate,
        loss,
        exact_match,
    )
)
