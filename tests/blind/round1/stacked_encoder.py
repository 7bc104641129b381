from blind import right, wrong
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right("turned around by positions modulo S, final from the first position")
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        here = lengths.to(source.device)
        place = (
            here[:, None] - 1 - torch.arange(source.size(1), device=source.device)
        ) % source.size(1)

        def turn(x):
            return x.gather(1, place[..., None].expand_as(x))

        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            x = torch.cat([f(x)[0], turn(b(turn(x))[0])], dim=2)
        D = self.output_dim // 2
        final = torch.cat([at_end(x[..., :D], lengths), x[:, 0, D:]], dim=1)
        return Encoded(x, final, padding_mask(here, source.size(1)))


@right("packed, in both directions")
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        S = source.size(1)

        def read(rnn, x):
            packed = pack_padded_sequence(
                x, lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            out, (last, _) = rnn(packed)
            return pad_packed_sequence(out, batch_first=True, total_length=S)[0], last[
                0
            ]

        x, final = self.embedding(source), None
        for layer in range(len(self.forwards)):
            a, a_end = read(self.forwards[layer], x)
            b, b_end = read(self.backwards[layer], reverse_padded(x, lengths))
            x, final = (
                torch.cat([a, reverse_padded(b, lengths)], -1),
                torch.cat([a_end, b_end], -1),
            )
        return Encoded(
            states=x, final=final, mask=padding_mask(lengths.to(source.device), S)
        )


@right("each sentence alone, where flip does no harm")
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        rows, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[:n])
            for f, b in zip(self.forwards, self.backwards):
                (one, (p, _)), (two, (q, _)) = f(x), b(x.flip(0))
                x = torch.cat([one, two.flip(0)], -1)
            rows.append(F.pad(x, (0, 0, 0, len(ids) - n)))
            finals.append(torch.cat([p[0], q[0]]))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(rows), torch.stack(finals), mask)


@right("the backward layer walks from behind, and starts anew on padding")
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            h = c = x.new_zeros(1, x.size(0), f.hidden_size)
            out = []
            for s in reversed(range(x.size(1))):
                new = b(x[:, s : s + 1].contiguous(), (h, c))[1]
                h, c = (torch.where(mask[:, 0, s, None], y, torch.zeros_like(y)) for y in new)
                out.insert(0, h[0])
            ahead = f(x)[0]
            x = torch.cat([ahead, torch.stack(out, 1)], -1)
        return Encoded(x, torch.cat([at_end(ahead, lengths), h[0]], -1), mask)


@wrong(
    "the whole batch turned around",
    breaks="Each sentence has to be turned around *within its own length*:",
    name="flip across padding",
    subtle=False,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
            left_right, _ = forwards(states)
            right_left, _ = backwards(states.flip(1))
            states = torch.cat([left_right, right_left.flip(1)], dim=-1)
        final = torch.cat([at_end(left_right, lengths), right_left[:, -1]], dim=-1)
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "backward states are not turned back",
    breaks="So the backward layer reads a turned batch, and its states have to be turned back before they are set beside the forward ones.",
    name="not turned back",
    subtle=False,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([left_right, right_left], dim=-1)
        final = torch.cat(
            [at_end(left_right, lengths), at_end(right_left, lengths)], dim=-1
        )
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "backward final state at the last token of the sentence, where it has read one"
    " token",
    breaks="The forward one at each sentence's last token, and the backward one where *it* has read everything, end to end.",
    name="final state of the backward layer",
    subtle=False,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat(
                [left_right, reverse_padded(right_left, lengths)], dim=-1
            )
        final = at_end(states, lengths)
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "backward final state of the lowest layer",
    breaks="Both of the top layer.",
    name="final of the wrong layer",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        states, first = self.embedding(source), None
        for forwards, backwards in zip(self.forwards, self.backwards):
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            first = right_left if first is None else first
            states = torch.cat(
                [left_right, reverse_padded(right_left, lengths)], dim=-1
            )
        final = torch.cat([at_end(left_right, lengths), at_end(first, lengths)], dim=-1)
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "never more than two layers",
    breaks="Each layer reads the states of the one below it (the lowest reads embeddings), once forwards and once backwards, and sets the two states of a position end to end:",
    name="constant fitted to two layers",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        for forwards, backwards in list(zip(self.forwards, self.backwards))[:2]:
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat(
                [left_right, reverse_padded(right_left, lengths)], dim=-1
            )
        final = torch.cat(
            [at_end(left_right, lengths), at_end(right_left, lengths)], dim=-1
        )
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "layers above the lowest add what they read",
    breaks="Each layer reads the states of the one below it (the lowest reads embeddings), once forwards and once backwards, and sets the two states of a position end to end:",
    name="residual that nobody asked for",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat(
                [left_right, reverse_padded(right_left, lengths)], dim=-1
            ) + (states if forwards is not self.forwards[0] else 0)
        final = torch.cat(
            [at_end(left_right, lengths), at_end(right_left, lengths)], dim=-1
        )
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "above the lowest layer the whole batch is turned around",
    breaks="Each sentence has to be turned around *within its own length*:",
    name="flip across padding in the upper layers",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        for i, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards)):

            def turn(x):
                return x.flip(1) if i else reverse_padded(x, lengths)

            left_right, _ = forwards(states)
            right_left = turn(backwards(turn(states))[0])
            states = torch.cat([left_right, right_left], dim=-1)
        final = torch.cat([at_end(left_right, lengths), right_left[:, 0]], dim=-1)
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "the order of positions is kept per shape, for all encoders: wrong for other"
    " lengths",
    breaks="Each sentence has to be turned around *within its own length*:",
    name="state kept between calls and shared",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

    places = {}

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
        key = tuple(source.shape)
        if key not in self.places:
            self.places[key] = (
                lengths[:, None] - 1 - torch.arange(source.size(1))
            ) % source.size(1)
        place = self.places[key].to(source.device)

        def turn(x):
            return x.gather(1, place[..., None].expand_as(x))

        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            left_right, right_left = forwards(states)[0], backwards(turn(states))[0]
            states = torch.cat([left_right, turn(right_left)], dim=-1)
        final = torch.cat(
            [at_end(left_right, lengths), at_end(right_left, lengths)], dim=-1
        )
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "lengths counted from the ids: a token with the id 0 makes a sentence shorter",
    breaks="lengths: (B,), tokens in each source; on the CPU.",
    name="lengths ignored",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
        lengths = (source != 0).sum(1).clamp(min=1).cpu()
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat(
                [left_right, reverse_padded(right_left, lengths)], dim=-1
            )
        final = torch.cat(
            [at_end(left_right, lengths), at_end(right_left, lengths)], dim=-1
        )
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wrong(
    "mask only as long as the longest sentence",
    breaks="`states` and `mask` are as before.",
    name="mask narrower than the batch",
    subtle=True,
)
class StackedEncoder(nn.Module):
    """Read a source with a stack of recurrent layers, in both directions."""

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
            left_right, _ = forwards(states)
            right_left, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat(
                [left_right, reverse_padded(right_left, lengths)], dim=-1
            )
        final = torch.cat(
            [at_end(left_right, lengths), at_end(right_left, lengths)], dim=-1
        )
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), int(lengths.max()))
        )
