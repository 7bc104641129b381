import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong

STATES = (
    "`states` (B, S, E) holds the state at every position. What it holds on padding"
    " does not matter."
)
FINAL = "`final` (B, E) holds the state at the last token of each sentence."
MASK = "`mask` (B, 1, S) is True on tokens and False on padding."
READS = (
    "Write the `forward` of the simplest encoder, which embeds the tokens and reads"
    " them from left to right with one recurrent layer."
)
ONLY_LENGTHS = "Only the lengths tell you where the padding is."
ANY_ID = "Any id of the vocabulary may be a token, and any id may be padding."
PADDED = "A batch may be padded to more positions than its longest sentence has tokens."
INPUTS = "Do not change the inputs."
MODES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


def last_states(states, lengths):
    return states[torch.arange(states.size(0)), lengths - 1]


class Base(nn.Module):
    """The given part of the class."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim


@right("packs the batch, so the last state of the GRU is the right one")
class Encoder(Base):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed_states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last.squeeze(0), mask)


@right("reads one position at a time, and keeps the old state on padding")
class Encoder(Base):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        vectors = self.embedding(source)
        state = vectors.new_zeros(1, source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            _, new = self.rnn(vectors[:, s : s + 1], state)
            state = torch.where(mask[:, 0, s, None], new, state)
            states.append(state[0])
        return Encoded(torch.stack(states, dim=1), state[0], mask)


@right("reads each sentence alone, without its padding, and fills up with zeros")
class Encoder(Base):
    def forward(self, source, lengths):
        S, states, finals = source.size(1), [], []
        for ids, n in zip(source, lengths.tolist()):
            read, last = self.rnn(self.embedding(ids[None, :n]))
            states.append(F.pad(read, (0, 0, 0, S - n)))
            finals.append(last[0])
        mask = torch.arange(S) < lengths[:, None]
        return Encoded(
            torch.cat(states), torch.cat(finals), mask[:, None].to(source.device)
        )


@right("computes the equations of the GRU from its weights")
class Encoder(Base):
    def forward(self, source, lengths):
        gru, states = self.rnn, []
        inputs = F.linear(self.embedding(source), gru.weight_ih_l0, gru.bias_ih_l0)
        h = inputs.new_zeros(len(source), self.output_dim)
        for x in inputs.unbind(1):
            y = F.linear(h, gru.weight_hh_l0, gru.bias_hh_l0)
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), y.chunk(3, -1)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = n + z * (h - n)
            states.append(h)
        states = torch.stack(states, 1)
        index = (lengths.to(source.device) - 1)[:, None, None]
        final = states.gather(1, index.expand(-1, 1, states.size(2))).squeeze(1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the last state that the GRU returns",
    breaks=FINAL,
    name="the state in the last column",
)
class Encoder(Base):
    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "takes every id that is not 0 for a token",
    breaks=ONLY_LENGTHS,
    name="the mask comes from the ids",
)
class Encoder(Base):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, last_states(states, lengths), (source != 0)[:, None])


@wrong(
    "has a GRU without batch_first, which reads down the batch",
    breaks=READS,
    name="batch_first is missing",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last_states(states, lengths), mask)


@wrong(
    "returns a mask (B, S)",
    breaks=MASK,
    name="the mask has no axis for the queries",
)
class Encoder(Base):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last_states(states, lengths), mask[:, 0])


@wrong(
    "has an embedding with padding_idx=0: a token with the id 0 gets no gradient",
    breaks=ANY_ID,
    name="the id 0 is reserved for padding",
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
        return Encoded(states, last_states(states, lengths), mask)


@wrong(
    "packs and unpacks without total_length, so extra columns of padding get lost",
    breaks=STATES,
    name="the states end with the longest sentence",
)
class Encoder(Base):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed_states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "uses the GRU's last state if all sentences have the same length",
    breaks=PADDED,
    name="equal lengths are taken for a batch without padding",
)
class Encoder(Base):
    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        final = last[0]
        if len(set(lengths.tolist())) > 1:
            final = last_states(states, lengths)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "begins with the last state of the previous batch if this has as many sentences",
    breaks=CALLS,
    name="the state is carried from batch to batch",
)
class Encoder(Base):
    state = None

    def forward(self, source, lengths):
        if self.state is not None and self.state.size(1) != source.size(0):
            self.state = None
        states, last = self.rnn(self.embedding(source), self.state)
        self.state = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last_states(states, lengths), mask)


@wrong(
    "overwrites the padding of the caller's source with zeros",
    breaks=INPUTS,
    name="the source of the caller is cleaned",
)
class Encoder(Base):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source.masked_fill_(~mask[:, 0], 0)
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, last_states(states, lengths), mask)


@wrong(
    "adds dropout to the embeddings, which shows in train mode only",
    breaks=MODES,
    name="dropout that the task does not have",
)
class Encoder(Base):
    def forward(self, source, lengths):
        vectors = F.dropout(self.embedding(source), 0.1, self.training)
        states, _ = self.rnn(vectors)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last_states(states, lengths), mask)
