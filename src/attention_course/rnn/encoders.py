"""Recurrent encoders: bidirectional RNNs, GRUs and LSTMs over padded batches.

They read token ids (`RNNEncoder`) or frames of measurements (`FrameEncoder`).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.checks import check_width
from attention_course.fast.dropout import Dropout
from attention_course.seq2seq import Encoded, source_mask

Cell = type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]


def reverse_padded(
    x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B S D"]:
    """Reverse each sentence within its own length; padding stays where it is.

    Args:
        x: a padded batch.
        lengths: tokens in each sentence.

    Returns:
        y with y[b, s] = x[b, lengths[b] - 1 - s] on tokens.
    """
    positions = torch.arange(x.size(1), device=x.device)
    last = lengths.to(x.device)[:, None] - 1
    index = torch.where(positions <= last, last - positions, positions)  # (B, S)
    return x.gather(1, index[..., None].expand_as(x))


def at_end(
    x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B D"]:
    """Select the vector of each sentence's last token.

    In a padded batch, that is not x[:, -1].

    Args:
        x: a padded batch.
        lengths: tokens in each sentence.

    Returns:
        x[b, lengths[b] - 1].
    """
    last = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(-1))
    return x.gather(1, last)[:, 0]


class RNNStack(nn.Module):
    r"""Recurrent layers over a sequence of vectors, in one direction or in both.

    .. math:: h_s = [\overrightarrow{h}_s; \overleftarrow{h}_s]

    Bahdanau et al. (2015), A.2.1. Each layer reads the states of the layer below it;
    for an LSTM, these are h, and its cells c stay inside. Padding changes neither the
    states on tokens nor the final one: in the forward direction, padding comes after
    the tokens; for the backward direction, each sentence is reversed within its own
    length.

    Args:
        input_dim: width of the vectors.
        hidden_dim: width of a state, per direction.
        num_layers: number of layers.
        bidirectional: read backward as well; the states are then twice as wide.
        cell: the kind of layer: `nn.RNN` (Elman's), `nn.GRU` or `nn.LSTM`.
        dropout: share of each layer's input that is dropped in training.

    Raises:
        ValueError: fewer than 1 layer.
    """

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        num_layers: int = 1,
        bidirectional: bool = True,
        cell: Cell = nn.GRU,
        dropout: float = 0.0,
    ):
        super().__init__()
        if num_layers < 1:
            raise ValueError(
                f"the encoder has at least 1 layer, got num_layers {num_layers}"
            )
        self.dropout = Dropout(dropout)
        self.output_dim = 2 * hidden_dim if bidirectional else hidden_dim
        widths = [input_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            cell(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            cell(width, hidden_dim, batch_first=True)
            for width in widths
            if bidirectional
        )

    def forward(
        self, states: Float[Tensor, "B S input"], lengths: Int[Tensor, " B"]
    ) -> Encoded:
        """Read a padded batch.

        Args:
            states: the input of the lowest layer, one vector per token.
            lengths: tokens in each sentence.

        Returns:
            The top layer's states; its final state, which is the forward state at each
            sentence's last token (concatenated with the backward state at its first);
            the mask.
        """
        mask = source_mask(states, lengths)
        lengths = lengths.to(states.device)  # once, if on another device
        for layer, forwards in enumerate(self.forwards):
            below = self.dropout(states)
            states, _ = forwards(below)
            final = at_end(states, lengths)
            if self.backwards:
                turned, _ = self.backwards[layer](reverse_padded(below, lengths))
                back = reverse_padded(turned, lengths)
                states = torch.cat([states, back], dim=-1)  # (B, S, E)
                final = torch.cat([final, at_end(turned, lengths)], dim=-1)  # (B, E)
        return Encoded(states, final, mask)


class RNNEncoder(nn.Module):
    """Encode a source of tokens with an embedding and an `RNNStack`.

    Cho et al. (2014), Section 2.2; in both directions, Bahdanau et al. (2015), Section
    3.2.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: see `RNNStack`.
        bidirectional: see `RNNStack`.
        cell: see `RNNStack`.
        dropout: see `RNNStack`.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        hidden_dim: int,
        num_layers: int = 1,
        bidirectional: bool = True,
        cell: Cell = nn.GRU,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.layers = RNNStack(
            embedding_dim, hidden_dim, num_layers, bidirectional, cell, dropout
        )
        self.output_dim = self.layers.output_dim

    def forward(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]
    ) -> Encoded:
        """Read a padded batch of token ids. See `RNNStack.forward`."""
        return self.layers(self.embedding(source), lengths)


class FrameEncoder(nn.Module):
    """Encode a source of measurements, such as frames of speech.

    The model is a linear map and an `RNNStack`. Graves and Schmidhuber (2005) use a
    bidirectional network that reads one frame at a time.

    Args:
        frame_dim: numbers per frame.
        embedding_dim: width of the vector to which a frame is mapped.
        hidden_dim: width of a state, per direction.
        num_layers: see `RNNStack`.
        bidirectional: see `RNNStack`.
        cell: see `RNNStack`.
    """

    def __init__(
        self,
        frame_dim: int,
        embedding_dim: int,
        hidden_dim: int,
        num_layers: int = 1,
        bidirectional: bool = True,
        cell: Cell = nn.GRU,
    ):
        super().__init__()
        self.embedding = nn.Linear(frame_dim, embedding_dim)
        self.layers = RNNStack(
            embedding_dim, hidden_dim, num_layers, bidirectional, cell
        )
        self.output_dim = self.layers.output_dim

    def forward(
        self, source: Float[Tensor, "B S frame"], lengths: Int[Tensor, " B"]
    ) -> Encoded:
        """Read a padded batch of frames. See `RNNStack.forward`."""
        check_width(source, self.embedding.in_features)
        return self.layers(self.embedding(source), lengths)
