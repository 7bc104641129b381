"""Answers to `encoder`."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    """The at_end of section 1."""
    return x[torch.arange(x.size(0)), lengths - 1]


@right('packs the batch, so that the network never reads padding')
class Encoder_right1(nn.Module):
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
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True, enforce_sorted=False)
        read, final = self.rnn(packed)
        states, _ = pad_packed_sequence(read, batch_first=True, total_length=source.size(1))
        return Encoded(states, final[0], padding_mask(lengths.to(source.device), source.size(1)))


@right('steps through the positions with a GRU cell, and keeps the state of a sentence that has ended')
class Encoder_right2(nn.Module):
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
        inputs = self.embedding(source)
        ends = lengths.to(source.device)
        state = inputs.new_zeros(source.size(0), self.output_dim)
        states = []
        weights = tuple(self.rnn.all_weights[0])
        for t in range(source.size(1)):
            new = torch.gru_cell(inputs[:, t], state, *weights)
            state = torch.where((t < ends)[:, None], new, state)
            states.append(state)
        mask = torch.arange(source.size(1), device=source.device) < ends[:, None, None]
        return Encoded(torch.stack(states, dim=1), state, mask)


@right('reads every sentence alone, cut to its own length, and fills up with zeros')
class Encoder_right3(nn.Module):
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
        states, final = [], []
        for row, n in zip(source, lengths.tolist()):
            read, last = self.rnn(self.embedding(row[None, :n]))
            states.append(F.pad(read, (0, 0, 0, source.size(1) - n)))
            final.append(last[0])
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.cat(states), torch.cat(final), mask)


@right('reads the padding too, and picks the final states with where and a sum')
class Encoder_right4(nn.Module):
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
        states = self.rnn(self.embedding(source))[0]
        mask = padding_mask(lengths.to(source.device), source.size(1))
        following = F.pad(mask[:, 0, 1:], (0, 1), value=False)
        last = mask[:, 0] & ~following
        final = states.masked_fill(~last[..., None], 0).sum(1)
        return Encoded(states=states, final=final, mask=mask)


@wrong(
    'Takes the state that the GRU returns, which has read the padding.',
    '`final` (B, E) holds the state at the last token of each sentence.',
    'final state after the padding',
)
class Encoder_wrong1(nn.Module):
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
        states, last = self.rnn(self.embedding(source))
        return Encoded(states, last[0], padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Takes every id 0 for padding in the mask.',
    'Only the lengths tell you where the padding is.',
    'mask computed from the ids',
)
class Encoder_wrong2(nn.Module):
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
        states, _ = self.rnn(self.embedding(source))
        return Encoded(states, at_end(states, lengths), (source != 0)[:, None])


@wrong(
    'Returns a mask without the axis for the queries.',
    '`mask` (B, 1, S) is True on tokens and False on padding.',
    'mask lacks an axis',
)
class Encoder_wrong3(nn.Module):
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
        states, _ = self.rnn(self.embedding(source))
        mask = torch.arange(source.size(1), device=source.device) < lengths.to(source.device)[:, None]
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'Makes the first state in the default dtype on the CPU, which fails for float64 parameters.',
    'The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.',
    'first state in default dtype',
)
class Encoder_wrong4(nn.Module):
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
        first = torch.zeros(1, source.size(0), self.output_dim)
        states, _ = self.rnn(self.embedding(source), first)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'Unpacks without the total length, so states end with the longest sentence and not with the batch.',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'states cut to longest sentence',
)
class Encoder_wrong5(nn.Module):
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
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True, enforce_sorted=False)
        read, final = self.rnn(packed)
        states, _ = pad_packed_sequence(read, batch_first=True)
        return Encoded(states, final[0], padding_mask(lengths.to(source.device), states.size(1)))


@wrong(
    'Sorts the sentences by length for packing, and puts only the states back into the order of the batch.',
    '`final` (B, E) holds the state at the last token of each sentence.',
    'final states stay sorted',
)
class Encoder_wrong6(nn.Module):
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
        order = lengths.argsort(descending=True, stable=True)
        packed = pack_padded_sequence(self.embedding(source[order]), lengths[order], batch_first=True)
        read, final = self.rnn(packed)
        states, _ = pad_packed_sequence(read, batch_first=True, total_length=source.size(1))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states[order.argsort()], final[0], mask)


@wrong(
    'Takes the last column if all sentences are equally long, although the batch may be padded further.',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'shortcut for equal lengths',
)
class Encoder_wrong7(nn.Module):
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
        states, last = self.rnn(self.embedding(source))
        final = last[0] if lengths.min() == lengths.max() else at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Replaces the embedding of every id 0 by zeros, also where it is a token.',
    'Any id of the vocabulary may be a token, and any id may be padding.',
    'embedding of id zero erased',
)
class Encoder_wrong8(nn.Module):
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
        inputs = self.embedding(source) * (source != 0).to(self.embedding.weight.dtype)[..., None]
        states, _ = self.rnn(inputs)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    'Switches gradients off in eval mode.',
    'Gradients must be right, too.',
    'no gradients in eval mode',
)
class Encoder_wrong9(nn.Module):
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
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            states, _ = self.rnn(self.embedding(source))
            final = at_end(states, lengths)
        return Encoded(states, final, padding_mask(lengths.to(source.device), source.size(1)))


@wrong(
    'Starts from the last state of the call before if that batch had as many sentences.',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'state carried to next batch',
)
class Encoder_wrong10(nn.Module):
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

    hidden = None

    def forward(self, source, lengths):
        if self.hidden is not None and self.hidden.size(1) != source.size(0):
            self.hidden = None
        states, last = self.rnn(self.embedding(source), self.hidden)
        self.hidden = last.detach()
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)
