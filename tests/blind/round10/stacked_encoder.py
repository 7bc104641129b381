import torch
import torch.nn.functional as F
from torch import nn

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.to(x.device) - 1]


@right('the backward final state is read at position 0 after the second reversal')
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
        for left, right_ in zip(self.forwards, self.backwards):
            to_right = left(states)[0]
            to_left = reverse_padded(right_(reverse_padded(states, lengths))[0], lengths)
            states = torch.cat((to_right, to_left), dim=2)
        final = torch.cat((at_end(to_right, lengths), to_left[:, 0]), dim=1)
        return Encoded(
            states=states, final=final, mask=padding_mask(lengths.to(source.device), source.size(1))
        )


@right('every sentence alone, without its padding, reversed with flip')
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
        all_states, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[None, :n])
            for i in range(len(self.forwards)):
                f, (last_f, _) = self.forwards[i](x)
                b, (last_b, _) = self.backwards[i](x.flip(1))
                x = torch.cat([f, b.flip(1)], dim=-1)
            all_states.append(F.pad(x[0], (0, 0, 0, source.size(1) - n)))
            finals.append(torch.cat([last_f[0, 0], last_b[0, 0]]))
        mask = torch.arange(source.size(1)).lt(lengths[:, None])[:, None].to(source.device)
        return Encoded(states=torch.stack(all_states), final=torch.stack(finals), mask=mask)


@right('packed sequences: the forward and backward LSTM never see padding')
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

    def run(self, lstm, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, (last, _) = lstm(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(
            out, batch_first=True, total_length=x.size(1)
        )
        return out, last[-1]

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            one, one_end = self.run(forwards, states, lengths)
            other, other_end = self.run(backwards, reverse_padded(states, lengths), lengths)
            states = torch.cat([one, reverse_padded(other, lengths)], dim=-1)
        return Encoded(
            states=states,
            final=torch.cat([one_end, other_end], dim=-1),
            mask=padding_mask(lengths.to(source.device), source.size(1)),
        )


@right('own reversal by an index, take_along_dim; no function of the course but Encoded')
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
        n = lengths.to(source.device)[:, None]
        s = torch.arange(source.size(1), device=source.device)[None]
        turned = torch.where(s < n, n - 1 - s, s)[..., None]
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            h, _ = f(x)
            g, _ = b(x.take_along_dim(turned, dim=1))
            x = torch.cat([h, g.take_along_dim(turned, dim=1)], dim=-1)
        last = n[..., None] - 1
        final = torch.cat([h.take_along_dim(last, 1), g.take_along_dim(last, 1)], dim=-1)
        return Encoded(states=x, final=final.squeeze(1), mask=(s < n).unsqueeze(1))


@wrong(
    'reverses the whole batch with flip: short sentences are read backwards from their padding',
    'Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`.',
    'flips the padding to the front',
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
            h, _ = forwards(states)
            g, _ = backwards(states.flip(1))
            states = torch.cat([h, g.flip(1)], dim=-1)
        final = torch.cat([at_end(h, lengths), g[:, -1]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=final, mask=mask)


@wrong(
    'at_end of the concatenated states: the backward half has read only the last token (right for one token)',
    'The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.',
    'backward half taken at the last token',
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
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'the backward states are not reversed again: right only for sentences of one token',
    'So let the backward LSTM read a reversed batch, and reverse its states again before you concatenate them with the forward states.',
    'does not reverse the backward states again',
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
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, g], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'final from the last column of the LSTMs: wrong for sentences that are padded, states are right',
    'The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.',
    'final state is that of the last column',
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
            h, (h_last, _) = forwards(states)
            g, (g_last, _) = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([h_last[-1], g_last[-1]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=final, mask=mask)


@wrong(
    'written for two layers: a third layer and all above are not used',
    'The lowest layer reads the embeddings, and every higher layer reads the states of the layer below it.',
    'only ever uses first and last layer',
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
        def layer(x, f, b):
            h, g = f(x)[0], b(reverse_padded(x, lengths))[0]
            final = torch.cat([at_end(h, lengths), at_end(g, lengths)], dim=-1)
            return torch.cat([h, reverse_padded(g, lengths)], dim=-1), final

        states, final = layer(self.embedding(source), self.forwards[0], self.backwards[0])
        if len(self.forwards) > 1:
            states, final = layer(states, self.forwards[-1], self.backwards[-1])
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=final, mask=mask)


@wrong(
    'hands (h, c) of each layer to the next one as its first state: right for one layer',
    'Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.',
    'higher layers do not start from zeros',
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
        first_f = first_b = None
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, first_f = forwards(states, first_f)
            g, first_b = backwards(reverse_padded(states, lengths), first_b)
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([at_end(h, lengths), at_end(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=final, mask=mask)


@wrong(
    'mask only as wide as the longest sentence, although the batch may be padded further',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'mask as wide as the longest sentence',
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
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([at_end(h, lengths), at_end(g, lengths)], dim=-1)
        return Encoded(
            states=states,
            final=final,
            mask=padding_mask(lengths.to(source.device), lengths.max().item()),
        )


@wrong(
    'lengths for the reversal are counted from the ids: wrong if id 0 is a token or padding has another id',
    'Any id of the vocabulary may be a token, and any id may be padding.',
    'counts nonzero ids instead of using lengths',
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
        real = (source != 0).sum(dim=1).clamp(min=1).cpu()
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, real))
            states = torch.cat([h, reverse_padded(g, real)], dim=-1)
        final = torch.cat([at_end(h, lengths), at_end(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=final, mask=mask)


@wrong(
    'packs the batch and takes the second of (h, c) as final: it is the cell, states are right',
    'Pass only the states on, to the next layer and into `states` and `final`.',
    'takes the cell as the final state',
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
        states, total = self.embedding(source), source.size(1)
        for forwards, backwards in zip(self.forwards, self.backwards):
            both, ends = [], []
            for lstm, x in ((forwards, states), (backwards, reverse_padded(states, lengths))):
                packed = nn.utils.rnn.pack_padded_sequence(
                    x, lengths, batch_first=True, enforce_sorted=False
                )
                out, (_, end) = lstm(packed)
                out = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=total)[0]
                both.append(out)
                ends.append(end[0])
            states = torch.cat([both[0], reverse_padded(both[1], lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), total)
        return Encoded(states=states, final=torch.cat(ends, dim=-1), mask=mask)


@wrong(
    'takes the shortcut of flip if the shortest and the longest sentence are equally long, also if all are padded: then it reads padding first',
    'Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`.',
    'assumes equal lengths mean no padding',
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
        def turn(x):
            if lengths.min() == lengths.max():
                return x.flip(1)
            return reverse_padded(x, lengths)

        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g = turn(backwards(turn(states))[0])
            states = torch.cat([h, g], dim=-1)
        final = torch.cat([at_end(h, lengths), g[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=final, mask=mask)
