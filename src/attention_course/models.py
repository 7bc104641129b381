"""Builders: sizes in, an untrained model out.

Here numbers become modules; the classes of Transformers take finished ones. A model's
arguments are given by name, and a name means the same everywhere:

    source_size     tokens in the source's vocabulary
    target_size     V, tokens in the target's vocabulary; vocab_size, where there is one
    num_classes     V, classes to choose from; num_labels, where each token gets one
    embedding_dim   width of a token's embedding, in recurrent models
    hidden_dim      of a recurrent model, the width of a decoder's state and query, and
                    of an encoder's state per direction; of a Transformer, the width
                    inside its feed-forward networks
    dim             D, width of a Transformer's embeddings and states
    num_heads       H, heads of each attention; they divide D
    num_layers      L, layers of the encoder; of gnmt and of Transformers on both sides
    score           compares queries of width hidden_dim with the encoder's states, 2
                    hidden_dim wide where nothing else is said
    cell            kind of the encoder's recurrent layers; the decoders have GRUs
    positions       adds positions of width D; None: sines
    pre_norm        normalise what a sub-layer reads, instead of the sum
    tied            use the target's table as embedding and as output map
    dropout         share that training drops: of embeddings, of what recurrent layers
                    of the encoder and the output map read; in a Transformer of
                    embeddings and of what a sub-layer adds
"""

from torch import nn

from attention_course.attention import MultiHeadAttention
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
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Residual,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
    TransformerLM,
)
from attention_course.vision import GridEncoder

# Recurrent translators


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
    """Build the bottleneck: a decoder that hears only the source's final state.

    It hears it once, at the start, or with `every_step` again at every step.
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
    """Build a decoder that is handed the source's final state at every step."""
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
    """Build a decoder that asks before it updates."""
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
    """Build a decoder that updates before it asks.

    `window` says which source positions a query may attend to, None: all of them. With
    `input_feeding` the last attentional vector is attached to the next input.
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
    """Build deep stacks with one attention, asked by the decoder's bottom layer.

    The encoder's states are `hidden_dim` wide, as the queries are; there are at least 2
    layers.
    """
    encoder = GNMTEncoder(source_size, embedding_dim, hidden_dim, num_layers)
    decoder = GNMTDecoder(
        target_size, embedding_dim, hidden_dim, encoder.output_dim, score, num_layers
    )
    return EncoderDecoder(encoder, decoder)


# Transformers


def encoder_block(
    dim: int,
    num_heads: int,
    hidden_dim: int,
    dropout: float = 0.0,
    pre_norm: bool = True,
) -> EncoderBlock:
    """Build a layer of a Transformer's encoder, or of a language model."""
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
    """Build a Transformer's encoder, which is also a body such as BERT's."""
    return TransformerEncoder(
        _embedding(vocab_size, dim, positions, dropout),
        [
            encoder_block(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        ],
        _last_norm(dim, pre_norm),
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
    """Build a Transformer's decoder, for any encoder whose states are D wide."""
    return TransformerDecoder(
        embedding := _embedding(vocab_size, dim, positions, dropout),
        [
            decoder_block(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        ],
        _last_norm(dim, pre_norm),
        _head(embedding, tied),
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
    """Build a language model."""
    return TransformerLM(
        embedding := _embedding(vocab_size, dim, positions, dropout),
        [
            encoder_block(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        ],
        _last_norm(dim, pre_norm),
        _head(embedding, tied),
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
    """Build a translator out of an encoder and a decoder, with sines for positions."""
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


def _head(embedding: TokenEmbedding, tied: bool) -> nn.Linear:
    """Build an output map.

    One table at both ends: Press and Wolf (2017); Vaswani et al. (2017), Section 3.4.
    """
    vocab_size, dim = embedding.weight.shape
    head = nn.Linear(dim, vocab_size)
    if tied:
        head.weight = embedding.table.weight
    return head


# One answer for a source, or for each token


def classifier(
    *,
    source_size: int,
    num_classes: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    look_up_words: bool = False,
    cell: Cell = nn.GRU,
) -> Classifier:
    """Build a reader that sums a sentence up in one look and names its class.

    With `look_up_words`, states say where to look, embeddings what is there, and a
    layer joins the words that were found.
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
    *,
    source_size: int,
    num_labels: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
) -> Labeller:
    """Build a reader that labels every token."""
    encoder = RNNEncoder(source_size, embedding_dim, hidden_dim, num_layers, cell=cell)
    return Labeller(encoder, nn.Linear(encoder.output_dim, num_labels))


def frame_labeller(
    *,
    frame_dim: int,
    num_labels: int,
    embedding_dim: int,
    hidden_dim: int,
    num_layers: int = 1,
    cell: Cell = nn.GRU,
) -> Labeller:
    """Build a listener that labels every frame, of `frame_dim` numbers."""
    encoder = FrameEncoder(frame_dim, embedding_dim, hidden_dim, num_layers, cell=cell)
    return Labeller(encoder, nn.Linear(encoder.output_dim, num_labels))


# Images


def image_classifier(
    *,
    grid_size: int,
    num_classes: int,
    output_dim: int,
    score: Score,
    channels: int = 1,
) -> Classifier:
    """Build a viewer that focuses on one region of an image and names what is there.

    An image has `channels` numbers per pixel and at most `grid_size` cells. Their
    features, and the query, are `output_dim` wide; the first convolution's are half so.
    """
    encoder = GridEncoder(channels, output_dim // 2, output_dim, grid_size)
    return Classifier(
        encoder, AttentionPooling(output_dim, score), nn.Linear(output_dim, num_classes)
    )


def captioner(
    *,
    grid_size: int,
    target_size: int,
    output_dim: int,
    embedding_dim: int,
    hidden_dim: int,
    score: Score,
    channels: int = 1,
) -> EncoderDecoder:
    """Build a captioner: a grid of an image's features, and Bahdanau's decoder over it.

    Xu et al. (2015). The grid is that of `image_classifier`, so that the score's keys
    are `output_dim` wide.
    """
    encoder = GridEncoder(channels, output_dim // 2, output_dim, grid_size)
    return EncoderDecoder(
        encoder,
        BahdanauDecoder(target_size, embedding_dim, hidden_dim, output_dim, score),
    )
