"""Builders: sizes in, an untrained model out. All recurrent ones but `gnmt` share one encoder and its arguments."""

from torch import nn

from attention_course.gnmt import GNMTDecoder, GNMTEncoder
from attention_course.rnn import BahdanauDecoder, Cell, ContextDecoder, FinalStateDecoder, LuongDecoder, RNNEncoder
from attention_course.scores import Score
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import SinusoidalPositions, TransformerDecoder, TransformerEncoder, TransformerLM
from attention_course.windows import LocalM, LocalP


def final_state(
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """Build the bottleneck: a decoder that is started with the source's final state.

    Args:
        source_size: tokens in the source vocabulary.
        target_size: tokens in the target vocabulary.
        embedding_dim: width of an embedding.
        hidden_dim: width of a decoder state, and of an encoder state per direction.
        num_layers: layers of the encoder.
        cell: kind of the encoder's layers; the decoder has GRUs.
        dropout: share of embeddings, of what the encoder's layers and the output map read, that training drops.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout)
    return EncoderDecoder(
        encoder, FinalStateDecoder(target_size, embedding_dim, hidden_dim, encoder.output_dim, dropout)
    )


def context_every_step(
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """Build a decoder that is handed the source's final state at every step. Arguments as in `final_state`."""
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout)
    return EncoderDecoder(encoder, ContextDecoder(target_size, embedding_dim, hidden_dim, encoder.output_dim, dropout))


def bahdanau(
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """Build a decoder that asks before it updates.

    Args:
        source_size: tokens in the source vocabulary.
        target_size: tokens in the target vocabulary.
        embedding_dim: width of an embedding.
        hidden_dim: width of a decoder state, and of an encoder state per direction.
        score: compares queries of width `hidden_dim` with keys of width `2 * hidden_dim`.
        num_layers: layers of the encoder.
        cell: kind of the encoder's layers; the decoder has GRUs.
        dropout: share of embeddings, of what the encoder's layers and the output map read, that training drops.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout)
    decoder = BahdanauDecoder(target_size, embedding_dim, hidden_dim, encoder.output_dim, score, dropout)
    return EncoderDecoder(encoder, decoder)


def luong(
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    window: LocalM | LocalP | None = None,
    input_feeding: bool = False,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """Build a decoder that updates before it asks.

    Args:
        source_size: tokens in the source vocabulary.
        target_size: tokens in the target vocabulary.
        embedding_dim: width of an embedding.
        hidden_dim: width of a decoder state, and of an encoder state per direction.
        score: compares queries of width `hidden_dim` with keys of width `2 * hidden_dim`.
        window: which source positions a query may attend to; None: all of them.
        input_feeding: attach the last attentional vector to the next input.
        num_layers: layers of the encoder.
        cell: kind of the encoder's layers; the decoder has GRUs.
        dropout: share of embeddings, of what the encoder's layers and the output map read, that training drops.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout)
    decoder = LuongDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, score, window, input_feeding, dropout
    )
    return EncoderDecoder(encoder, decoder)


def gnmt(
    source_size: int, target_size: int, embedding_dim: int, hidden_dim: int, score: Score, num_layers: int = 3
) -> EncoderDecoder:
    """Build deep stacks with one attention, asked by the decoder's bottom layer.

    Args:
        source_size: tokens in the source vocabulary.
        target_size: tokens in the target vocabulary.
        embedding_dim: width of an embedding.
        hidden_dim: width of a state, in the encoder and in the decoder.
        score: compares queries of width `hidden_dim` with keys of the same width.
        num_layers: layers of the encoder, and of the decoder; at least 2.

    Returns:
        An untrained model.
    """
    encoder = GNMTEncoder(source_size, embedding_dim, hidden_dim, num_layers)
    decoder = GNMTDecoder(target_size, embedding_dim, hidden_dim, encoder.output_dim, score, num_layers)
    return EncoderDecoder(encoder, decoder)


def transformer(
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
    """Build a Transformer with sinusoidal positions.

    Args:
        source_size: tokens in the source vocabulary.
        target_size: tokens in the target vocabulary.
        dim: width of embeddings and states, on both sides.
        num_heads: attention heads; they divide `dim`.
        hidden_dim: width inside the feed-forward networks.
        num_layers: blocks, on each side.
        dropout: share that training drops of embeddings and of what a sub-layer adds.
        pre_norm: normalise what a sub-layer reads, instead of the sum.
        tied: use the target's table as embedding and as output map.

    Returns:
        An untrained model.
    """
    sizes = (dim, num_heads, hidden_dim, num_layers)
    encoder = TransformerEncoder(source_size, *sizes, SinusoidalPositions(dim), dropout, pre_norm)
    decoder = TransformerDecoder(target_size, *sizes, SinusoidalPositions(dim), dropout, pre_norm, tied)
    return EncoderDecoder(encoder, decoder)


def decoder_only(
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
    tied: bool = False,
) -> TransformerLM:
    """Build a language model with sinusoidal positions. Arguments as in `transformer`, with one vocabulary."""
    positions = SinusoidalPositions(dim)
    return TransformerLM(vocab_size, dim, num_heads, hidden_dim, num_layers, positions, dropout, pre_norm, tied)


def encoder_only(
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
) -> TransformerEncoder:
    """Build an encoder with sinusoidal positions. Arguments as in `transformer`, with one vocabulary."""
    positions = SinusoidalPositions(dim)
    return TransformerEncoder(vocab_size, dim, num_heads, hidden_dim, num_layers, positions, dropout, pre_norm)
