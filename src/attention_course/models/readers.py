"""Builders of classifiers, taggers and captioners: models that read text or images.

Translators are in `recurrent` and `transformers`.
"""

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
    """Build a sentence classifier: a recurrent encoder and attention pooling.

    With `look_up_words`, the states decide the weights, the weights average the
    embeddings, and a hidden layer combines the words that were found.
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
    """Build a model that labels every token."""
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
    """Build a model that labels every frame of `frame_dim` numbers."""
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
    """Build an image classifier that attends to one region and names what is there.

    An image has `channels` numbers per pixel and at most `grid_size` cells. The cells'
    features and the query are `output_dim` wide; the features of the first convolution
    are half as wide.
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
    """Build an image captioner: a grid of features with Bahdanau's decoder.

    Xu et al. (2015). The grid is the same as in `image_classifier`, so the score's keys
    are `output_dim` wide.
    """
    encoder = GridEncoder(channels, output_dim // 2, output_dim, grid_size)
    return EncoderDecoder(
        encoder,
        BahdanauDecoder(target_size, embedding_dim, hidden_dim, output_dim, score),
    )
