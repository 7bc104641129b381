"""Builders of recurrent encoder-decoders: final state, Bahdanau, Luong, GNMT."""

from torch import nn

from attention_course.rnn import (
    BahdanauDecoder,
    Cell,
    FinalStateDecoder,
    GNMTDecoder,
    GNMTEncoder,
    LocalM,
    LocalP,
    LuongDecoder,
    RNNEncoder,
)
from attention_course.scores import Score
from attention_course.seq2seq import EncoderDecoder


def final_state(
    *,
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
    every_step: bool = False,
) -> EncoderDecoder:
    """Build the bottleneck: a decoder that gets only the source's final state.

    The decoder gets it once, at the start, or with `every_step` again at every step.
    """
    encoder = RNNEncoder(
        source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout
    )
    decoder = FinalStateDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, every_step, dropout
    )
    return EncoderDecoder(encoder, decoder)


def context_every_step(
    *,
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """Build a decoder that gets the source's final state at every step."""
    return final_state(
        source_size=source_size,
        target_size=target_size,
        embedding_dim=embedding_dim,
        hidden_dim=hidden_dim,
        num_layers=num_layers,
        cell=cell,
        dropout=dropout,
        every_step=True,
    )


def bahdanau(
    *,
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """Build a translator whose decoder attends before it updates its state.

    This is the order of Bahdanau et al. (2015). The score compares queries of width
    `hidden_dim` with keys of width 2 `hidden_dim`; for all arguments, see `models`.
    """
    encoder = RNNEncoder(
        source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout
    )
    decoder = BahdanauDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, score, dropout
    )
    return EncoderDecoder(encoder, decoder)


def luong(
    *,
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
    """Build a translator whose decoder attends after it updates its state.

    This is the order of Luong et al. (2015). The score compares queries of width
    `hidden_dim` with keys of width 2 `hidden_dim`; for all arguments, see `models`.
    `window` says which source positions a query may attend to; None: all of them. With
    `input_feeding`, the last attentional vector is concatenated with the next input.
    """
    encoder = RNNEncoder(
        source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout
    )
    decoder = LuongDecoder(
        target_size,
        embedding_dim,
        hidden_dim,
        encoder.output_dim,
        score,
        window,
        input_feeding,
        dropout,
    )
    return EncoderDecoder(encoder, decoder)


def gnmt(
    *,
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    num_layers: int = 3,
) -> EncoderDecoder:
    """Build deep stacks with one attention, which the decoder's bottom layer queries.

    The encoder's states are `hidden_dim` wide, like the queries; there are at least 2
    layers.
    """
    encoder = GNMTEncoder(source_size, embedding_dim, hidden_dim, num_layers)
    decoder = GNMTDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, score, num_layers
    )
    return EncoderDecoder(encoder, decoder)
