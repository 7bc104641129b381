import torch
from torch import nn

from attention_course.masks import padding_mask
from attention_course.rnn import BahdanauDecoder, reverse_padded
from attention_course.seq2seq import Encoded, EncoderDecoder, Memory
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0), device=x.device), (lengths - 1).to(x.device)]


@right("recursion over the layers; the backward half of final is at position 0 after reversing again")
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

    def layers(self, states, lengths, depth=0):
        if depth == len(self.forwards):
            return states
        ahead, _ = self.forwards[depth](states)
        back, _ = self.backwards[depth](reverse_padded(states, lengths))
        both = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        return self.layers(both, lengths, depth + 1)

    def forward(self, source, lengths):
        states = self.layers(self.embedding(source), lengths)
        ahead, back = states.chunk(2, dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@right("packed sequences: no reading of padding, and h_n is the state at each sentence's own end")
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

    def read(self, lstm, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        states, (last, _) = lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=x.size(1)
        )
        return states, last[0]

    def forward(self, source, lengths):
        states = self.embedding(source)
        for ahead, back in zip(self.forwards, self.backwards):
            left, left_end = self.read(ahead, states, lengths)
            right_, right_end = self.read(back, reverse_padded(states, lengths), lengths)
            states = torch.cat([left, reverse_padded(right_, lengths)], dim=2)
        return Encoded(
            states=states,
            final=torch.cat([left_end, right_end], dim=1),
            mask=padding_mask(lengths.to(source.device), source.size(1)),
        )


@right("every sentence alone and without padding, so that flip is allowed")
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
        all_states, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            states = self.embedding(ids[:n])
            for layer in range(len(self.forwards)):
                ahead = self.forwards[layer](states)[0]
                back = self.backwards[layer](states.flip(0))[0].flip(0)
                states = torch.cat([ahead, back], dim=-1)
            finals.append(torch.cat([ahead[-1], back[0]]))
            rest = states.new_zeros(source.size(1) - n, self.output_dim)
            all_states.append(torch.cat([states, rest]))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(all_states), torch.stack(finals), mask)


@right("an own index for reversing, kept for all layers, and gather")
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
        n = lengths.to(source.device)[:, None]
        places = torch.arange(source.size(1), device=source.device)[None]
        token = places < n
        mirror = torch.where(token, n - 1 - places, places)[..., None]

        def turn(x):
            return torch.gather(x, 1, mirror.expand(-1, -1, x.size(2)))

        states = self.embedding(source)
        for i, lstm in enumerate(self.forwards):
            halves = lstm(states)[0], self.backwards[i](turn(states))[0]
            states = torch.cat((halves[0], turn(halves[1])), -1)
        final = at_end(torch.cat(halves, -1), lengths)
        return Encoded(states, final, token[:, None])


@wrong(
    "reverses the whole batch: the backward LSTM of a short sentence begins with its padding",
    "Each sentence has to be reversed *within its own length*:",
    "flips the whole batch, padding included",
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
            back, _ = backwards(states.flip(1))
            end = back[:, -1]
            back = back.flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), end], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "does not reverse the backward states again: [h0; g0] stand together",
    "So the backward LSTM reads a reversed batch, and its states have to be reversed again before they are concatenated with the forward ones.",
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
            back, _ = backwards(reverse_padded(states, lengths))
            end = at_end(back, lengths)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), end], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes both halves of final at the last token: the backward state there, g0, has read one token only",
    "the forward state at the sentence's last token, and the backward state at the position where the backward LSTM has read the whole sentence.",
    "backward half of final has read one token",
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
            back, _ = backwards(reverse_padded(states, lengths))
            back = reverse_padded(back, lengths)
            states = torch.cat([ahead, back], dim=-1)
        final = at_end(states, lengths)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "puts the backward state first",
    "The two states of a position are concatenated, the forward state first:",
    "backward state first",
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
            back, _ = backwards(reverse_padded(states, lengths))
            end = at_end(back, lengths)
            back = reverse_padded(back, lengths)
            states = torch.cat([back, ahead], dim=-1)
        final = torch.cat([end, at_end(ahead, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "the backward LSTM reads the states of the forward LSTM if they have the right width (embedding_dim = hidden_dim in the lowest layer), otherwise those of the layer below",
    "Each layer reads the states of the layer below it, and the lowest layer reads the embeddings.",
    "backward LSTM reads the forward LSTM's states",
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
            below = states
            states, _ = forwards(below)
            if backwards.input_size == states.size(-1):
                below = states
            back, _ = backwards(reverse_padded(below, lengths))
            final = torch.cat([at_end(states, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([states, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "takes the final state from h_n of the LSTMs: it stands in the last column, so shorter sentences have read padding, and equally long ones are right",
    "The final state of a sentence is the concatenation of two states of the top layer:",
    "h_n of the last column taken for final",
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
            ahead, (h, _) = forwards(states)
            back, (g, _) = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat([h[0], g[0]], dim=-1), mask)


@wrong(
    "collects both directions in a tensor of torch.zeros: float32 and on the CPU, so float64 parameters raise or give float32",
    "What you return has the dtype of the vectors or parameters that it is made from, and is on their device.",
    "states are always float32",
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
        half = self.output_dim // 2
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            below, states = states, torch.zeros(*source.shape, self.output_dim)
            back = backwards(reverse_padded(below, lengths))[0]
            states[..., :half] = forwards(below)[0]
            states[..., half:] = reverse_padded(back, lengths)
        ends = at_end(states[..., :half], lengths), at_end(back, lengths)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat(ends, dim=-1), mask)


@wrong(
    "hands the last state and cell of each layer to the LSTM of the next one as its first state: right with one layer",
    "Every LSTM starts from zeros, which it does by itself.",
    "upper layers start from the lower one's state",
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
        first, second = None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, first = forwards(states, first)
            back, second = backwards(reverse_padded(states, lengths), second)
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "reverses within the longest sentence, not within each sentence's own length: right if all are equally long, even if the batch is padded further",
    "Each sentence has to be reversed *within its own length*:",
    "reversed within the longest sentence's length",
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
        n = int(lengths.max())

        def turn(x):
            return torch.cat([x[:, :n].flip(1), x[:, n:]], dim=1)

        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back = turn(backwards(turn(states))[0])
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "reverses the ids once and keeps two separate stacks' inputs: from the second layer on, the backward LSTM reads the states in forward order and is turned round once too often",
    "So the backward LSTM reads a reversed batch, and its states have to be reversed again before they are concatenated with the forward ones.",
    "only the lowest layer reads backwards",
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
        turned = self.embedding(reverse_padded(source[..., None], lengths)[..., 0])
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(turned)
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = turned = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)
