"""Answers to `stacked_encoder`."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    """The at_end of section 1."""
    return x[torch.arange(x.size(0)), lengths - 1]


@right('steps backwards over the padded batch with a cell, and keeps state and cell at zero on padding')
class StackedEncoder_right1(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        for forwards, backwards in zip(self.forwards, self.backwards):
            there, _ = forwards(states)
            h = c = there.new_zeros(source.size(0), self.output_dim // 2)
            back = []
            for t in range(source.size(1) - 1, -1, -1):
                h, c = torch.lstm_cell(states[:, t], (h, c), *backwards.all_weights[0])
                on = mask[:, 0, t, None]
                h, c = h.masked_fill(~on, 0), c.masked_fill(~on, 0)
                back.insert(0, h)
            states = torch.cat([there, torch.stack(back, dim=1)], dim=-1)
        final = torch.cat([at_end(there, lengths), h], dim=-1)
        return Encoded(states, final, mask)


@right('reads every sentence alone, cut to its own length, and flips it for the backward network')
class StackedEncoder_right2(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states, final = [], []
        half = self.output_dim // 2
        for row, n in zip(source, lengths.tolist()):
            x = self.embedding(row[:n])[None]
            for forwards, backwards in zip(self.forwards, self.backwards):
                x = torch.cat([forwards(x)[0], backwards(x.flip(1))[0].flip(1)], dim=2)
            final.append(torch.cat([x[0, -1, :half], x[0, 0, half:]]))
            states.append(F.pad(x[0], (0, 0, 0, source.size(1) - n)))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(states), torch.stack(final), mask)


@right('packs both directions and takes the last states of the top layer from the networks')
class StackedEncoder_right3(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        def read(rnn, x):
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, (last, _) = rnn(packed)
            return pad_packed_sequence(out, batch_first=True, total_length=source.size(1))[0], last[0]

        states = self.embedding(source)
        for i in range(len(self.forwards)):
            there, last = read(self.forwards[i], states)
            back, first = read(self.backwards[i], reverse_padded(states, lengths))
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat([last, first], dim=-1), mask)


@right('reverses with its own gather, and takes the backward half of the final state from position 0')
class StackedEncoder_right4(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        n = lengths.to(source.device)[:, None]
        place = torch.arange(source.size(1), device=source.device)
        swap = torch.where(place < n, n - 1 - place, place)

        def turned(x):
            return x.take_along_dim(swap[..., None], dim=1)

        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            states = torch.cat([forwards(states)[0], turned(backwards(turned(states))[0])], -1)
        half = states.size(-1) // 2
        final = torch.cat([at_end(states, lengths)[:, :half], states[:, 0, half:]], -1)
        return Encoded(states, final, (place < n)[:, None])


@wrong(
    'Reverses the whole batch with flip, so a short sentence begins with its padding.',
    'Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`.',
    'padding is read first',
)
class StackedEncoder_wrong1(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            there, back = forwards(states)[0], backwards(states.flip(1))[0]
            states = torch.cat([there, back.flip(1)], -1)
        final = torch.cat([at_end(there, lengths), back[:, -1]], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Takes both halves of the final state at the last token, where the backward network has read one token only.',
    'The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.',
    'backward state at last token',
)
class StackedEncoder_wrong2(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            back = backwards(reverse_padded(states, lengths))[0]
            states = torch.cat([forwards(states)[0], reverse_padded(back, lengths)], -1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'Does not reverse the backward states again.',
    'So let the backward LSTM read a reversed batch, and reverse its states again before you concatenate them with the forward states.',
    'backward states stay reversed',
)
class StackedEncoder_wrong3(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            back = backwards(reverse_padded(states, lengths))[0]
            states = torch.cat([forwards(states)[0], back], -1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'Puts the backward state first.',
    'Concatenate their two states at each position, the forward state first:',
    'backward state comes first',
)
class StackedEncoder_wrong4(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            there = forwards(states)[0]
            back = backwards(reverse_padded(states, lengths))[0]
            states = torch.cat([reverse_padded(back, lengths), there], -1)
        final = torch.cat([at_end(back, lengths), at_end(there, lengths)], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Reverses the batch once for all backward networks, so in higher layers they read reversed backward states next to forward states in the original order.',
    'The lowest layer reads the embeddings, and every higher layer reads the states of the layer below it.',
    'halves misaligned in higher layers',
)
class StackedEncoder_wrong5(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        turned = reverse_padded(states, lengths)
        for forwards, backwards in zip(self.forwards, self.backwards):
            there, back = forwards(states)[0], backwards(turned)[0]
            states = torch.cat([there, reverse_padded(back, lengths)], -1)
            turned = torch.cat([there, back], -1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Starts a higher layer from the last state and cell of the layer below.',
    'Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.',
    'state passed between layers',
)
class StackedEncoder_wrong6(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states, first, second = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            there, first = forwards(states, first)
            back, second = backwards(reverse_padded(states, lengths), second)
            states = torch.cat([there, reverse_padded(back, lengths)], -1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Keeps the backward half of the final state from the lowest layer.',
    'The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.',
    'backward half from lowest layer',
)
class StackedEncoder_wrong7(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states, whole = self.embedding(source), None
        for forwards, backwards in zip(self.forwards, self.backwards):
            there = forwards(states)[0]
            back = backwards(reverse_padded(states, lengths))[0]
            if whole is None:
                whole = at_end(back, lengths)
            states = torch.cat([there, reverse_padded(back, lengths)], -1)
        final = torch.cat([at_end(there, lengths), whole], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Uses flip if all sentences are equally long, although the batch may be padded further.',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'flip for equal lengths',
)
class StackedEncoder_wrong8(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        def turned(x):
            return x.flip(1) if lengths.min() == lengths.max() else reverse_padded(x, lengths)

        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            there, back = forwards(states)[0], turned(backwards(turned(states))[0])
            states = torch.cat([there, back], -1)
        final = torch.cat([at_end(there, lengths), back[:, 0]], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Adds dropout between the layers, which changes the result in train mode if there are two layers or more.',
    'The lowest layer reads the embeddings, and every higher layer reads the states of the layer below it.',
    'dropout between the layers',
)
class StackedEncoder_wrong9(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for i, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards)):
            if i > 0:
                states = F.dropout(states, 0.1, self.training)
            there = forwards(states)[0]
            back = backwards(reverse_padded(states, lengths))[0]
            states = torch.cat([there, reverse_padded(back, lengths)], -1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Cuts the batch to its longest sentence first, so states and mask have fewer positions than the source.',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'batch cut to longest sentence',
)
class StackedEncoder_wrong10(nn.Module):
    """Read a source with a stack of LSTMs, in both directions.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, per direction.
        num_layers: layers.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        source = source[:, : int(lengths.max())]
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            there = forwards(states)[0]
            back = backwards(reverse_padded(states, lengths))[0]
            states = torch.cat([there, reverse_padded(back, lengths)], -1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))
