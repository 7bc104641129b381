import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim


@right("packs the batch, so that the GRU itself stops at each sentence's end")
class Encoder(Given):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.rnn(packed)
        S = source.size(1)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=S)
        mask = padding_mask(lengths.to(source.device), S)
        return Encoded(states, last[0], mask)


@right("the equations of the GRU in a loop; the final state is held while padding passes")
class Encoder(Given):
    def forward(self, source, lengths):
        rnn, x = self.rnn, self.embedding(source)
        h = x.new_zeros(x.size(0), rnn.hidden_size)
        final, states = h, []
        for t in range(source.size(1)):
            i = x[:, t] @ rnn.weight_ih_l0.T + rnn.bias_ih_l0
            g = h @ rnn.weight_hh_l0.T + rnn.bias_hh_l0
            (ir, iz, i_n), (hr, hz, hn) = i.chunk(3, 1), g.chunk(3, 1)
            z = (iz + hz).sigmoid()
            h = (1 - z) * (i_n + (ir + hr).sigmoid() * hn).tanh() + z * h
            states.append(h)
            final = torch.where((lengths.to(h.device) > t)[:, None], h, final)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(states, 1), final, mask)


@right("time first instead of batch first, the mask from a comparison")
class Encoder(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source.T).transpose(0, 1))
        lengths = lengths.to(source.device)
        here = torch.arange(source.size(1), device=source.device)
        index = (lengths - 1)[:, None, None].expand(-1, -1, states.size(-1))
        final = states.take_along_dim(index, dim=1)[:, 0]
        return Encoded(states, final, (here < lengths[:, None])[:, None])


@right("every sentence alone, without its padding; zeros stand on padding")
class Encoder(Given):
    def forward(self, source, lengths):
        rows, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            read, last = self.rnn(self.embedding(ids[None, :n]))
            rest = read.new_zeros(1, len(ids) - n, read.size(-1))
            rows.append(torch.cat([read, rest], dim=1))
            finals.append(last[0])
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.cat(rows), torch.cat(finals), mask)


@wrong(
    "the GRU's own last state, which has read the padding of every sentence shorter than S",
    "`final` (B, E), the state at each sentence's own end;",
    "final state after the padding",
)
class Encoder(Given):
    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "id 0 is taken for padding: wrong for a token 0 in a sentence and for other ids in the padding",
    "The lengths alone say what is a token and what is padding: any id of the vocabulary may stand in either place.",
    "mask made from the ids",
)
class Encoder(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong(
    "the mask is (B, S), without the axis of the queries",
    "`mask` (B, 1, S), True on tokens: `padding_mask(lengths, size)` makes it, on the device of the `lengths` that it is given.",
    "mask lacks an axis",
)
class Encoder(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        here = torch.arange(source.size(1), device=source.device)
        mask = here < lengths.to(source.device)[:, None]
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "the mask is as wide as the longest sentence: too narrow for a batch that is padded further",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "mask as wide as the longest sentence",
)
class Encoder(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), int(lengths.max()))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "unpacks without the total length: states are cut to the longest sentence when the batch is padded further",
    "`states` (B, S, E), the state at every position; the states on padding are not used;",
    "states cut to the longest sentence",
)
class Encoder(Given):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.rnn(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "the lengths are not moved: with the model on a GPU the mask is on the CPU",
    "Move the lengths to the device of `source` first: `states` and `final` are there, too.",
    "mask on the wrong device",
)
class Encoder(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths, source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "packs with enforce_sorted: a batch that is not sorted from long to short raises",
    "lengths: (B,), tokens in each source; on the CPU.",
    "batch must be sorted by length",
)
class Encoder(Given):
    def forward(self, source, lengths):
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True)
        packed, last = self.rnn(packed)
        S = source.size(1)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=S)
        mask = padding_mask(lengths.to(source.device), S)
        return Encoded(states, last[0], mask)


@wrong(
    "the last state of a batch is the first state of the next batch of the same size: the first call is right, the second is not",
    "This is the simplest encoder: it embeds the tokens, and one recurrent layer reads them from left to right.",
    "state carried over between calls",
)
class Encoder(Given):
    kept = None

    def forward(self, source, lengths):
        if self.kept is not None and self.kept.size(1) != source.size(0):
            self.kept = None
        states, last = self.rnn(self.embedding(source), self.kept)
        self.kept = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "sets the padding of the caller's source to 0 before it reads it; all numbers that are used are right",
    "Do not change the inputs that your code is given.",
    "padding of the source overwritten",
)
class Encoder(Given):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source.masked_fill_(~mask[:, 0], 0)
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "finds a sentence's end at the first repetition of the last column's id from the right, as if all padding were one id that no token has: right for ordinary batches, wrong where the last token equals the padding, where a full sentence ends, or where padding is mixed",
    "The lengths alone say what is a token and what is padding: any id of the vocabulary may stand in either place.",
    "length guessed from the ids",
)
class Encoder(Given):
    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        here = torch.arange(source.size(1), device=source.device)
        full = int(lengths.max()) == source.size(1)
        pad = source[lengths.argmin(), -1] if full else source[0, -1]
        last = torch.where(source != pad, here, 0).amax(dim=1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, last + 1), mask)
