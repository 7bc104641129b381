import torch
from torch import nn

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded, EncoderDecoder, Memory
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0), device=x.device), (lengths - 1).to(x.device)]


@right("packs the batch: the GRU stops at each sentence's end by itself")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@right("one step of the GRU at a time; the final state is kept once a sentence has ended")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        lengths = lengths.to(source.device)
        mask = padding_mask(lengths, source.size(1))
        state, states, final = None, [], None
        for s, column in enumerate(self.embedding(source).unbind(1)):
            out, state = self.rnn(column[:, None], state)
            states.append(out)
            if final is None:
                final = out[:, 0]
            final = torch.where(mask[:, 0, s, None], out[:, 0], final)
        return Encoded(torch.cat(states, dim=1), final, mask)


@right("reads every sentence alone and without its padding, then pads the states with zeros")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            out, last = self.rnn(self.embedding(ids[None, :n]))
            finals.append(last[0, 0])
            states.append(nn.functional.pad(out[0], (0, 0, 0, source.size(1) - n)))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(
            states=torch.stack(states), final=torch.stack(finals), mask=mask
        )


@right("the final state by gather, the mask by hand, the embedding as rows of its weight")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, *, batch_first=True):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=batch_first)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        lengths = lengths.to(source.device)
        states = self.rnn(self.embedding.weight[source])[0]
        last = (lengths - 1)[:, None, None].expand(-1, -1, self.output_dim)
        positions = torch.arange(source.size(1), device=source.device)
        mask = (positions[None] < lengths[:, None]).unsqueeze(-2)
        return Encoded(states, torch.gather(states, 1, last)[:, 0], mask)


@wrong(
    "final is the GRU's last state, which stands in the last column: for shorter sentences it has read padding",
    "`final` (B, E), the state at each sentence's own end;",
    "final state from the last column",
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
    "the mask is read off the ids: an id 0 within a sentence counts as padding, other ids after its end as tokens",
    "The lengths alone say what is a token and what is padding: any id of the vocabulary may stand in either place.",
    "mask made from the ids",
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
    "the mask is (B, S), the axis of the queries is taken off",
    "`mask` (B, 1, S), True on tokens: `padding_mask(lengths, size)` makes it, on the device of the `lengths` that it is given.",
    "mask without the axis of the queries",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))[:, 0]
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "packs and unpacks without total_length: if the batch is padded further than its longest sentence, states are shorter than S",
    "`states` (B, S, E), the state at every position; the states on padding are not used;",
    "states cut to the longest sentence",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "packs with the default enforce_sorted: a batch whose lengths do not fall raises",
    "`final` (B, E), the state at each sentence's own end;",
    "needs sentences sorted by length",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True
        )
        states, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "the mask stays on the CPU, where the lengths are, if source is on another device",
    "Move the lengths to the device of `source` first: `states` and `final` are there, too.",
    "mask stays on the CPU",
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
    "makes the mask only as wide as the longest sentence: (B, 1, max) in a batch padded further",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "mask as wide as the longest sentence",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), int(lengths.max()))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "sets the embedding of id 0 to zero, as it is taken for padding: a token with the id 0 is read as nothing",
    "The lengths alone say what is a token and what is padding: any id of the vocabulary may stand in either place.",
    "embedding of id 0 is set to zero",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        embedded = self.embedding(source)
        embedded = embedded.masked_fill((source == 0)[..., None], 0.0)
        states, _ = self.rnn(embedded)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "keeps the last state and starts the next call from it, if the batch has the same size: a second call gives other states",
    "inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "state carried over to the next call",
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
        states, hidden = self.rnn(self.embedding(source), self.hidden)
        self.hidden = hidden.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "padding_idx=0: the results are right, but the row of id 0 starts at zero and never gets a gradient, though 0 may be a token",
    "The lengths alone say what is a token and what is padding: any id of the vocabulary may stand in either place.",
    "padding_idx: id 0 gets no gradient",
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
