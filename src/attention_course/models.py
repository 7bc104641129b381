"""Builders: sizes in, an untrained model out. The recurrent translators share an
encoder, but for `gnmt`."""

from torch import nn

from attention_course.pooling import AttentionPooling, Classifier, Labeller
from attention_course.rnn import (
    BahdanauDecoder,
    Cell,
    FinalStateDecoder,
    FrameEncoder,
    GNMTDecoder,
    GNMTEncoder,
    LocalM,
    LocalP,
    LuongDecoder,
    RNNEncoder,
)
from attention_course.scores import Score
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import (
    SinusoidalPositions,
    TransformerDecoder,
    TransformerEncoder,
    TransformerLM,
)
from attention_course.vision import GridEncoder


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
        dropout: share of embeddings, of what the encoder's layers and the output map
            read, that training drops.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(
        source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout
    )
    return EncoderDecoder(
        encoder,
        FinalStateDecoder(
            target_size,
            embedding_dim,
            hidden_dim,
            encoder.output_dim,
            dropout=dropout,
        ),
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
    """Build a decoder that is handed the source's final state at every step. Arguments
    as in `final_state`."""
    encoder = RNNEncoder(
        source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout
    )
    return EncoderDecoder(
        encoder,
        FinalStateDecoder(
            target_size,
            embedding_dim,
            hidden_dim,
            encoder.output_dim,
            every_step=True,
            dropout=dropout,
        ),
    )


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
        score: compares queries of width `hidden_dim` with keys of width `2 *
            hidden_dim`.
        num_layers: layers of the encoder.
        cell: kind of the encoder's layers; the decoder has GRUs.
        dropout: share of embeddings, of what the encoder's layers and the output map
            read, that training drops.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(
        source_size, embedding_dim, hidden_dim, num_layers, cell=cell, dropout=dropout
    )
    decoder = BahdanauDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, score, dropout
    )
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
        score: compares queries of width `hidden_dim` with keys of width `2 *
            hidden_dim`.
        window: which source positions a query may attend to; None: all of them.
        input_feeding: attach the last attentional vector to the next input.
        num_layers: layers of the encoder.
        cell: kind of the encoder's layers; the decoder has GRUs.
        dropout: share of embeddings, of what the encoder's layers and the output map
            read, that training drops.

    Returns:
        An untrained model.
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
    source_size: int,
    target_size: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    num_layers: int = 3,
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
    decoder = GNMTDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, score, num_layers
    )
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
    encoder = TransformerEncoder(
        source_size, *sizes, SinusoidalPositions(dim), dropout, pre_norm
    )
    decoder = TransformerDecoder(
        target_size, *sizes, SinusoidalPositions(dim), dropout, pre_norm, tied
    )
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
    """Build a language model with sinusoidal positions. Arguments as in `transformer`,
    with one vocabulary."""
    positions = SinusoidalPositions(dim)
    return TransformerLM(
        vocab_size,
        dim,
        num_heads,
        hidden_dim,
        num_layers,
        positions,
        dropout,
        pre_norm,
        tied,
    )


def encoder_only(
    vocab_size: int,
    dim: int,
    num_heads: int,
    hidden_dim: int,
    num_layers: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
) -> TransformerEncoder:
    """Build an encoder with sinusoidal positions. Arguments as in `transformer`, with
    one vocabulary."""
    positions = SinusoidalPositions(dim)
    return TransformerEncoder(
        vocab_size, dim, num_heads, hidden_dim, num_layers, positions, dropout, pre_norm
    )


def classifier(
    source_size: int,
    num_classes: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    look_up_words: bool = False,
    cell: Cell = nn.GRU,
) -> Classifier:
    """Build a reader that sums a sentence up in one look and names its class.

    Args:
        source_size: tokens in the source vocabulary.
        num_classes: V, classes to choose from.
        embedding_dim: width of an embedding.
        hidden_dim: width of the query, and of an encoder state per direction.
        score: compares a query of width `hidden_dim` with keys of width `2 *
            hidden_dim`.
        look_up_words: states say where to look, embeddings what is there, and a layer
            joins the words that were found.
        cell: kind of the encoder's layer.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, cell=cell)
    pooling = AttentionPooling(hidden_dim, score)
    if not look_up_words:
        return Classifier(encoder, pooling, nn.Linear(encoder.output_dim, num_classes))
    head = nn.Sequential(
        nn.Linear(embedding_dim, hidden_dim),
        nn.Tanh(),
        nn.Linear(hidden_dim, num_classes),
    )
    return Classifier(encoder, pooling, head, encoder.embedding)


def tagger(
    source_size: int,
    num_labels: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
) -> Labeller:
    """Build a reader that labels every token.

    Args:
        source_size: tokens in the source vocabulary.
        num_labels: V, labels to choose from.
        embedding_dim: width of an embedding.
        hidden_dim: width of an encoder state, per direction.
        num_layers: layers of the encoder.
        cell: kind of the encoder's layers.

    Returns:
        An untrained model.
    """
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, num_layers, cell=cell)
    return Labeller(encoder, nn.Linear(encoder.output_dim, num_labels))


def frame_labeller(
    frame_dim: int,
    num_labels: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
) -> Labeller:
    """Build a listener that labels every frame, of `frame_dim` numbers. Other arguments
    as in `tagger`."""
    encoder = FrameEncoder(frame_dim, embedding_dim, hidden_dim, num_layers, cell=cell)
    return Labeller(encoder, nn.Linear(encoder.output_dim, num_labels))


def image_classifier(
    grid_size: int, num_classes: int, output_dim: int, score: Score, channels: int = 1
) -> Classifier:
    """Build a viewer that focuses on one region of an image and names what is there.

    Args:
        grid_size: cells in an image's grid.
        num_classes: V, classes to choose from.
        output_dim: width of the query, and E of a cell's features; the first
            convolution's are half as wide.
        score: compares a query with keys, both of width `output_dim`.
        channels: C, numbers per pixel.

    Returns:
        An untrained model.
    """
    encoder = GridEncoder(channels, output_dim // 2, output_dim, grid_size)
    return Classifier(
        encoder, AttentionPooling(output_dim, score), nn.Linear(output_dim, num_classes)
    )


def captioner(
    grid_size: int,
    target_size: int,
    output_dim: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    channels: int = 1,
) -> EncoderDecoder:
    """Build a captioner: a grid of an image's features, and Bahdanau's decoder over it
    (Xu et al., 2015).

    Args:
        grid_size: cells in an image's grid.
        target_size: tokens in the target vocabulary.
        output_dim: E, width of a cell's features; the first convolution's are half as
            wide.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a decoder state.
        score: compares queries of width `hidden_dim` with keys of width `output_dim`.
        channels: C, numbers per pixel.

    Returns:
        An untrained model.
    """
    encoder = GridEncoder(channels, output_dim // 2, output_dim, grid_size)
    return EncoderDecoder(
        encoder,
        BahdanauDecoder(target_size, embedding_dim, hidden_dim, output_dim, score),
    )
