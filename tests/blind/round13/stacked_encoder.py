import torch
from torch import nn

from attention_course.masks import padding_mask
from attention_course.rnn import at_end, reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


@right("each sentence on its own, without padding, where flip(1) is allowed")
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
        states, finals = [], []
        for b, n in enumerate(lengths.tolist()):
            x = self.embedding(source[b : b + 1, :n])
            for forwards, backwards in zip(self.forwards, self.backwards):
                ahead = forwards(x)[0]
                back = backwards(x.flip(1))[0].flip(1)
                x = torch.cat([ahead, back], dim=-1)
            finals.append(torch.cat([ahead[:, -1], back[:, 0]], dim=-1))
            states.append(nn.functional.pad(x, (0, 0, 0, size - n)))
        mask = padding_mask(lengths.to(source.device), size)
        return Encoded(torch.cat(states), torch.cat(finals), mask)


@right("own reversal by a modulo of the positions; backward final state at position 0")
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
        size, here = source.size(1), lengths.to(source.device)
        positions = torch.arange(size, device=source.device)
        turn = (here[:, None] - 1 - positions) % size  # (B, S)
        rows = torch.arange(source.size(0), device=source.device)[:, None]
        states = self.embedding(source)
        for layer in range(len(self.forwards)):
            below = states
            back = self.backwards[layer](below[rows, turn])[0][rows, turn]
            ahead = self.forwards[layer](below)[0]
            states = torch.cat((ahead, back), dim=2)
        final = torch.cat((at_end(ahead, here), back[:, 0]), dim=1)
        return Encoded(states, final, (positions < here[:, None])[:, None])


@right("LSTMs written out in float64; on padding the state stays, read right to left")
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

    def read(self, rnn, x, real, order):
        w, u = rnn.weight_ih_l0.double(), rnn.weight_hh_l0.double()
        bias = rnn.bias_ih_l0.double() + rnn.bias_hh_l0.double()
        h = x.new_zeros(x.size(0), rnn.hidden_size)
        c, columns = torch.zeros_like(h), {}
        for s in order:
            i, f, g, o = (x[:, s] @ w.T + h @ u.T + bias).chunk(4, dim=-1)
            cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(cell)
            keep = real[:, s, None]
            h, c = torch.where(keep, state, h), torch.where(keep, cell, c)
            columns[s] = h
        return torch.stack([columns[s] for s in sorted(columns)], dim=1), h

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        embedded = self.embedding(source)
        states, order = embedded.double(), range(source.size(1))
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, end = self.read(forwards, states, mask[:, 0], order)
            back, start = self.read(backwards, states, mask[:, 0], reversed(order))
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([end, start], dim=-1)
        return Encoded(states.to(embedded.dtype), final.to(embedded.dtype), mask)


@right("packed sequences in both directions, final state from the LSTMs' own h")
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

    def packed(self, rnn, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, (h, _) = rnn(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            out, batch_first=True, total_length=x.size(1)
        )
        return states, h[-1]

    def forward(self, source, lengths):
        states = self.embedding(source)
        for pair in zip(self.forwards, self.backwards):
            turned, start = self.packed(pair[1], reverse_padded(states, lengths), lengths)
            ahead, end = self.packed(pair[0], states, lengths)
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        mask = padding_mask(lengths, source.size(1)).to(source.device)
        return Encoded(mask=mask, states=states, final=torch.hstack([end, start]))


@wrong(
    "reverses the whole batch, so short sentences begin with their padding",
    "Reverse each sentence *within its own length* instead, with `reverse_padded(x,"
    " lengths)`.",
    "flip of the padded batch",
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
            ahead, _ = forwards(states)
            turned, _ = backwards(states.flip(1))
            back = turned.flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "concatenates the backward states in their reversed order",
    "So let the backward LSTM read a reversed batch, and reverse its states again before"
    " you concatenate them with the forward states.",
    "backward states not reversed again",
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
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, turned], dim=-1)
        final = at_end(states, lengths)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes both final states at the last token, where the backward LSTM has read only"
    " one token",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "backward state at the wrong end",
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
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            back = reverse_padded(turned, lengths)
            states = torch.cat([ahead, back], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "concatenates the backward state first",
    "Concatenate their two states at each position, the forward state first:",
    "order of the two directions",
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
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([reverse_padded(turned, lengths), ahead], dim=-1)
        final = torch.cat([at_end(turned, lengths), at_end(ahead, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the final state from the lowest layer; right for one layer",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "final state of the lowest layer",
    subtle=True,
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
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
            if final is None:
                ends = [at_end(ahead, lengths), at_end(turned, lengths)]
                final = torch.cat(ends, dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "starts each layer from the last state and cell of the layer below; right for one"
    " layer",
    "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.",
    "state handed from layer to layer",
    subtle=True,
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
        states, right_going, left_going = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, right_going = forwards(states, right_going)
            turned, left_going = backwards(reverse_padded(states, lengths), left_going)
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "writes zeros on the padding and flips the whole batch; the biases change the state"
    " on zeros too",
    "Reverse each sentence *within its own length* instead, with `reverse_padded(x,"
    " lengths)`.",
    "zeros on the padding taken for harmless",
    subtle=True,
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
        mask = padding_mask(lengths.to(source.device), source.size(1))
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            states = states * mask.transpose(1, 2)  # nothing to read on padding
            ahead, _ = forwards(states)
            back = backwards(states.flip(1))[0].flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, mask)


@wrong(
    "drops a tenth of the states between two layers in train mode; right for one layer",
    "The lowest layer reads the embeddings, and every higher layer reads the states of"
    " the layer below it.",
    "dropout that nobody asked for",
    subtle=True,
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
                states = nn.functional.dropout(states, 0.1, self.training)
            ahead, _ = forwards(states)
            turned, _ = self.backwards[layer](reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "cuts the batch to its longest sentence, so states and mask have fewer than S"
    " positions",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "columns of padding cut off",
    subtle=True,
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
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "sorts the sentences by length and does not put them back into their order; right"
    " for a batch whose longest sentences come first",
    "`states` and `mask` are as in section 2.",
    "batch left in sorted order",
    subtle=True,
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
        order = torch.argsort(lengths, descending=True, stable=True)
        source, lengths = source[order.to(source.device)], lengths[order]
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)
