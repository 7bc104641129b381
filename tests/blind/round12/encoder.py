import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import at_end, reverse_padded
from attention_course.seq2seq import Encoded

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "takes the last state that the GRU returns, which belongs to the last column",
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
    "final is the mean of all states",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "mean instead of final state",
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
        return Encoded(states, states.mean(dim=1), mask)


@wrong(
    "takes the axis of the queries out of the mask",
    "`mask` (B, 1, S) is True on tokens and False on padding.",
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
    "makes the mask from the ids: id 0 is padding, everything else a token",
    "Only the lengths tell you where the padding is.",
    "mask from the ids",
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
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong(
    "embeds id 0 as zeros, as if it were always padding",
    "Any id of the vocabulary may be a token, and any id may be padding.",
    "token with id 0 erased",
    subtle=True,
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        embedded = self.embedding(source).masked_fill((source == 0)[..., None], 0)
        states, _ = self.rnn(embedded)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "unpacks without total_length: as many states as the longest sentence has tokens",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "states cut to the longest sentence",
    subtle=True,
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
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    "packs with enforce_sorted=True: sentences must come in order of falling length",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "only works if the lengths are sorted",
    subtle=True,
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size = source.size(1)
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True)
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=size)
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), size))


@wrong(
    "leaves the mask on the CPU, where the lengths are",
    "`padding_mask(lengths, size)` makes it on the device of the lengths, so first move"
    " the lengths to the device of `source`.",
    "mask on the CPU",
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
    "starts from zeros that are always float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "first state always float32",
    subtle=True,
)
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


@wrong(
    "keeps the last state and starts the next batch of the same size from it",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "state kept between calls",
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


# ---------------------------------------------------------------- right answers


@right("packs the batch, so the GRU never reads padding")
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
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=size)
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), size))


@right("one column at a time; a sentence that has ended keeps its state")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        vectors = self.embedding(source)
        state = vectors.new_zeros(source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            new = self.rnn(vectors[:, s : s + 1], state[None])[0][:, 0]
            state = torch.where(mask[:, 0, s, None], new, state)
            states.append(state)
        return Encoded(torch.stack(states, dim=1), state, mask)


@right("one sentence at a time without its padding; zeros where the padding is")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        rows, ends = [], []
        for ids, n in zip(source, lengths.tolist()):
            states, end = self.rnn(self.embedding(ids[None, :n]))
            blank = states.new_zeros(source.size(1) - n, self.output_dim)
            rows.append(torch.cat([states[0], blank]))
            ends.append(end[0, 0])
        positions = torch.arange(source.size(1), device=source.device)
        mask = positions.lt(lengths.to(source.device).view(-1, 1, 1))
        return Encoded(torch.stack(rows), torch.stack(ends), mask)


@right("wipes the padding's embeddings by the mask, and reverses to find the end")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        there = lengths.to(device=source.device)
        mask = padding_mask(there, source.shape[1])
        vectors = self.embedding(source).masked_fill(~mask.transpose(1, 2), 0)
        states = self.rnn(vectors)[0]
        final = reverse_padded(states, there).select(1, 0)
        return Encoded(mask=mask, final=final, states=states)
