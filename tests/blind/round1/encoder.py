from blind import right, wrong
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right('packed, final is what the layer returns as last')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = pack_padded_sequence(self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        return Encoded(mask=padding_mask(lengths.to(source.device), source.size(1)), final=last[-1], states=states)


@right('token by token, the state of a sentence that is over stands still')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        h = self.rnn.weight_hh_l0.new_zeros(1, source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            new = self.rnn(self.embedding(source[:, s : s + 1]), h)[1]
            h = torch.where(mask[:, 0, s, None], new, h)
            states.append(h[0])
        return Encoded(torch.stack(states, 1), h[0], mask)


@right("the GRU's equations by hand")
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        r = self.rnn
        x = torch.einsum("bse,ge->bsg", self.embedding(source), r.weight_ih_l0) + r.bias_ih_l0
        h, states = x.new_zeros(source.size(0), self.output_dim), []
        for s in range(source.size(1)):
            xr, xz, xn = x[:, s].chunk(3, -1)
            hr, hz, hn = F.linear(h, r.weight_hh_l0, r.bias_hh_l0).chunk(3, -1)
            z = torch.sigmoid(xz + hz)
            h = (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h
            states.append(h)
        states = torch.stack(states, dim=1)
        return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@right('each sentence alone, without its padding; zeros behind it')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        rows, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            states, last = self.rnn(self.embedding(ids[:n]))
            rows.append(F.pad(states, (0, 0, 0, source.size(1) - n)))
            finals.append(last[0])
        here = lengths.to(source.device)
        return Encoded(torch.stack(rows), torch.stack(finals), padding_mask(here, source.size(1)))


@wrong('final is the state in the last column', breaks="`final` (B, E), the state at each sentence's own end;", name='last column', subtle=False)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(self.embedding(source))
        final = h[0]
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong("final with the layer's axis", breaks="`final` (B, E), the state at each sentence's own end;", name='axis left over', subtle=False)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(self.embedding(source))
        final = at_end(states, lengths)[None]
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('mask without the axis of the queries', breaks='`mask` (B, 1, S), True on tokens: `padding_mask(lengths, size)` makes it, on the device of the `lengths` that it is given.', name='axis missing', subtle=False)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(self.embedding(source))
        final = at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1))[:, 0])


@wrong('mask stays on the CPU, where the lengths are', breaks='Give it lengths that are where `source` is: there `states` and `final` are, too.', name='mask on the wrong device', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(self.embedding(source))
        final = at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.cpu(), source.size(1)))


@wrong('mask read off the ids: 0 is taken for padding, all else for tokens', breaks='`mask` (B, 1, S), True on tokens: `padding_mask(lengths, size)` makes it, on the device of the `lengths` that it is given.', name='lengths ignored', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(self.embedding(source))
        final = at_end(states, lengths)
        return Encoded(states, final, (source != 0)[:, None])


@wrong('packed, and unpacked only as far as the longest sentence goes', breaks='`states` (B, S, E), the state at every position; nobody looks at those on padding;', name='columns lost', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = pack_padded_sequence(self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@wrong('sentences of equal length are taken to fill the batch', breaks="`final` (B, E), the state at each sentence's own end;", name='last column if lengths are equal', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(self.embedding(source))
        final = h[0] if (lengths == lengths[0]).all() else at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('starts from the state that the batch before left behind', breaks='Read a source with one recurrent layer, from left to right.', name='state kept between calls', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        start = getattr(self, "kept", None)
        if start is not None and start.size(1) != source.size(0):
            start = None
        states, last = self.rnn(self.embedding(source), start)
        self.kept = last.detach()
        return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@wrong('dropout on the embeddings in training mode', breaks='The plainest one: embed the tokens, and let one recurrent layer read them from left to right.', name='dropout that nobody asked for', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, h = self.rnn(F.dropout(self.embedding(source), 0.1, self.training))
        final = at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('final of sorted sentences, not sorted back', breaks="`final` (B, E), the state at each sentence's own end;", name='sorted, and not sorted back', subtle=True)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        order = lengths.argsort(descending=True, stable=True)
        packed = pack_padded_sequence(self.embedding(source[order.to(source.device)]), lengths[order].cpu(), batch_first=True)
        _, last = self.rnn(packed)
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))
