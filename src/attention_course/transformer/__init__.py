"""Transformers: blocks, positional encodings, encoder, decoder and language model.

`positions` and `rotary` say where a token is, `blocks` has the layers, `stacks` puts
blocks on top of an embedding, and `language_model` has a stack that reads its own
output. Functions that build whole models from sizes are in `models`.
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
