import torch
from torch import nn

from attention_course.masks import padding_mask
from attention_course.rnn import at_end
from attention_course.seq2seq import Encoded
from blind import right, wrong


@right("packed sequences; the final state is the packed GRU's own last state")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source),
            lengths.cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        out, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            out, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(mask=mask, final=last[0], states=states)


@right("reads one column at a time and keeps the state of those that end there")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        x = self.embedding(source)
        last = lengths.to(source.device) - 1
        state, final, columns = None, None, []
        for s in range(source.size(1)):
            _, state = self.rnn(x[:, s : s + 1], state)
            columns.append(state[0])
            before = state[0] if final is None else final
            final = torch.where((last == s)[:, None], state[0], before)
        positions = torch.arange(source.size(1), device=source.device)
        mask = (positions <= last[:, None]).unsqueeze(1)
        return Encoded(torch.stack(columns, dim=1), final, mask)


@right("the GRU written out in einsum and float64, a helper method, an extra attribute")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim
        self.calls = 0

    def advance(self, x, h):
        w, u = self.rnn.weight_ih_l0.double(), self.rnn.weight_hh_l0.double()
        a, b = self.rnn.bias_ih_l0.double(), self.rnn.bias_hh_l0.double()
        xr, xz, xn = (torch.einsum("bi,gi->bg", x, w) + a).chunk(3, dim=-1)
        hr, hz, hn = (torch.einsum("bi,gi->bg", h, u) + b).chunk(3, dim=-1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        return (1 - z) * torch.tanh(xn + r * hn) + z * h

    def forward(self, source, lengths):
        self.calls += 1
        embedded = self.embedding(source)
        x, states = embedded.double(), []
        h = x.new_zeros(x.size(0), self.output_dim)
        for s in range(x.size(1)):
            h = self.advance(x[:, s], h)
            states.append(h)
        states = torch.stack(states, dim=1).to(embedded.dtype)
        here = lengths.to(source.device)
        return Encoded(states, at_end(states, here), padding_mask(here, x.size(1)))


@right("each sentence on its own, without its padding; zeros on the padding")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size = source.size(1)
        mask = torch.zeros(
            len(source), 1, size, dtype=torch.bool, device=source.device
        )
        states, finals = [], []
        for b, n in enumerate(lengths.tolist()):
            read, last = self.rnn(self.embedding(source[b : b + 1, :n]))
            states.append(nn.functional.pad(read, (0, 0, 0, size - n)))
            finals.append(last[0])
            mask[b, :, :n] = True
        return Encoded(torch.cat(states), torch.cat(finals), mask)


@wrong(
    "takes the GRU's own last state, which has read the padding too",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "state of the last column",
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
    "the mask is True on padding",
    "`mask` (B, 1, S) is True on tokens and False on padding.",
    "mask the wrong way round",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = ~padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "the mask has no axis for the queries, it is (B, S)",
    "`mask` (B, 1, S) is True on tokens and False on padding.",
    "mask without its middle axis",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        positions = torch.arange(source.size(1), device=source.device)
        mask = positions < lengths.to(source.device)[:, None]
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "takes every id 0 for padding, also a token 0, and no other id",
    "Any id of the vocabulary may be a token, and any id may be padding.",
    "padding guessed from the ids",
    subtle=True,
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
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "makes the mask only as long as the longest sentence, not as the batch",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "mask of lengths.max() positions",
    subtle=True,
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
    "leaves the lengths, and so the mask, on the CPU",
    "`padding_mask(lengths, size)` makes it on the device of the lengths, so first move"
    " the lengths to the device of `source`.",
    "mask on the wrong device",
    subtle=True,
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
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "embeds with padding_idx=0: the numbers are right, but the embedding of token 0 gets"
    " no gradient",
    "Gradients must be right, too.",
    "no gradient for token 0",
    subtle=True,
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        x = nn.functional.embedding(source, self.embedding.weight, padding_idx=0)
        states, _ = self.rnn(x)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "writes id 0 on the padding of the source in place",
    "Do not change the inputs.",
    "source changed in place",
    subtle=True,
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
    "unpacks without total_length, so the states end with the longest sentence",
    "`states` (B, S, E) holds the state at every position.",
    "columns of padding lost in pad_packed_sequence",
    subtle=True,
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
        out, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "starts a batch from the state in which the last batch of this size ended",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "state carried over between calls",
    subtle=True,
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
