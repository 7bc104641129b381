"""Builders of classifiers, taggers and captioners: models that read text or images."""

from torch import nn

from attention_course.pooling import AttentionPooling, Classifier, Labeller
from attention_course.rnn import BahdanauDecoder, Cell, FrameEncoder, RNNEncoder
from attention_course.scores import Score
from attention_course.seq2seq import EncoderDecoder
from attention_course.vision import GridEncoder


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
