"""Questions of lab 5: self-attention, multiple heads, positions and packed rows."""

from attention_labs.lab05_self_attention import (
    merge_heads,
    multi_head_attention,
    packed_rows,
    self_attention,
    sinusoidal_positions,
    split_heads,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        sinusoidal_positions,
        self_attention,
        split_heads,
        merge_heads,
        multi_head_attention,
        packed_rows,
    )
)
