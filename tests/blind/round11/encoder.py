import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong


def _at_end(x, lengths):
    rows = torch.arange(x.size(0), device=x.device)
    return x[rows, lengths.to(x.device) - 1]


@right("packed sequence, whose last state is the state at the last token")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source),
            lengths.tolist(),
            batch_first=True,
            enforce_sorted=False,
        )
        packed_states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[-1], mask)


@right("one position at a time, catching each sentence's state as it ends")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        counts = lengths.to(source.device)
        vectors = self.embedding(source)
        states, masks, state, final = [], [], None, None
        for position in range(source.shape[1]):
            column, state = self.rnn(vectors[:, position : position + 1], state)
            ends_here = (counts == position + 1).unsqueeze(-1)
            here = column.squeeze(1)
            final = here if final is None else torch.where(ends_here, here, final)
            states.append(here)
            masks.append(counts > position)
        return Encoded(
            torch.stack(states, dim=1),
            final,
            torch.stack(masks, dim=-1).unsqueeze(1),
        )


@right("each sentence alone without its padding, then zeros on the padding")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size = source.size(1)
        states, finals, mask = [], [], []
        for ids, n in zip(source, lengths.tolist()):
            alone, _ = self.rnn(self.embedding(ids[:n])[None])
            finals.append(alone[0, -1])
            states.append(F.pad(alone[0], (0, 0, 0, size - n)))
            mask.append([[s < n for s in range(size)]])
        return Encoded(
            mask=torch.tensor(mask, device=source.device),
            final=torch.stack(finals),
            states=torch.stack(states),
        )


@right("mask from the rows of a triangle, final by summing what is left after a where")
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        size = source.size(1)
        last = lengths.to(source.device).long() - 1
        triangle = torch.ones(size, size, dtype=torch.bool, device=source.device).tril()
        states = self.rnn(F.embedding(source, self.embedding.weight))[0]
        is_last = (torch.arange(size, device=source.device) == last[:, None])[..., None]
        final = torch.where(is_last, states, torch.zeros_like(states)).sum(dim=1)
        return Encoded(states, final, triangle[last][:, None])


@wrong(
    "final is the GRU's state in the last column, after the padding",
    "`final` (B, E) holds the state at the last token of each sentence.",
    "last column instead of the last token",
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
    "takes id 0 for padding when it makes the mask",
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
        return Encoded(states, _at_end(states, lengths), (source != 0)[:, None])


@wrong(
    "the mask is True on padding and False on tokens",
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
        positions = torch.arange(source.size(1), device=source.device)
        mask = positions >= lengths.to(source.device)[:, None, None]
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "unpacks only as many positions as the longest sentence has",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "states shorter than the source",
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
    "starts from a float32 state on the CPU, which fails in other dtypes and on a GPU",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "first state always float32 on the CPU",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        start = torch.zeros(1, source.size(0), self.output_dim)
        states, _ = self.rnn(self.embedding(source), start)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "writes zeros over the padding ids of the caller's source",
    "Do not change the inputs.",
    "changes source in place",
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
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "makes the mask on the CPU, where the lengths are, even if the source is on a GPU",
    "`padding_mask(lengths, size)` makes it on the device of the lengths, so first move"
    " the lengths to the device of `source`.",
    "mask on the wrong device",
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
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "silences the embedding of id 0, although id 0 may be a token",
    "Any id of the vocabulary may be a token, and any id may be padding.",
    "treats id 0 as padding",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        vectors = self.embedding(source) * source.ne(0).unsqueeze(-1)
        states, _ = self.rnn(vectors)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "compares positions and lengths in the dtype of the states, so that positions above"
    " 256 are rounded in bfloat16",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in a floating dtype of low precision",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states, _ = self.rnn(self.embedding(source))
        positions = torch.arange(source.size(1)).to(states)
        mask = positions < lengths.to(states)[:, None, None]
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "makes a new mask only if the shape of the source differs from that of the last call",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "stale mask from an earlier call",
)
class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        key = (source.shape, source.device)
        if getattr(self, "mask_key", None) != key:
            self.mask_key = key
            self.mask = padding_mask(lengths.to(source.device), source.size(1))
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, _at_end(states, lengths), self.mask)
