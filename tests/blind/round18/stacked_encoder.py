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


@right("every sentence alone, without padding, turned with flip and read unbatched")
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
        def read(ids):
            x = self.embedding(ids)
            for forwards, backwards in zip(self.forwards, self.backwards):
                ahead, (h, _) = forwards(x)
                back, (g, _) = backwards(x.flip(0))
                x = torch.cat([ahead, back.flip(0)], dim=-1)
            return x, torch.cat([h[0], g[0]])

        results = [read(ids[:n]) for ids, n in zip(source, lengths.tolist())]
        size = source.size(1)
        states = torch.stack([F.pad(x, (0, 0, 0, size - len(x))) for x, _ in results])
        final = torch.stack([end for _, end in results])
        mask = (
            torch.arange(size, device=source.device)
            < lengths.to(source.device)[:, None]
        )
        return Encoded(states, final, mask[:, None])


@right(
    "the equations of the LSTM, from right to left for the backward LSTM, with zeros until the sentence begins"
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

    def run(self, rnn, x, alive, positions):
        h = c = x.new_zeros(len(x), rnn.hidden_size)
        outputs = {}
        for s in positions:
            sums = F.linear(x[:, s], rnn.weight_ih_l0, rnn.bias_ih_l0)
            sums = sums + F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
            i, f, g, o = sums.chunk(4, dim=1)
            new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            new_h = o.sigmoid() * new_c.tanh()
            # nothing happens on padding
            h = torch.where(alive[:, s], new_h, h)
            c = torch.where(alive[:, s], new_c, c)
            outputs[s] = h
        return torch.stack([outputs[s] for s in sorted(outputs)], dim=1), h

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        alive = mask.transpose(1, 2)
        x = self.embedding(source)
        positions = range(source.size(1))
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, h = self.run(forwards, x, alive, positions)
            back, g = self.run(backwards, x, alive, reversed(positions))
            x = torch.cat((ahead, back), dim=2)
        return Encoded(x, torch.cat((h, g), dim=1), mask)


@right("packed sequences, and the order as a permutation of positions")
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
        size, device = source.size(1), source.device
        s = torch.arange(size)
        turned = torch.where(s < lengths[:, None], lengths[:, None] - 1 - s, s).to(
            device
        )

        def turn(x):
            return torch.take_along_dim(x, turned[:, :, None], dim=1)

        def read(rnn, x):
            packed = pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            states, (h, _) = rnn(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=size)
            return states, h[-1]

        x = self.embedding(source)
        for layer in range(len(self.forwards)):
            ahead, h = read(self.forwards[layer], x)
            back, g = read(self.backwards[layer], turn(x))
            x = torch.cat([ahead, turn(back)], dim=-1)
        return Encoded(
            x, torch.cat([h, g], dim=-1), (s < lengths[:, None])[:, None].to(device)
        )


@right(
    "a loop over the layers by recursion, sentences shifted to the right end for the backward LSTM"
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
        size = source.size(1)
        sizes = lengths.to(source.device)
        s = torch.arange(size, device=source.device)
        # where the batch is flipped, the tokens of sentence b begin at size - n
        start = (size - sizes)[:, None]
        rows = torch.arange(len(source), device=source.device)[:, None]

        def climb(layer, x):
            ahead = self.forwards[layer](x)[0]
            flipped = x.flip(1)[rows, (s + start) % size]
            read = self.backwards[layer](flipped)[0]
            back = read[rows, (s - start) % size].flip(1)
            both = torch.cat([ahead, back], dim=-1)
            return both if layer + 1 == len(self.forwards) else climb(layer + 1, both)

        states = climb(0, self.embedding(source))
        ahead, back = states.tensor_split(2, dim=-1)
        final = torch.cat([ahead[rows[:, 0], sizes - 1], back[:, 0]], dim=-1)
        return Encoded(states, final, (s < sizes[:, None]).unsqueeze(1))


@wrong(
    "flips the whole batch, so short sentences begin with their padding",
    breaks="Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`.",
    name="flips the padding to the front",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(states.flip(1))
            back = back.flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), back[:, 0]], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the final state from the states of the top layer at the last token, in both halves",
    breaks="The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.",
    name="backward state at the last token",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, sizes))
            states = torch.cat([ahead, reverse_padded(back, sizes)], dim=-1)
        final = pick_last(states, sizes)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "forgets to reverse the backward states again",
    breaks="So let the backward LSTM read a reversed batch, and reverse its states again before you concatenate them with the forward states.",
    name="backward states not reversed again",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, sizes))
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "replaces the forward half of states before the backward LSTM has read them",
    breaks="Both LSTMs of a layer read the same `states`, those of the layer below.",
    name="backward LSTM reads the layer's own forward states",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            width = ahead.size(-1)
            if states.size(-1) == 2 * width:
                states = torch.cat([ahead, states[..., width:]], dim=-1)
            back, _ = backwards(reverse_padded(states, sizes))
            states = torch.cat([ahead, reverse_padded(back, sizes)], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the cells of the top layer for the final state",
    breaks="Pass on only the states, both to the next layer and into `states` and `final`.",
    name="cells instead of states in the final state",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)

        def pack(x):
            return pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )

        for forwards, backwards in zip(self.forwards, self.backwards):
            _, (_, h) = forwards(pack(states))
            _, (_, g) = backwards(pack(reverse_padded(states, sizes)))
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, sizes))
            states = torch.cat([ahead, reverse_padded(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, torch.cat([h[0], g[0]], dim=-1), mask)


@wrong(
    "starts every layer from the last state and cell of the layer below",
    breaks="Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.",
    name="state handed up to the next layer",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        hc_ahead = hc_back = None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, hc_ahead = forwards(states, hc_ahead)
            back, hc_back = backwards(reverse_padded(states, sizes), hc_back)
            states = torch.cat([ahead, reverse_padded(back, sizes)], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the final state from the lowest layer",
    breaks="The final state of a sentence combines two states of the top layer: the forward state at the last token, and the backward state that has read the whole sentence.",
    name="final state of the lowest layer",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        finals = []
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, sizes))
            finals.append(
                torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
            )
            states = torch.cat([ahead, reverse_padded(back, sizes)], dim=-1)
        final = finals[0]
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "drops a tenth of the inputs of the higher layers in train mode",
    breaks="The lowest layer reads the embeddings, and every higher layer reads the states of the layer below it.",
    name="dropout between the layers",
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
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            if forwards is not self.forwards[0]:
                states = F.dropout(states, 0.1, self.training)

            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, sizes))
            states = torch.cat([ahead, reverse_padded(back, sizes)], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "keeps the reversed positions for all encoders, by the shape of the source",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="reversed order of an earlier batch",
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

    orders = {}

    def forward(self, source, lengths):
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        rows = torch.arange(len(source), device=source.device)[:, None]
        if source.shape not in self.orders:
            s = torch.arange(source.size(1), device=source.device)
            n = sizes[:, None]
            self.orders[source.shape] = torch.where(s < n, n - 1 - s, s)
        order = self.orders[source.shape].to(source.device)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(states[rows, order])
            states = torch.cat([ahead, back[rows, order]], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "swaps the vectors of a sentence in pairs, but the second one is a view that has been overwritten: a palindrome",
    breaks="Reverse each sentence *within its own length* instead, with `reverse_padded(x, lengths)`.",
    name="swap through views",
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

    def turn(self, x, lengths):
        x = x.clone()
        for b, n in enumerate(lengths.tolist()):
            for s in range(n // 2):
                x[b, s], x[b, n - 1 - s] = x[b, n - 1 - s], x[b, s]
        return x

    def forward(self, source, lengths):
        sizes = lengths.to(source.device)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(self.turn(states, sizes))
            states = torch.cat([ahead, self.turn(back, sizes)], dim=-1)
        final = torch.cat([pick_last(ahead, sizes), pick_last(back, sizes)], dim=-1)
        mask = padding_mask(sizes, source.size(1))
        return Encoded(states, final, mask)
