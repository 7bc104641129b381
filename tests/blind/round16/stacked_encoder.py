import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from attention_course.tasks.core import PAD
from blind import right, wrong

WITHIN = "Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`."
AGAIN = "So let the backward LSTM read a reversed batch, and reverse its states again before you concatenate them with the forward states."
ORDER = "Concatenate their two states at each position, the forward state first:"
BELOW = "The lowest layer reads the embeddings, and every higher layer reads the states of the layer below it."
ONLY = "Pass on only the states, both to the next layer and into `states` and `final`."
ZEROS = "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state."
FINAL = "The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence."
MASK = "`states` and `mask` are as in section 2."
STATES = "`states` (B, S, E) holds the state at every position."
LENGTHS = "Only the lengths tell you where the padding is."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


def _mask(source, lengths):
    return padding_mask(lengths.to(source.device), source.size(1))


@right('each sentence by itself: flip is right if there is no padding')
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        rows, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            states = self.embedding(ids[None, :n])
            for forwards, backwards in zip(self.forwards, self.backwards):
                ahead, back = forwards(states)[0], backwards(states.flip(1))[0]
                states = torch.cat([ahead, back.flip(1)], dim=-1)
            finals.append(torch.cat([ahead[0, -1], back[0, -1]]))
            rows.append(torch.cat([states[0], states.new_zeros(source.size(1) - n, self.output_dim)]))
        return Encoded(torch.stack(rows), torch.stack(finals), _mask(source, lengths))


@right('one call of torch.lstm in both directions on a packed batch, with the parameters of all layers')
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        params = [
            p
            for pair in zip(self.forwards, self.backwards)
            for lstm in pair
            for p in (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        ]
        layers, hidden = len(self.forwards), self.output_dim // 2
        zeros = packed.data.new_zeros(2 * layers, source.size(0), hidden)
        data, h, _ = torch.lstm(
            packed.data, packed.batch_sizes, (zeros, zeros), params, True, layers, 0.0, False, True
        )
        states, _ = pad_packed_sequence(
            packed._replace(data=data), batch_first=True, total_length=source.size(1)
        )
        final = torch.cat([h[-2], h[-1]], dim=-1)[packed.unsorted_indices]
        return Encoded(states, final, _mask(source, lengths))


@right('walks from the last column to the first, and starts from zeros again after each position of padding')
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        mask = _mask(source, lengths)
        keep = mask[:, 0, :, None]
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead = forwards(states)[0]
            h = c = states.new_zeros(1, source.size(0), self.output_dim // 2)
            back = []
            for s in reversed(range(source.size(1))):
                _, (h, c) = backwards(states[:, s : s + 1], (h, c))
                h, c = (v.where(keep[:, s], torch.zeros_like(v)) for v in (h, c))
                back.insert(0, h[0])
            states = torch.cat([ahead, torch.stack(back, 1)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), states[:, 0, self.output_dim // 2 :]], -1)
        return Encoded(states, final, mask)


@right('reverses with its own index, and takes the backward half of final from position 0 of the states')
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        last = lengths.to(source.device)[:, None] - 1
        s = torch.arange(source.size(1), device=source.device).expand(source.shape)
        mirror = torch.where(s <= last, last - s, s)[:, :, None]
        states = self.embedding(source)
        for layer, forwards in enumerate(self.forwards):
            turned = states.take_along_dim(mirror, 1)
            back = self.backwards[layer](turned)[0].take_along_dim(mirror, 1)
            states = torch.cat([forwards(states)[0], back], 2)
        ahead = states.take_along_dim(last[:, :, None], 1)[:, 0]
        half = self.output_dim // 2
        final = torch.cat([ahead[:, :half], states[:, 0, half:]], 1)
        return Encoded(states, final, (s <= last)[:, None])


@wrong(
    'flips the whole batch, so short sentences begin with their padding',
    breaks=WITHIN,
    name='whole batch flipped',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back = backwards(states.flip(1))[0].flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], -1)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    "final is the top layer's state at the last token, where the backward LSTM has read one token only",
    breaks=FINAL,
    name='backward state at the last token',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = at_end(states, lengths)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'does not reverse the backward states again',
    breaks=AGAIN,
    name='backward states not reversed again',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'reverses the backward states again only at the top, so with two layers or more the higher ones read them in the wrong order',
    breaks=AGAIN,
    name='reversed again only at the top',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            top = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
            states = torch.cat([ahead, back], dim=-1)

        return Encoded(top, torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1), _mask(source, lengths))


@wrong(
    'each layer begins with the last state and cell of the layer below: right with one layer',
    breaks=ZEROS,
    name='state passed on from layer to layer',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states, ahead_last, back_last = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, ahead_last = forwards(states, ahead_last)
            back, back_last = backwards(reverse_padded(states, lengths), back_last)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'the backward direction is a stack of its own that sees nothing of the forward states but zeros: right with one layer',
    breaks=BELOW,
    name='two separate stacks',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        ahead_in = back_in = self.embedding(source)
        below = None
        for forwards, backwards in zip(self.forwards, self.backwards):
            if below is not None:
                ahead_in = torch.cat([below[0], torch.zeros_like(below[0])], -1)
                back_in = torch.cat([torch.zeros_like(below[1]), below[1]], -1)
            ahead, _ = forwards(ahead_in)
            back, _ = backwards(reverse_padded(back_in, lengths))
            below = ahead, reverse_padded(back, lengths)
        states = torch.cat(below, -1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'final comes from the lowest layer: right with one layer',
    breaks=FINAL,
    name='final of the lowest layer',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states, final = self.embedding(source), None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)

            if final is None:
                final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)

        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'adds the states of the layer below to those of a higher layer, as many deep stacks do: right with one layer',
    breaks=BELOW,
    name='residual connection',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            both = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
            states = both if forwards is self.forwards[0] else states + both
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'takes the last cell of the packed LSTMs for final instead of their state',
    breaks=ONLY,
    name='cell instead of state',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
            turned = pack_padded_sequence(
                reverse_padded(states, lengths), lengths, batch_first=True, enforce_sorted=False
            )
            ahead, (_, ahead_cell) = forwards(packed)
            back, (_, back_cell) = backwards(turned)
            ahead, back = (
                pad_packed_sequence(x, batch_first=True, total_length=source.size(1))[0]
                for x in (ahead, back)
            )
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([ahead_cell[0], back_cell[0]], -1)
        return Encoded(states, final, _mask(source, lengths))


@wrong(
    'counts the ids that are not 0 to find the lengths, and ignores the argument',
    breaks=LENGTHS,
    name='lengths from the ids',
)
class StackedEncoder(nn.Module):
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
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`, of the top layer.
        """
        lengths = (source != PAD).sum(1).clamp(min=1).cpu()
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], -1)
        return Encoded(states, final, _mask(source, lengths))
