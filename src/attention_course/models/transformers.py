"""Builders of Transformers: blocks, encoder, decoder, encoder-decoder, decoder-only.

GPT-2, Llama and BERT are in `families`.
"""

from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    PatchEmbedding,
    Residual,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
    TransformerLM,
)


def encoder_block(
    dim: int,
    num_heads: int,
    hidden_dim: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
) -> EncoderBlock:
    """Build a layer of a Transformer's encoder or of a decoder-only model."""
    return EncoderBlock(
        self_attention=MultiHeadAttention(dim, num_heads),
        feed_forward=FeedForward(dim, hidden_dim),
        around_self=Residual(nn.LayerNorm(dim), dropout, pre_norm),
        around_feed_forward=Residual(nn.LayerNorm(dim), dropout, pre_norm),
    )


def decoder_block(
    dim: int,
    num_heads: int,
    hidden_dim: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
) -> DecoderBlock:
    """Build a layer of a Transformer's decoder."""
    return DecoderBlock(
        self_attention=MultiHeadAttention(dim, num_heads),
        cross_attention=MultiHeadAttention(dim, num_heads),
        feed_forward=FeedForward(dim, hidden_dim),
        around_self=Residual(nn.LayerNorm(dim), dropout, pre_norm),
        around_cross=Residual(nn.LayerNorm(dim), dropout, pre_norm),
        around_feed_forward=Residual(nn.LayerNorm(dim), dropout, pre_norm),
    )


def encoder_only(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    positions: nn.Module | None = None,
    dropout: float = 0.0,
    pre_norm: bool = True,
) -> TransformerEncoder:
    """Build a Transformer's encoder, which can also be a body like BERT's."""
    return TransformerEncoder(
        _embedding(vocab_size, dim, positions, dropout),
        [
            encoder_block(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        ],
        _last_norm(dim, pre_norm),
    )


def patch_encoder(
    *,
    channels: int,
    patch_size: int,
    grid_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
) -> TransformerEncoder:
    """Build a pre-norm Transformer encoder that reads an image patch by patch.

    Dosovitskiy et al. (2021). An image has `channels` numbers per pixel and at most
    `grid_size` patches of `patch_size` by `patch_size` pixels.
    """
    return TransformerEncoder(
        PatchEmbedding(channels, patch_size, grid_size, dim),
        [encoder_block(dim, num_heads, hidden_dim) for _ in range(num_layers)],
        _last_norm(dim, pre_norm=True),
    )


def transformer_decoder(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    positions: nn.Module | None = None,
    dropout: float = 0.0,
    pre_norm: bool = True,
    tied: bool = False,
) -> TransformerDecoder:
    """Build a Transformer's decoder for any encoder whose states are D wide."""
    return TransformerDecoder(
        embedding := _embedding(vocab_size, dim, positions, dropout),
        [
            decoder_block(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        ],
        _last_norm(dim, pre_norm),
        output_layer(embedding, tied),
    )


def decoder_only(
    *,
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    positions: nn.Module | None = None,
    dropout: float = 0.0,
    pre_norm: bool = True,
    tied: bool = False,
) -> TransformerLM:
    """Build a language model: a decoder-only Transformer."""
    return TransformerLM(
        embedding := _embedding(vocab_size, dim, positions, dropout),
        [
            encoder_block(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        ],
        _last_norm(dim, pre_norm),
        output_layer(embedding, tied),
    )


def transformer(
    *,
    source_size: int,
    target_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
    tied: bool = False,
) -> EncoderDecoder:
    """Build a translator: encoder and decoder, with sinusoidal positions.

    `dim` is the width D of all embeddings and states, `hidden_dim` the width inside the
    feed-forward networks. For all arguments, see `models`.
    """
    encoder = encoder_only(
        vocab_size=source_size,
        dim=dim,
        num_heads=num_heads,
        hidden_dim=hidden_dim,
        num_layers=num_layers,
        dropout=dropout,
        pre_norm=pre_norm,
    )
    decoder = transformer_decoder(
        vocab_size=target_size,
        dim=dim,
        num_heads=num_heads,
        hidden_dim=hidden_dim,
        num_layers=num_layers,
        dropout=dropout,
        pre_norm=pre_norm,
        tied=tied,
    )
    return EncoderDecoder(encoder, decoder)


def _embedding(
    vocab_size: int, dim: int, positions: nn.Module | None, dropout: float
) -> TokenEmbedding:
    if positions is None:
        positions = SinusoidalPositions(dim)
    return TokenEmbedding(vocab_size, dim, positions, dropout)


def _last_norm(dim: int, pre_norm: bool) -> nn.Module:
    return nn.LayerNorm(dim) if pre_norm else nn.Identity()


def output_layer(embedding: TokenEmbedding, tied: bool, bias: bool = True) -> nn.Linear:
    """Build the output layer.

    For weight tying, see Press and Wolf (2017); Vaswani et al. (2017), Section 3.4.
    """
    vocab_size, dim = embedding.weight.shape
    head = nn.Linear(dim, vocab_size, bias)
    if tied:
        head.weight = embedding.table.weight
    return head
