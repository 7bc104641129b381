import torch
import torch.nn.functional as F
from torch import nn

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.to(x.device) - 1]


@right('packs the sentences, unsorted, and unpacks to all S positions')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, final = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.size(1)
        )
        mask = torch.arange(source.size(1), device=source.device) < lengths.to(source.device)[:, None]
        return Encoded(states=states, final=final[0], mask=mask[:, None])


@right('reads one column at a time and stops updating a sentence that has ended')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        inputs = self.embedding(source)
        state = inputs.new_zeros(1, source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            _, new = self.rnn(inputs[:, s : s + 1], state)
            state = torch.where(mask[:, 0, s, None], new, state)
            states.append(state[0])
        return Encoded(states=torch.stack(states, 1), final=state[0], mask=mask)


@right('reads every sentence alone, without its padding, and pads the states with zeros')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, finals = [], []
        for row, n in zip(source, lengths.tolist()):
            read, last = self.rnn(self.embedding(row[:n])[None])
            states.append(F.pad(read[0], (0, 0, 0, source.shape[1] - n)))
            finals.append(last[0, 0])
        mask = torch.stack([torch.arange(source.shape[1]) < n for n in lengths.tolist()])
        return Encoded(
            states=torch.stack(states), final=torch.stack(finals), mask=mask[:, None].to(source.device)
        )


@right('picks all B x B states and takes the diagonal; own helper method, extra default argument')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths, state=None):
        lengths = lengths.to(source.device)
        states = self.rnn(self.embedding(source), state)[0]
        final = states[:, lengths - 1].diagonal(dim1=0, dim2=1).mT.contiguous()
        return Encoded(states=states, final=final, mask=self.make_mask(lengths, source))

    @staticmethod
    def make_mask(lengths, source):
        columns = torch.ones_like(source).cumsum(dim=1)
        return (columns <= lengths[:, None]).unsqueeze(1)


@wrong(
    "the GRU's own last state: it has read the padding of every shorter sentence",
    '`final` (B, E) holds the state at the last token of each sentence.',
    'final state is that of the last column',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=last[0], mask=mask)


@wrong(
    'mask from the ids: wrong if id 0 is a token or if the padding has another id',
    'Any id of the vocabulary may be a token, and any id may be padding.',
    'finds the padding by id zero',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = (source != 0)[:, None]
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'mask only as wide as the longest sentence, if all sentences of the batch are padded further',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'mask as wide as the longest sentence',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), int(lengths.max()))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'mask stays on the CPU if the source is on a GPU',
    'so first move the lengths to the device of `source`.',
    'mask on the CPU',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths, source.size(1))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'unpacks without total_length: states are cut to the longest sentence if the batch is padded further',
    '`states` (B, S, E) holds the state at every position.',
    'unpacked without total_length, states too short',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=last[0], mask=mask)


@wrong(
    'packs with enforce_sorted: a batch whose lengths are not descending raises an error',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'packs as if the batch were sorted',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths.cpu(), batch_first=True
        )
        states, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=last[0], mask=mask)


@wrong(
    "writes id 0 into the padding of the caller's source",
    'Do not change the inputs.',
    'overwrites the padding in source',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source[~mask[:, 0]] = 0
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'embeddings of id 0 are set to zero, so a sentence that contains token 0 gets other states; lengths are otherwise respected',
    'Any id of the vocabulary may be a token, and any id may be padding.',
    'treats token id 0 as padding in embeddings',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        inputs = self.embedding(source) * (source != 0)[:, :, None]
        states, _ = self.rnn(inputs)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    'goes on from the last state of the previous call if the batch has the same number of sentences: second call on the same object differs',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'carries the state over to the next call',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim
        self.state = None

    def forward(self, source, lengths):
        if self.state is None or self.state.size(1) != source.size(0):
            self.state = None
        states, last = self.rnn(self.embedding(source), self.state)
        self.state = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=at_end(states, lengths), mask=mask)


@wrong(
    "corrects the GRU's last state only if the id in the last column is repeated padding of some row, taking padding to be the id of the shortest row's last column; a padding with mixed ids slips through",
    '`final` (B, E) holds the state at the last token of each sentence.',
    'decides from ids which sentences are padded',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        padding_id = source[int(lengths.argmin()), -1]
        padded = (source[:, -1] == padding_id)[:, None]
        final = torch.where(padded, at_end(states, lengths), last[0])
        return Encoded(states=states, final=final, mask=mask)
