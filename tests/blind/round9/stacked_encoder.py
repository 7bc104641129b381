import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    """Pick the vector of the last token of each sentence."""
    return x[torch.arange(x.size(0)), lengths - 1]


@right("packed sequences with enforce_sorted=False, final from the last states")
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        size = source.size(1)

        def read(rnn, x):
            packed = pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            out, (h, _) = rnn(packed)
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=size)
            return out, h[0]

        x = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            left, left_end = read(forwards, x)
            right_, right_end = read(backwards, reverse_padded(x, lengths))
            x = torch.cat([left, reverse_padded(right_, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), size)
        return Encoded(x, torch.cat([left_end, right_end], dim=-1), mask)


@right("the cells of the LSTMs by hand, a loop over positions that stops at each sentence's end")
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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

    @staticmethod
    def _read(rnn, x, alive, order):
        h = x.new_zeros(x.size(0), rnn.hidden_size)
        cell, states = h, [None] * x.size(1)
        for s in order:
            gates = x[:, s] @ rnn.weight_ih_l0.T + rnn.bias_ih_l0
            gates = gates + h @ rnn.weight_hh_l0.T + rnn.bias_hh_l0
            i, f, g, o = gates.chunk(4, dim=-1)
            new_cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            new_h = o.sigmoid() * new_cell.tanh()
            now = alive[:, s, None]
            cell, h = torch.where(now, new_cell, cell), torch.where(now, new_h, h)
            states[s] = h
        return torch.stack(states, dim=1), h

    def forward(self, source, lengths):
        there = lengths.to(source.device)
        positions = torch.arange(source.size(1), device=source.device)
        alive = positions < there[:, None]
        x = self.embedding(source)
        for a, b in zip(self.forwards, self.backwards):
            left, left_end = self._read(a, x, alive, range(len(positions)))
            right_, right_end = self._read(b, x, alive, reversed(range(len(positions))))
            x = torch.cat([left, right_], dim=-1)
        return Encoded(x, torch.cat([left_end, right_end], dim=-1), alive[:, None])


@right("every sentence is read alone, without its padding, and put back into the batch")
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        batch, size = source.shape
        all_states, finals = [], []
        for row, n in zip(source, lengths.tolist()):
            x = self.embedding(row[:n])[None]
            for a, b in zip(self.forwards, self.backwards):
                left = a(x)[0]
                right_ = b(x.flip(1))[0].flip(1)
                x = torch.cat([left, right_], dim=2)
            final = torch.cat([left[0, n - 1], right_[0, 0]])
            finals.append(final)
            all_states.append(nn.functional.pad(x[0], (0, 0, 0, size - n)))
        mask = torch.arange(size)[None, None] < lengths[:, None, None]
        mask = mask.to(source.device)
        return Encoded(torch.stack(all_states), torch.stack(finals), mask)


@right("reversal by gather with own indices, backward final from position 0")
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        ends = lengths.to(source.device)[:, None]
        columns = torch.arange(source.size(1), device=source.device)[None]
        inside = columns < ends
        flipped = torch.where(inside, ends - 1 - columns, columns)

        def turn(x):
            return x.gather(1, flipped[:, :, None].expand_as(x))

        states = self.embedding(source)
        for k in range(len(self.forwards)):
            ahead, _ = self.forwards[k](states)
            back, _ = self.backwards[k](turn(states))
            back = turn(back)
            states = torch.cat((ahead, back), -1)
        rows = torch.arange(source.size(0), device=source.device)
        final = torch.cat((ahead[rows, ends[:, 0] - 1], back[:, 0]), -1)
        return Encoded(states, final, inside.unsqueeze(1))


@wrong(
    "The whole batch is flipped, so a short sentence begins with its padding; right when all sentences fill the batch.",
    "Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`.",
    "flips the padding to the front",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
            a, _ = forwards(states)
            b, _ = backwards(states.flip(1))
            b = b.flip(1)
            states = torch.cat([a, b], dim=-1)
        final = torch.cat([at_end(a, lengths), b[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "The backward part of the final state is taken at the last token, where the backward LSTM has read one token only; right for sentences of one token.",
    "the forward state at the last token, and the backward state that has read the whole sentence.",
    "backward final state taken at the wrong end",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
            a, _ = forwards(states)
            b, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "The backward states are not reversed again: at each position the two halves belong to different tokens; right for sentences of one token.",
    "So let the backward LSTM read a reversed batch, and reverse its states again before you concatenate them with the forward states.",
    "forgets to reverse the states again",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
            a, _ = forwards(states)
            b, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([a, b], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "The source is cut to its longest sentence: if the batch is padded beyond its longest sentence, states and mask have too few positions.",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "cuts the batch to its longest sentence",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
            a, _ = forwards(states)
            b, _ = backwards(reverse_padded(states, lengths))
            final = torch.cat([at_end(a, lengths), at_end(b, lengths)], dim=-1)
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "Id 0 is taken for padding: a token with id 0 is masked, and padding with another id is not.",
    "Only the lengths tell you where the padding is.",
    "reads the mask off the token ids",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
            a, _ = forwards(states)
            b, _ = backwards(reverse_padded(states, lengths))
            final = torch.cat([at_end(a, lengths), at_end(b, lengths)], dim=-1)
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        return Encoded(states, final, (source != 0)[:, None])


@wrong(
    "Only the lowest and the highest layer are run: right for one and for two layers, wrong for three and more.",
    "The lowest layer reads the embeddings, and every higher layer reads the states of the layer below it.",
    "works for at most two layers",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        for k in {0, len(self.forwards) - 1}:
            a, _ = self.forwards[k](states)
            b, _ = self.backwards[k](reverse_padded(states, lengths))
            final = torch.cat([at_end(a, lengths), at_end(b, lengths)], dim=-1)
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "The states pass through dropout between the layers in train mode: different numbers in every call with two layers or more; right in eval mode and for one layer.",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "adds dropout that nobody asked for",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        for k, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards)):
            if k > 0:
                states = nn.functional.dropout(states, 0.1, self.training)
            a, _ = forwards(states)
            b, _ = backwards(reverse_padded(states, lengths))
            final = torch.cat([at_end(a, lengths), at_end(b, lengths)], dim=-1)
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "The batch is sorted by length and put back with the same permutation instead of its inverse: right when the order is its own inverse (sorted batches, two sentences, exchanged pairs), otherwise the sentences are exchanged.",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "undoes the sorting with the wrong permutation",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        order = lengths.argsort(descending=True, stable=True)
        sizes = lengths[order]
        states = self.embedding(source[order.to(source.device)])
        for forwards, backwards in zip(self.forwards, self.backwards):
            packed = pack_padded_sequence(states, sizes, batch_first=True)
            turned = reverse_padded(states, sizes)
            turned = pack_padded_sequence(turned, sizes, batch_first=True)
            a, (a_end, _) = forwards(packed)
            b, (b_end, _) = backwards(turned)
            a, b = (
                pad_packed_sequence(x, batch_first=True, total_length=source.size(1))[0]
                for x in (a, b)
            )
            states = torch.cat([a, reverse_padded(b, sizes)], dim=-1)
        final = torch.cat([a_end[0], b_end[0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states[order], final[order], mask)


@wrong(
    "Each layer starts from the last state and cell of the layer below (taken in the last column); only the first layer starts from zeros, so a stack of one layer is right.",
    "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.",
    "hands the final state to the next layer",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        states, past, future = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            a, past = forwards(states, past)
            b, future = backwards(reverse_padded(states, lengths), future)
            final = torch.cat([at_end(a, lengths), at_end(b, lengths)], dim=-1)
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "The backward half of final is that of the lowest layer: it is computed in the first pass of the loop and never replaced; right for one layer.",
    "The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.",
    "backward final state comes from the lowest layer",
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of LSTMs, in both directions."""

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
        states, backward_end = self.embedding(source), None
        for forwards, backwards in zip(self.forwards, self.backwards):
            a, _ = forwards(states)
            b, _ = backwards(reverse_padded(states, lengths))
            if backward_end is None:
                backward_end = at_end(b, lengths)
            states = torch.cat([a, reverse_padded(b, lengths)], dim=-1)
        final = torch.cat([at_end(a, lengths), backward_end], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)
