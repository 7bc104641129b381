import torch
import torch.nn.functional as F
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."

FINAL = "`final` (B, E) holds the state at the last token of each sentence."
ONLY = "Only the lengths tell you where the padding is."
EXTRA = "A batch may be padded to more positions than its longest sentence has tokens."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right('packed sequence with total_length; the last state comes from the GRU')
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
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@right('position by position; a sentence that has ended keeps its final state')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        inputs, limits = self.embedding(source), lengths.to(source.device)
        hidden, final, states = None, None, []
        for s in range(source.size(1)):
            out, hidden = self.rnn(inputs[:, s : s + 1], hidden)
            now = out[:, 0]
            final = now if final is None else torch.where((limits > s)[:, None], now, final)
            states.append(now)
        positions = torch.arange(source.size(1), device=source.device)
        return Encoded(torch.stack(states, 1), final, positions < limits[:, None, None])


@right('sentence by sentence, without padding; zeros behind')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, final = [], []
        for row, n in zip(source, lengths.tolist()):
            own = self.rnn(self.embedding(row[None, :n]))[0][0]
            behind = own.new_zeros(source.size(1) - n, own.size(1))
            states.append(torch.cat([own, behind]))
            final.append(own[-1])
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(states), torch.stack(final), mask)


@right('the equations of the GRU by hand, final state with gather')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        rnn, states = self.rnn, []
        hidden = self.embedding.weight.new_zeros(source.size(0), self.output_dim)
        for x in self.embedding(source.T):
            r_x, z_x, n_x = F.linear(x, rnn.weight_ih_l0, rnn.bias_ih_l0).chunk(3, dim=-1)
            r_h, z_h, n_h = F.linear(hidden, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, dim=-1)
            new = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
            z = torch.sigmoid(z_x + z_h)
            hidden = (1 - z) * new + z * hidden
            states.append(hidden)
        states, limits = torch.stack(states, dim=1), lengths.to(source.device)
        last = (limits - 1)[:, None, None].expand(-1, -1, self.output_dim)
        return Encoded(states, states.gather(1, last)[:, 0], padding_mask(limits, source.size(1)))


@wrong("final is the GRU's last state, which has read the padding too",
       breaks=FINAL,
       name='state after the padding')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@wrong('final is the mean of the states of all tokens',
       breaks=FINAL,
       name='mean instead of final state')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        limits = lengths.to(source.device)
        mask = padding_mask(limits, source.size(1))
        final = states.masked_fill(~mask.mT, 0).sum(1) / limits[:, None].to(states.dtype)
        return Encoded(states, final, mask)


@wrong('the mask says where the id is not 0',
       breaks=ONLY,
       name='padding guessed from the ids')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong('unpacks without total_length: states end with the longest sentence',
       breaks=EXTRA,
       name='states shorter than the batch')
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
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@wrong('sorts for packing, and puts the states back into order, but not the final states',
       breaks=FINAL,
       name='order of the final states not restored')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        ordered, order = lengths.sort(descending=True, stable=True)
        packed = pack_padded_sequence(self.embedding(source[order]), ordered, batch_first=True)
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states[order.argsort()], last[0], mask)


@wrong('final under no_grad: no gradient flows through it',
       breaks=GRADIENTS,
       name='gradient of the final state cut off')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        with torch.no_grad():
            final = at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong('starts from the last state of the batch before, if that had the same size',
       breaks=CALLS,
       name='state kept between calls')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        hidden = getattr(self, "hidden", None)
        if hidden is not None and hidden.size(1) != source.size(0):
            hidden = None
        states, hidden = self.rnn(self.embedding(source), hidden)
        self.hidden = hidden.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong('squeezes the last state: a batch of one sentence loses its axis',
       breaks=FINAL,
       name='squeeze removes the batch')
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
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last.squeeze(), mask)


@wrong("subtracts one from the caller's lengths to get the last positions",
       breaks=INPUTS,
       name='lengths changed in place')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        last = lengths.sub_(1)
        return Encoded(states, states[torch.arange(len(last)), last], mask)


@wrong('first state in float32, which a float64 or bfloat16 encoder refuses',
       breaks=DTYPE,
       name='float32 first state')
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        first = torch.zeros(1, source.size(0), self.output_dim, device=source.device)
        states, _ = self.rnn(self.embedding(source), first)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)
