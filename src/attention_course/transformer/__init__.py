"""Transformers: sequences that are their own memory, layer upon layer.

Positions say where a token stands, blocks say what one layer does, stacks put blocks
upon an embedding, and a language model is a stack that reads what it writes.
"""

from attention_course.transformer.blocks import (
    AttentionBlock,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Residual,
    RMSNorm,
    SwiGLU,
)
from attention_course.transformer.language_model import TransformerLM
from attention_course.transformer.positions import (
    LearnedPositions,
    NoPositions,
    PatchEmbedding,
    SegmentEmbedding,
    SinusoidalPositions,
    TokenEmbedding,
)
from attention_course.transformer.rotary import GroupedQueryAttention, RotaryPositions
from attention_course.transformer.stacks import (
    TransformerDecoder,
    TransformerEncoder,
    TransformerMemory,
)

__all__ = [
    "AttentionBlock",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "GroupedQueryAttention",
    "LearnedPositions",
    "NoPositions",
    "PatchEmbedding",
    "RMSNorm",
    "Residual",
    "RotaryPositions",
    "SegmentEmbedding",
    "SinusoidalPositions",
    "SwiGLU",
    "TokenEmbedding",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerLM",
    "TransformerMemory",
]
