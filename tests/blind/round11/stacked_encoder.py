import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pad_packed_sequence,
)

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


def _at_end(x, lengths):
    rows = torch.arange(x.size(0), device=x.device)
    return x[rows, lengths.to(x.device) - 1]


@right("all layers in both directions in one call of torch.lstm on a packed sequence")
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source),
            lengths.tolist(),
            batch_first=True,
            enforce_sorted=False,
        )
        weights = []
        for forwards, backwards in zip(self.forwards, self.backwards):
            weights += [*forwards.parameters(), *backwards.parameters()]
        layers = len(self.forwards)
        zeros = packed.data.new_zeros(
            2 * layers, source.size(0), self.output_dim // 2
        )
        data, last, _ = torch.lstm(
            packed.data,
            packed.batch_sizes,
            (zeros, zeros),
            weights,
            True,
            layers,
            0.0,
            self.training,
            True,
        )
        states, _ = pad_packed_sequence(
            PackedSequence(
                data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
            ),
            batch_first=True,
            total_length=source.size(1),
        )
        last = last.index_select(1, packed.unsorted_indices)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat([last[-2], last[-1]], dim=-1), mask)


@right("each sentence alone without its padding, flipped as a whole")
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        size = source.size(1)
        states, final = [], []
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[:n])[None]
            for forwards, backwards in zip(self.forwards, self.backwards):
                h = forwards(x)[0]
                g = backwards(x.flip(1))[0].flip(1)
                x = torch.cat([h, g], dim=2)
            final.append(torch.cat([h[0, -1], g[0, 0]]))
            states.append(F.pad(x[0], (0, 0, 0, size - n)))
        positions = torch.arange(size, device=source.device)
        mask = positions < lengths.to(source.device)[:, None, None]
        return Encoded(states=torch.stack(states), final=torch.stack(final), mask=mask)


@right("own index for reversing, both halves of final picked from the top states")
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        n = lengths.to(source.device).long().unsqueeze(1)
        positions = torch.arange(source.size(1), device=source.device).unsqueeze(0)
        is_token = positions < n
        order = torch.where(is_token, n - 1 - positions, positions)
        rows = torch.arange(source.size(0), device=source.device).unsqueeze(1)
        states = self.embedding(source)
        for layer in range(len(self.forwards)):
            g, _ = self.backwards[layer](states[rows, order])
            h, _ = self.forwards[layer](states)
            states = torch.cat([h, g[rows, order]], dim=-1)
        half = self.output_dim // 2
        final = states[rows[:, 0], n[:, 0] - 1]
        final = torch.cat([final[:, :half], states[:, 0, half:]], dim=-1)
        return Encoded(states, final, is_token.unsqueeze(1))


def _read_backwards(rnn, x, is_token):
    """Read from the last column to the first, and stay at zero until a token comes."""
    h = c = x.new_zeros(1, x.size(0), rnn.hidden_size)
    states = []
    for position in reversed(range(x.size(1))):
        _, (new_h, new_c) = rnn(x[:, position : position + 1], (h, c))
        here = is_token[None, :, position, None]
        h = torch.where(here, new_h, torch.zeros_like(new_h))
        c = torch.where(here, new_c, torch.zeros_like(new_c))
        states.insert(0, h[0])
    return torch.stack(states, dim=1)


@right("no reversing at all: the backward LSTM walks from right to left, step by step")
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h = forwards(states)[0]
            g = _read_backwards(backwards, states, mask[:, 0])
            states = torch.cat([h, g], dim=-1)
        final = torch.cat([_at_end(h, lengths), g[:, 0]], dim=-1)
        return Encoded(states, final, mask)


@wrong(
    "reverses whole rows with flip(1), so a short sentence begins with its padding",
    "Reverse each sentence *within its own length* instead, with `reverse_padded(x,"
    " lengths)`.",
    "reverses the padding along with the sentence",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(states.flip(1))
            states = torch.cat([h, g.flip(1)], dim=-1)
        final = torch.cat([_at_end(h, lengths), g[:, -1]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "picks both halves of final at the last token, where the backward LSTM has read only"
    " one token",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "backward state at the last token",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, _at_end(states, lengths), mask)


@wrong(
    "the backward state comes first",
    "Concatenate their two states at each position, the forward state first:",
    "concatenates in the wrong order",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([reverse_padded(g, lengths), h], dim=-1)
        final = torch.cat([_at_end(g, lengths), _at_end(h, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the backward half of final from the last column of the reversed batch, which"
    " has read padding too",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "backward state from the last column",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, (last, _) = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([_at_end(h, lengths), last[0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "keeps the final state of the lowest layer, which shows only with two layers or more",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "final state of the lowest layer",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states, final = self.embedding(source), None
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
            if final is None:
                final = torch.cat([_at_end(h, lengths), _at_end(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "starts each layer from the last state and cell of the layer below",
    "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.",
    "hands the last state on to the next layer",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        right_to_left = left_to_right = None
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, left_to_right = forwards(states, left_to_right)
            g, right_to_left = backwards(
                reverse_padded(states, lengths), right_to_left
            )
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([_at_end(h, lengths), _at_end(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "cuts the batch to its longest sentence, so states and mask have fewer positions"
    " than the source",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "states shorter than the source",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        source = source[:, : int(lengths.max())]
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([_at_end(h, lengths), _at_end(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "dropout between the layers in train mode, so a higher layer does not read the"
    " states below it",
    "The lowest layer reads the embeddings, and every higher layer reads the states of"
    " the layer below it.",
    "dropout that the lab does not ask for",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for layer, forwards in enumerate(self.forwards):
            if layer > 0:
                states = F.dropout(states, 0.1, self.training)
            h, _ = forwards(states)
            g, _ = self.backwards[layer](reverse_padded(states, lengths))
            states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        final = torch.cat([_at_end(h, lengths), _at_end(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "keeps the order for reversing as long as the shape of the source stays the same,"
    " although the lengths may differ",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "stale order from an earlier call",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        counts = lengths.to(source.device)
        rows = torch.arange(source.size(0), device=source.device)[:, None]
        positions = torch.arange(source.size(1), device=source.device)
        key = (source.shape, source.device)
        if getattr(self, "key", None) != key:
            self.key = key
            self.order = torch.where(
                positions < counts[:, None], counts[:, None] - 1 - positions, positions
            )
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(states[rows, self.order])
            states = torch.cat([h, g[rows, self.order]], dim=-1)
        final = torch.cat([_at_end(h, lengths), _at_end(g, lengths)], dim=-1)
        mask = padding_mask(counts, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "restores the order of the backward states only after the top layer, so with two"
    " layers or more the next layer reads forward and backward states of different tokens",
    "So let the backward LSTM read a reversed batch, and reverse its states again before"
    " you concatenate them with the forward states.",
    "backward states between the layers not reversed again",
)
class StackedEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            h, _ = forwards(states)
            g, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([h, g], dim=-1)
        final = _at_end(states, lengths)
        states = torch.cat([h, reverse_padded(g, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)
