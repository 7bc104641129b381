"""Builders of untrained GPT-2, Llama, BERT and attention-only models.

Their pretrained weights are loaded in `pretrained`.
"""

from collections.abc import Callable

from torch import Tensor, nn

from attention_course.attention import MultiHeadAttention
from attention_course.models.transformers import output_layer
from attention_course.transformer import (
    AttentionBlock,
    EncoderBlock,
    GroupedQueryAttention,
    LearnedPositions,
    NoPositions,
    Residual,
    RMSNorm,
    RotaryPositions,
    SegmentEmbedding,
    SwiGLU,
    TokenEmbedding,
    TransformerEncoder,
    TransformerLM,
)
from attention_course.transformer.rotary import head_width


def gpt2(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    max_length: int,
    eps: float = 1e-5,
    dropout: float = 0.0,
    tied: bool = True,
) -> TransformerLM:
    """Build GPT-2, the language model of Radford et al. (2019), Section 2.3.

    Unlike `decoder_only`, it has learned positions, does not scale embeddings, uses
    GELU (approximated with a tanh) instead of ReLU, and has no bias in its output
    layer.
    """

    def around() -> Residual:
        return Residual(nn.LayerNorm(dim, eps), dropout, pre_norm=True)

    positions = LearnedPositions(max_length, dim)
    return TransformerLM(
        embedding := TokenEmbedding(vocab_size, dim, positions, dropout, scale=1.0),
        [
            EncoderBlock(
                MultiHeadAttention(dim, num_heads),
                _gelu_network(dim, hidden_dim, approximate="tanh"),
                around(),
                around(),
            )
            for _ in range(num_layers)
        ],
        nn.LayerNorm(dim, eps),
        output_layer(embedding, tied, bias=False),
    )


def llama(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    num_key_heads: int,
    hidden_dim: int,
    num_layers: int,
    base: float = 10_000.0,
    eps: float = 1e-5,
    dropout: float = 0.0,
    tied: bool = False,
    look_up: Callable[..., Tensor] | None = None,
) -> TransformerLM:
    """Build Llama, the language model of Touvron et al. (2023), Section 2.2.

    Unlike `decoder_only`, it rotates queries and keys instead of adding positions, lets
    heads share keys, does not scale embeddings, and has RMS norms, gated feed-forward
    networks and no biases.
    """

    def attention() -> GroupedQueryAttention:
        positions = RotaryPositions(head_width(dim, num_heads), base)
        return GroupedQueryAttention(dim, num_heads, num_key_heads, positions, look_up)

    def around() -> Residual:
        return Residual(RMSNorm(dim, eps), dropout, pre_norm=True)

    return TransformerLM(
        embedding := TokenEmbedding(vocab_size, dim, NoPositions(), dropout, scale=1.0),
        [
            EncoderBlock(attention(), SwiGLU(dim, hidden_dim), around(), around())
            for _ in range(num_layers)
        ],
        RMSNorm(dim, eps),
        output_layer(embedding, tied, bias=False),
    )


def attention_only(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    num_layers: int,
    positions: nn.Module | None = None,
) -> TransformerLM:
    """Build a language model without feed-forward networks, for analysis.

    Elhage et al. (2021) study such models. Unlike theirs, this one has norms, and
    rotary positions unless others are given; otherwise it is a `llama` whose heads do
    not share keys.
    """

    def attention() -> GroupedQueryAttention:
        turn = (
            RotaryPositions(head_width(dim, num_heads)) if positions is None else None
        )
        return GroupedQueryAttention(dim, num_heads, num_heads, turn)

    def around() -> Residual:
        return Residual(RMSNorm(dim), 0.0, pre_norm=True)

    added = NoPositions() if positions is None else positions
    return TransformerLM(
        embedding := TokenEmbedding(vocab_size, dim, added),
        [AttentionBlock(attention(), around()) for _ in range(num_layers)],
        RMSNorm(dim),
        output_layer(embedding, tied=False, bias=False),
    )


def bert(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    max_length: int,
    num_segments: int = 2,
    eps: float = 1e-12,
    dropout: float = 0.0,
) -> TransformerEncoder:
    """Build BERT without output layers, the encoder of Devlin et al. (2019), Section 3.

    Unlike `encoder_only`, it has learned positions, embeds which of two texts a token
    is in, normalizes embeddings instead of scaling them, uses GELU instead of ReLU, and
    is post-norm.
    """

    def around() -> Residual:
        return Residual(nn.LayerNorm(dim, eps), dropout, pre_norm=False)

    return TransformerEncoder(
        SegmentEmbedding(
            vocab_size,
            num_segments,
            dim,
            LearnedPositions(max_length, dim),
            nn.LayerNorm(dim, eps),
            dropout,
        ),
        [
            EncoderBlock(
                MultiHeadAttention(dim, num_heads),
                _gelu_network(dim, hidden_dim, approximate="none"),
                around(),
                around(),
            )
            for _ in range(num_layers)
        ],
        nn.Identity(),
    )


def _gelu_network(dim: int, hidden_dim: int, approximate: str) -> nn.Sequential:
    """Build a feed-forward network with GELU (Hendrycks and Gimpel, 2016)."""
    return nn.Sequential(
        nn.Linear(dim, hidden_dim),
        nn.GELU(approximate),
        nn.Linear(hidden_dim, dim),
    )
