"""Questions of lab 5: self-attention, multiple heads, positions and packed rows."""

from attention_labs.lab05_self_attention.merge_heads import MERGE_HEADS
from attention_labs.lab05_self_attention.multi_head_attention import (
    MULTI_HEAD_ATTENTION,
)
from attention_labs.lab05_self_attention.packed_rows import PACKED_ROWS
from attention_labs.lab05_self_attention.self_attention import SELF_ATTENTION
from attention_labs.lab05_self_attention.sinusoidal_positions import POSITIONS
from attention_labs.lab05_self_attention.split_heads import SPLIT_HEADS

QUESTIONS = (
    POSITIONS,
    SELF_ATTENTION,
    SPLIT_HEADS,
    MERGE_HEADS,
    MULTI_HEAD_ATTENTION,
    PACKED_ROWS,
)
