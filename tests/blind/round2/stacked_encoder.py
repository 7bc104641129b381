import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong
from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded

LAYERS = "Each layer reads the states of the one below it (the lowest reads embeddings), once forwards and once backwards, and sets the two states of a position end to end:"
TURN = "Each sentence has to be turned around *within its own length*:"
BACK = "So the backward layer reads a turned batch, and its states have to be turned back before they are set beside the forward ones."
FINAL = "The forward one at each sentence's last token, and the backward one where *it* has read everything, end to end."
TOP = "Both of the top layer."
MASK = "`states` and `mask` are as before."
IDS = "The lengths alone say what is a token and what is padding: any id may stand in either place."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


def mask_of(source, lengths):
    return padding_mask(lengths.to(source.device), source.size(1))


@right("the backward final state read at position 0, after turning back")
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
        for ahead, behind in zip(self.forwards, self.backwards):
            left = ahead(states)[0]
            right_ = reverse_padded(behind(reverse_padded(states, lengths))[0], lengths)
            states = torch.cat([left, right_], dim=-1)
        final = torch.cat([at_end(left, lengths), right_[:, 0]], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@right("each sentence alone, turned by flip")
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
            x = self.embedding(ids[:n])[None]
            for i in range(len(self.forwards)):
                a, (a_last, _) = self.forwards[i](x)
                b, (b_last, _) = self.backwards[i](x.flip(1))
                x = torch.cat([a, b.flip(1)], -1)
            all_states.append(F.pad(x[0], (0, 0, 0, source.size(1) - n)))
            finals.append(torch.cat([a_last[0, 0], b_last[0, 0]]))
        return Encoded(
            torch.stack(all_states), torch.stack(finals), mask_of(source, lengths)
        )


@right("turned by indices of its own")
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
        s = torch.arange(source.size(1), device=source.device)[None]
        turned = torch.where(s < n, n - 1 - s, s)[..., None]

        def turn(x):
            return x.take_along_dim(turned, dim=1)

        states = self.embedding(source)
        D = self.output_dim // 2
        for k in range(len(self.forwards)):
            both = self.forwards[k](states)[0], turn(self.backwards[k](turn(states))[0])
            states = torch.cat(both, 2)
        final = torch.cat([at_end(states[..., :D], lengths), states[:, 0, D:]], 1)
        return Encoded(states, final, (s < n)[:, None])


@right("packed in both directions")
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
        U = nn.utils.rnn

        def read(rnn, x):
            packed = U.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            out, (last, _) = rnn(packed)
            return U.pad_packed_sequence(out, batch_first=True, total_length=x.size(1))[
                0
            ], last[0]

        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, end = read(f, states)
            behind, start = read(b, reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        return Encoded(states, torch.cat([end, start], -1), mask_of(source, lengths))


@wrong("the whole batch turned", breaks=TURN, name="flip over the padding")
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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, behind = f(x)[0], b(x.flip(1))[0].flip(1)
            x = torch.cat([ahead, behind], -1)
        final = torch.cat([at_end(ahead, lengths), behind[:, 0]], -1)
        return Encoded(x, final, mask_of(source, lengths))


@wrong("not turned back", breaks=BACK, name="backward states in the turned order")
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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            x = torch.cat([f(x)[0], b(reverse_padded(x, lengths))[0]], -1)
        return Encoded(x, at_end(x, lengths), mask_of(source, lengths))


@wrong(
    "both final states at the last token of the sentence",
    breaks=FINAL,
    name="backward state after one token only",
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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            behind = reverse_padded(b(reverse_padded(x, lengths))[0], lengths)
            x = torch.cat([f(x)[0], behind], -1)
        return Encoded(x, at_end(x, lengths), mask_of(source, lengths))


@wrong(
    "final states of the lowest layer",
    breaks=TOP,
    name="final of the wrong layer",
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
        x, final = self.embedding(source), None
        for f, b in zip(self.forwards, self.backwards):
            ahead, behind = f(x)[0], b(reverse_padded(x, lengths))[0]
            if final is None:
                final = torch.cat([at_end(ahead, lengths), at_end(behind, lengths)], -1)
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        return Encoded(x, final, mask_of(source, lengths))


@wrong(
    "the mask is made from the ids",
    breaks=IDS,
    name="padding guessed from the id 0",
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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, behind = f(x)[0], b(reverse_padded(x, lengths))[0]
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        final = torch.cat([at_end(ahead, lengths), at_end(behind, lengths)], -1)
        return Encoded(x, final, source.ne(0).unsqueeze(1))


@wrong(
    "two layers at most",
    breaks=LAYERS,
    name="layers above the second left out",
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
        x = self.embedding(source)
        for f, b in zip(self.forwards[:2], self.backwards[:2]):
            ahead, behind = f(x)[0], b(reverse_padded(x, lengths))[0]
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        final = torch.cat([at_end(ahead, lengths), at_end(behind, lengths)], -1)
        return Encoded(x, final, mask_of(source, lengths))


@wrong(
    "as wide as the longest sentence",
    breaks=MASK,
    name="empty columns cut off",
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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, behind = f(x)[0], b(reverse_padded(x, lengths))[0]
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        final = torch.cat([at_end(ahead, lengths), at_end(behind, lengths)], -1)
        return Encoded(x, final, mask_of(source, lengths))


@wrong(
    "the backward final state is that of the last column",
    breaks=FINAL,
    name="backward state behind the padding",
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
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead = f(x)[0]
            behind, (last, _) = b(reverse_padded(x, lengths))
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        return Encoded(
            x,
            torch.cat([at_end(ahead, lengths), last[0]], -1),
            mask_of(source, lengths),
        )


@wrong(
    "dropout between the layers in training mode",
    breaks=LAYERS,
    name="dropout that nobody asked for",
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
        x = self.embedding(source)
        for k, (f, b) in enumerate(zip(self.forwards, self.backwards)):
            if k:
                x = F.dropout(x, 0.1, self.training)
            ahead, behind = f(x)[0], b(reverse_padded(x, lengths))[0]
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        final = torch.cat([at_end(ahead, lengths), at_end(behind, lengths)], -1)
        return Encoded(x, final, mask_of(source, lengths))


@wrong(
    "a layer's last state starts the layer above",
    breaks=LAYERS,
    name="hidden state handed up the stack",
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
        x, h, g = self.embedding(source), None, None
        for f, b in zip(self.forwards, self.backwards):
            ahead, h = f(x, h)
            behind, g = b(reverse_padded(x, lengths), g)
            x = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        final = torch.cat([at_end(ahead, lengths), at_end(behind, lengths)], -1)
        return Encoded(x, final, mask_of(source, lengths))
