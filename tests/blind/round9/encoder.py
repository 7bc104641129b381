import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right("packs the batch, so that the GRU stops at each sentence's own end")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size = source.size(1)
        x = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        out, last = self.rnn(x)
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=size)
        return Encoded(states, last.squeeze(0), padding_mask(lengths.to(source.device), size))


@right("steps through the columns and keeps the old state where a sentence has ended")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        x = self.embedding(source)
        here = lengths.to(source.device)
        state = x.new_zeros(1, x.size(0), self.output_dim)
        columns = []
        for s in range(x.size(1)):
            _, new = self.rnn(x[:, s : s + 1], state)
            state = torch.where((s < here)[None, :, None], new, state)
            columns.append(state[0])
        return Encoded(torch.stack(columns, 1), state[0], padding_mask(here, x.size(1)))


@right("reads one sentence after the other, without any padding")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size, rows, ends = source.size(1), [], []
        for ids, n in zip(source, lengths.tolist()):
            states, last = self.rnn(self.embedding(ids[:n]).unsqueeze(0))
            rows.append(F.pad(states[0], (0, 0, 0, size - n)))
            ends.append(last[0, 0])
        mask = torch.arange(size, device=source.device) < lengths.to(source.device).view(-1, 1)
        return Encoded(
            states=torch.stack(rows), final=torch.stack(ends), mask=mask.unsqueeze(1)
        )


@right("writes the equations of the GRU by hand, with the parameters of self.rnn")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        rnn = self.rnn
        inputs = F.linear(self.embedding(source), rnn.weight_ih_l0, rnn.bias_ih_l0)
        h = inputs.new_zeros(len(source), self.output_dim)
        states = []
        for step in inputs.unbind(1):
            r, z, n = step.chunk(3, -1)
            hr, hz, hn = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, -1)
            r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
            h = (1 - z) * torch.tanh(n + r * hn) + z * h
            states.append(h)
        states = torch.stack(states, 1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "the state in the last column, which has read the padding of shorter sentences",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "final state of the last column",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "makes the mask from the ids: a token with id 0 is masked, padding with another id is not",
    "Only the lengths tell you where the padding is.",
    "mask from the ids instead of the lengths",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong(
    "leaves the axis of the layers in the final state: (1, B, E)",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "axis of the layers left in final",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        embedded = self.embedding(source)
        packed = pack_padded_sequence(
            embedded, lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = self.rnn(embedded)
        _, final = self.rnn(packed)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "the mask stays on the CPU, where the lengths are",
    "`padding_mask(lengths, size)` makes it on the device of the lengths, so first move the lengths"
    " to the device of `source`.",
    "mask on the CPU",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(
            states, at_end(states, lengths), padding_mask(lengths, source.size(1))
        )


@wrong(
    "unpacks without total_length: if the batch is padded beyond its longest sentence, states and"
    " mask are narrower than source",
    "`states` (B, S, E) holds the state at every position.",
    "states end at the longest sentence",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        out, last = self.rnn(packed)
        states, _ = pad_packed_sequence(out, batch_first=True)
        mask = padding_mask(lengths.to(source.device), states.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "the first state is float32 whatever the parameters are: a bfloat16 or float64 encoder raises",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be"
    " on their device.",
    "first state without dtype and device",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        first = torch.zeros(1, source.size(0), self.output_dim)
        states, _ = self.rnn(self.embedding(source), first)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "overwrites the padding in the caller's source with zeros",
    "Do not change the inputs.",
    "masked_fill_ changes the caller's source",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source.masked_fill_(~mask[:, 0], 0)
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "sorts the sentences by length and brings only the states back into the old order, not final:"
    " right for a batch that is sorted already",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "final stays in the sorted order",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        ordered, order = lengths.sort(descending=True, stable=True)
        packed = pack_padded_sequence(
            self.embedding(source)[order], ordered, batch_first=True
        )
        out, last = self.rnn(packed)
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=source.size(1))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states[order.argsort()], last[0], mask)


@wrong(
    "goes on from the state of the batch before, if that had the same size; the first call is right",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "keeps the state from one call to the next",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim
        self.hidden = None

    def forward(self, source, lengths):
        if self.hidden is not None and self.hidden.size(1) != source.size(0):
            self.hidden = None
        states, last = self.rnn(self.embedding(source), self.hidden)
        self.hidden = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "padding_idx=0: as a token, id 0 is the zero vector at first, and it never learns, since its"
    " embedding gets no gradient",
    "Any id of the vocabulary may be a token, and any id may be padding.",
    "padding_idx makes a token untrainable",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)
