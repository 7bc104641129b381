import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


def pick_last(x, lengths):
    """The lab's `at_end`, rightly."""
    rows = torch.arange(x.size(0), device=x.device)
    return x[rows, lengths.to(x.device) - 1]


@right("a packed batch, padded again to the size of the source")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size = source.size(1)
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed_states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=size
        )
        mask = padding_mask(lengths.to(source.device), size)
        return Encoded(states, last[0], mask)


@right(
    "reads every sentence alone, without its padding, and pads the states with zeros"
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            read, last = self.rnn(self.embedding(ids[:n]))
            states.append(F.pad(read, (0, 0, 0, len(ids) - n)))
            finals.append(last.squeeze(0))
        mask = torch.zeros(source.shape, dtype=torch.bool, device=source.device)
        for b, n in enumerate(lengths.tolist()):
            mask[b, :n] = True
        return Encoded(
            states=torch.stack(states),
            final=torch.stack(finals),
            mask=mask.unsqueeze(1),
        )


@right("the equations of the GRU in float64, with a state that stands still on padding")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def cell(self, x, h):
        rnn = self.rnn
        a = F.linear(x, rnn.weight_ih_l0.double(), rnn.bias_ih_l0.double())
        b = F.linear(h, rnn.weight_hh_l0.double(), rnn.bias_hh_l0.double())
        (ar, az, an), (br, bz, bn) = a.chunk(3, -1), b.chunk(3, -1)
        reset, update = torch.sigmoid(ar + br), torch.sigmoid(az + bz)
        new = torch.tanh(an + reset * bn)
        return (1 - update) * new + update * h

    def forward(self, source, lengths):
        positions = torch.arange(source.size(1), device=source.device)
        mask = positions < lengths.to(source.device)[:, None]
        vectors = self.embedding(source).double()
        state = vectors.new_zeros(source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            state = torch.where(
                mask[:, s, None], self.cell(vectors[:, s], state), state
            )
            states.append(state)
        dtype = self.embedding.weight.dtype
        return Encoded(torch.stack(states, 1).to(dtype), state.to(dtype), mask[:, None])


@right("one call of the GRU for each position; a boolean mask picks the final states")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        lengths = lengths.to(source.device)
        mask = padding_mask(lengths, source.size(1))
        state, columns = None, []
        for column in source.split(1, dim=1):
            read, state = self.rnn(self.embedding(column), state)
            columns.append(read)
        states = torch.cat(columns, dim=1)
        ends = mask[:, 0].clone()
        ends[:, :-1] &= ~mask[:, 0, 1:]
        return Encoded(states, states[ends], mask)


@wrong(
    "takes the last state that the GRU returns, which has read the padding",
    breaks="`final` (B, E) holds the state at the last token of each sentence.",
    name="final state after the padding",
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
    "takes id 0 for padding in the mask",
    breaks="Any id of the vocabulary may be a token, and any id may be padding.",
    name="mask from the ids",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = (source != 0)[:, None]
        return Encoded(states, pick_last(states, lengths), mask)


@wrong(
    "the mask is True on padding",
    breaks="`mask` (B, 1, S) is True on tokens and False on padding.",
    name="mask the wrong way round",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, pick_last(states, lengths), ~mask)


@wrong(
    "forgets batch_first, so the GRU reads down the batch instead of along the sentence",
    breaks="Write the `forward` of the simplest encoder, which embeds the tokens and reads them from left to right with one recurrent layer.",
    name="reads along the batch axis",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source).transpose(0, 1))
        states = states.transpose(0, 1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, pick_last(states, lengths), mask)


@wrong(
    "sorts the sentences by length to pack them, and forgets to sort the final states back",
    breaks="`final` (B, E) holds the state at the last token of each sentence.",
    name="final states in the wrong order",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        sizes, order = lengths.sort(descending=True)
        packed = pack_padded_sequence(
            self.embedding(source[order.to(source.device)]), sizes, batch_first=True
        )
        packed_states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=source.size(1)
        )
        states = states[order.argsort().to(source.device)]
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "packs the batch and pads it only to the longest sentence, not to S",
    breaks="A batch may be padded to more positions than its longest sentence has tokens.",
    name="cuts the padding off",
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
        packed_states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True)
        mask = padding_mask(lengths.to(source.device), states.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "leaves the lengths on the CPU, and so the mask",
    breaks="`padding_mask(lengths, size)` makes it on the device of the lengths, so first move the lengths to the device of `source`.",
    name="mask on the wrong device",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths, source.size(1))
        return Encoded(states, pick_last(states, lengths), mask)


@wrong(
    "goes on from the last batch's states if the new batch is as large",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="state carried over from an earlier call",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    carried = None

    def forward(self, source, lengths):
        if self.carried is not None and self.carried.size(1) != source.size(0):
            self.carried = None
        states, last = self.rnn(self.embedding(source), self.carried)
        self.carried = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, pick_last(states, lengths), mask)


@wrong(
    "picks the final states from detached states",
    breaks="Gradients must be right, too.",
    name="no gradient through the final state",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        final = torch.stack([row[n - 1] for row, n in zip(states.detach(), lengths)])
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "overwrites the padding of the source with zeros",
    breaks="Do not change the inputs.",
    name="changes the source",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source[~mask.squeeze(1)] = 0
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, pick_last(states, lengths), mask)
