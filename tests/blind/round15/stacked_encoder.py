import torch
import torch.nn.functional as F
from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

GRADIENTS = "Gradients must be right, too."

OWN = "Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`."
FINAL = "The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence."
FIRST = "Concatenate their two states at each position, the forward state first:"
AGAIN = "So let the backward LSTM read a reversed batch, and reverse its states again before you concatenate them with the forward states."
ZEROS = "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state."
TWO = "A layer has two LSTMs: one reads every sentence forwards, and the other reads it backwards."
ONLY = "Only the lengths tell you where the padding is."
EXTRA = "A batch may be padded to more positions than its longest sentence has tokens."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right('packed sequences in both directions; final states from the LSTMs')
class StackedEncoder(nn.Module):
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
        def read(lstm, x):
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, (last, _) = lstm(packed)
            return pad_packed_sequence(out, batch_first=True, total_length=x.size(1))[0], last[0]

        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, end = read(forwards, states)
            back, start = read(backwards, reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat([end, start], dim=-1), mask)


@right('reverses by an index; the backward final state is at position 0 of the order restored')
class StackedEncoder(nn.Module):
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
        limits, size = lengths.to(source.device), source.size(1)
        index = (limits[:, None] - 1 - torch.arange(size, device=source.device)) % size
        rows = torch.arange(source.size(0), device=source.device)
        states = self.embedding(source)
        for one, other in zip(self.forwards, self.backwards):
            there = one(states)[0]
            back = other(states[rows[:, None], index])[0][rows[:, None], index]
            states = torch.cat([there, back], dim=2)
        final = torch.cat([there[rows, limits - 1], back[:, 0]], dim=1)
        return Encoded(states, final, padding_mask(limits, size))


@right('sentence by sentence without padding, reversed with flip')
class StackedEncoder(nn.Module):
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
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[:n])[None]
            for forwards, backwards in zip(self.forwards, self.backwards):
                x = torch.cat([forwards(x)[0], backwards(x.flip(1))[0].flip(1)], -1)
            there, back = x[0].chunk(2, dim=-1)
            final.append(torch.cat([there[-1], back[0]]))
            states.append(torch.cat([x[0], x.new_zeros(source.size(1) - n, x.size(2))]))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(states), torch.stack(final), mask)


@right('the equations of the LSTM by hand, in float64 and back')
class StackedEncoder(nn.Module):
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
        def read(lstm, x):
            w, u = lstm.weight_ih_l0.double(), lstm.weight_hh_l0.double()
            bias = lstm.bias_ih_l0.double() + lstm.bias_hh_l0.double()
            h = cell = x.new_zeros(x.size(0), lstm.hidden_size)
            out = []
            for gate in F.linear(x, w, bias).unbind(1):
                i, f, g, o = (gate + h @ u.T).chunk(4, dim=1)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
                h = o.sigmoid() * cell.tanh()
                out.append(h)
            return torch.stack(out, 1)

        x = self.embedding(source).double()
        for forwards, backwards in zip(self.forwards, self.backwards):
            there = read(forwards, x)
            back = read(backwards, reverse_padded(x, lengths))
            final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=1)
            x = torch.cat([there, reverse_padded(back, lengths)], dim=2)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        dtype = self.embedding.weight.dtype
        return Encoded(x.to(dtype), final.to(dtype), mask)


@wrong('reverses the whole batch with flip: short sentences begin with their padding',
       breaks=OWN,
       name='flip of the whole batch')
class StackedEncoder(nn.Module):
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
            back = backwards(states.flip(1))[0].flip(1)
            states = torch.cat([there, back], dim=-1)
        final = torch.cat([at_end(there, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('restores the order only at the top: lower layers pass on reversed backward states',
       breaks=AGAIN,
       name='lower layers not reversed again')
class StackedEncoder(nn.Module):
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
            states = torch.cat([there, back], dim=-1)
        final = at_end(states, lengths)
        states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('both halves at the last token: there, the backward LSTM has read only one token',
       breaks=FINAL,
       name='backward state at the last token')
class StackedEncoder(nn.Module):
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
            back = reverse_padded(backwards(reverse_padded(states, lengths))[0], lengths)
            states = torch.cat([there, back], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong('backward state first',
       breaks=FIRST,
       name='halves in the wrong order')
class StackedEncoder(nn.Module):
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
            states = torch.cat([reverse_padded(back, lengths), there], dim=-1)
        final = torch.cat([at_end(back, lengths), at_end(there, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('every layer starts from the last state and cell of the layer below',
       breaks=ZEROS,
       name='first state from the layer below')
class StackedEncoder(nn.Module):
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
        states, one, other = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            there, one = forwards(states, one)
            back, other = backwards(reverse_padded(states, lengths), other)
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('final state of the lowest layer',
       breaks=FINAL,
       name='final state of the lowest layer')
class StackedEncoder(nn.Module):
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
        states, final = self.embedding(source), None
        for forwards, backwards in zip(self.forwards, self.backwards):
            there = forwards(states)[0]
            back = backwards(reverse_padded(states, lengths))[0]
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
            if final is None:
                final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('the mask says where the id is not 0',
       breaks=ONLY,
       name='padding guessed from the ids')
class StackedEncoder(nn.Module):
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
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, source.ne(0)[:, None])


@wrong('cuts the batch to its longest sentence: states and mask are narrower than the source',
       breaks=EXTRA,
       name='batch cut to the longest sentence')
class StackedEncoder(nn.Module):
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
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('the backward LSTMs read a detached copy: part of the gradient is missing',
       breaks=GRADIENTS,
       name='gradient of the backward reading cut off')
class StackedEncoder(nn.Module):
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
            back = backwards(reverse_padded(states.detach(), lengths))[0]
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('the same LSTM reads in both directions',
       breaks=TWO,
       name='one LSTM for both directions')
class StackedEncoder(nn.Module):
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
        for forwards in self.forwards:
            there = forwards(states)[0]
            back = forwards(reverse_padded(states, lengths))[0]
            states = torch.cat([there, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(there, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))
