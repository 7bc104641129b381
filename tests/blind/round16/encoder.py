import torch
from torch import nn
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from attention_course.tasks.core import PAD
from blind import right, wrong

SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRAD = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
READ = "Write the `forward` of the simplest encoder, which embeds the tokens and reads them from left to right with one recurrent layer."
STATES = "`states` (B, S, E) holds the state at every position."
FINAL = "`final` (B, E) holds the state at the last token of each sentence."
MASK = "`mask` (B, 1, S) is True on tokens and False on padding."
DEVICE = "`padding_mask(lengths, size)` makes it on the device of the lengths, so first move the lengths to the device of `source`."
ONLY = "Only the lengths tell you where the padding is."
ANY = "Any id of the vocabulary may be a token, and any id may be padding."
WIDER = "A batch may be padded to more positions than its longest sentence has tokens."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right('packs the batch, so the network never reads padding and its last state is the final one')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        embedded = self.embedding(source)
        packed = nn.utils.rnn.pack_padded_sequence(
            embedded, lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            packed, batch_first=True, total_length=source.size(1)
        )
        return Encoded(states, last[-1], padding_mask(lengths.to(source.device), source.size(1)))


@right('reads column by column and stops changing a state when its sentence has ended')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        mask = padding_mask(lengths.to(source.device), source.size(1))
        embedded = self.embedding(source)
        state = embedded.new_zeros(1, source.size(0), self.output_dim)
        states = []
        for s in range(source.size(1)):
            _, new = self.rnn(embedded[:, s : s + 1], state)
            state = torch.where(mask[:, 0, s, None], new, state)
            states.append(state[0])
        return Encoded(torch.stack(states, 1), state[0], mask)


@right('reads every sentence by itself, without its padding, and fills up the states with zeros')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        states = self.rnn.weight_hh_l0.new_zeros(*source.shape, self.output_dim)
        rows, finals = [], []
        for row, n in zip(source, lengths.tolist()):
            out, last = self.rnn(self.embedding(row[None, :n]))
            rows.append(torch.cat([out[0], states[0, n:]]))
            finals.append(last[0, 0])
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(rows), torch.stack(finals), mask)


@right('zeroes the embeddings of padding, gathers the final states, and compares positions for the mask')
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        n = lengths.to(source.device)[:, None]
        token = torch.arange(source.size(1), device=source.device) < n
        embedded = self.embedding(source).masked_fill(~token[:, :, None], 0)
        states = self.rnn(embedded)[0]
        final = states.take_along_dim((n - 1)[:, :, None], dim=1)[:, 0]
        return Encoded(states, final, token.unsqueeze(1))


@wrong(
    "takes the network's own last state, the one in the last column",
    breaks=FINAL,
    name='state in the last column',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        states, last = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    'makes the mask from the ids: id 0 may be a token, and padding may have another id',
    breaks=ONLY,
    name='mask from the ids',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != PAD)[:, None])


@wrong(
    'makes an embedding with padding_idx, so the token 0 gets no gradient',
    breaks=ANY,
    name='embedding with padding_idx',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=PAD)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'the mask is as wide as the longest sentence, not as the batch',
    breaks=WIDER,
    name='mask of the longest sentence',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), int(lengths.max()))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'unpacks without the total length, so the states end with the longest sentence',
    breaks=STATES,
    name='states of the longest sentence only',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    'packs as if the sentences were sorted by length: an error if they are not',
    breaks=SIZES,
    name='sorted sentences expected',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True
        )
        packed, last = self.rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            packed, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, last[0], mask)


@wrong(
    'begins with the last state of the batch before, if that had the same number of sentences',
    breaks=CALLS,
    name='state kept from an earlier call',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim
        self.last = None

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        state = self.last
        if state is not None and state.size(1) != source.size(0):
            state = None
        states, last = self.rnn(self.embedding(source), state)
        self.last = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'dropout on the embeddings, which changes the states in train mode',
    breaks=READ,
    name='dropout in train mode',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        embedded = nn.functional.dropout(self.embedding(source), 0.1, self.training)
        states, _ = self.rnn(embedded)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'detaches the state between two steps, so the gradient does not reach earlier tokens',
    breaks=GRAD,
    name='gradient cut between steps',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        embedded, state, states = self.embedding(source), None, []
        for s in range(source.size(1)):
            out, state = self.rnn(embedded[:, s : s + 1], state)
            state = state.detach()
            states.append(out)
        states = torch.cat(states, 1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'counts ids that are not 0 to find the last token; wrong if a token has the id 0 or padding another id',
    breaks=FINAL,
    name='last token from the ids',
)
class Encoder(nn.Module):
    """Read a source with one recurrent layer, from left to right.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        """Read a padded batch of sources.

        Args:
            source: (B, S), ids.
            lengths: (B,), of `torch.long`, tokens in each source; on the CPU.

        Returns:
            `Encoded`.
        """
        states, _ = self.rnn(self.embedding(source))
        counted = (source != PAD).sum(1).clamp(min=1)
        final = states[torch.arange(source.size(0), device=source.device), counted - 1]
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)
