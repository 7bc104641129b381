import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded

STATES = "`states` (B, S, E), the state at every position; nobody looks at those on padding;"
FINAL = "`final` (B, E), the state at each sentence's own end;"
MASK = "`mask` (B, 1, S), True on tokens: `padding_mask(lengths, size)` makes it, on the device of the `lengths` that it is given."
WHERE = "Give it lengths that are where `source` is: there `states` and `final` are, too."
IDS = "The lengths alone say what is a token and what is padding: any id may stand in either place."
PLAIN = "The plainest one: embed the tokens, and let one recurrent layer read them from left to right."
SAME = "Leave what you are handed unchanged."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right("packed and unpacked")
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
        packed, last = self.rnn(packed)
        size = source.size(1)
        states, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=size)
        return Encoded(states, last[-1], padding_mask(lengths.to(source.device), size))


@right("one position after the other, the final state kept when its time comes")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        n = lengths.to(source.device)
        x, state, states = self.embedding(source), None, []
        final = x.new_zeros(x.size(0), self.output_dim)
        for s in range(source.size(1)):
            out, state = self.rnn(x[:, s : s + 1], state)
            states.append(out)
            final = torch.where((n == s + 1)[:, None], out[:, 0], final)
        return Encoded(torch.cat(states, 1), final, padding_mask(n, source.size(1)))


@right("each sentence alone, without its padding")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, final = [], []
        for ids, n in zip(source, lengths.tolist()):
            read = self.rnn(self.embedding(ids[None, :n]))[0][0]
            final.append(read[-1])
            states.append(F.pad(read, (0, 0, 0, source.size(1) - n)))
        there = torch.arange(source.size(1), device=source.device)
        mask = there < lengths.to(source.device)[:, None, None]
        return Encoded(torch.stack(states), torch.stack(final), mask)


@right("the GRU written out with its weights")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        r, inputs = self.rnn, self.embedding(source)
        h = inputs.new_zeros(source.size(0), self.output_dim)
        states = []
        for x in inputs.unbind(1):
            h = torch.gru_cell(x, h, r.weight_ih_l0, r.weight_hh_l0, r.bias_ih_l0, r.bias_hh_l0)
            states += [h]
        states = torch.stack(states, dim=1)
        lengths_there = lengths.to(source.device)
        return Encoded(states, at_end(states, lengths), padding_mask(lengths_there, source.size(1)))


@wrong("what the GRU calls the last state", breaks=FINAL, name="state of the last column")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@wrong("the mean of the states", breaks=FINAL, name="mean in place of the last state")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        final = (states * mask.mT).sum(1) / mask.sum(-1)
        return Encoded(states, final, mask)


@wrong("the axis of the layers stays on", breaks=FINAL, name="final with three axes")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths)[None], mask)


@wrong("the mask is made from the ids", breaks=IDS, name="padding guessed from the id 0", subtle=True)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong("the embedding of the id 0 is zero", breaks=IDS, name="id 0 treated as padding", subtle=True)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        x = self.embedding(source) * (source != 0)[..., None]
        states, _ = self.rnn(x)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong("unpacked to the longest sentence only", breaks=STATES, name="states shorter than the source", subtle=True)
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
        packed, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@wrong("wants the longest sentence first", breaks=FINAL, name="packs only sorted batches", subtle=True)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(source), lengths, batch_first=True)
        packed, last = self.rnn(packed)
        size = source.size(1)
        states, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=size)
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), size))


@wrong("the mask stays with the lengths on the CPU", breaks=WHERE, name="mask on the wrong device", subtle=True)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), padding_mask(lengths, source.size(1)))


@wrong("a batch starts from the last states of the one before", breaks=PLAIN, name="state kept between calls", subtle=True)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        state = getattr(self, "state", None)
        if state is not None and state.size(1) != source.size(0):
            state = None
        states, last = self.rnn(self.embedding(source), state)
        self.state = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong("writes PAD over the padding of the source", breaks=SAME, name="input changed", subtle=True)
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
