import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pad_packed_sequence,
    pad_sequence,
)

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    """Pick the vector of each sentence's own last token."""
    return x[torch.arange(x.size(0)), lengths - 1]


class Given(nn.Module):
    """The __init__ of the notebook."""

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

    def mask(self, source, lengths):
        return padding_mask(lengths.to(source.device), source.size(1))


@right("each sentence by itself, without padding, turned around by flip")
class SentenceBySentence(Given):
    def forward(self, source, lengths):
        everything, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[:n])
            for ahead, back in zip(self.forwards, self.backwards):
                right_to_left, (b, _) = back(x.flip(0))
                left_to_right, (f, _) = ahead(x)
                x = torch.hstack([left_to_right, right_to_left.flip(0)])
            everything.append(x)
            finals.append(torch.cat([f[0], b[0]]))
        states = pad_sequence(everything, batch_first=True)
        states = F.pad(states, (0, 0, 0, source.size(1) - states.size(1)))
        return Encoded(states, torch.stack(finals), self.mask(source, lengths))


@right("turns sentences by an index of its own, and finds the backward end at 0")
class OwnIndex(Given):
    def forward(self, source, lengths):
        n = lengths.to(source.device)[:, None]
        s = torch.arange(source.size(1), device=source.device).expand(source.shape)
        turned = torch.where(s < n, n - 1 - s, s).unsqueeze(-1)
        states = self.embedding(source)
        for i in range(len(self.forwards)):
            f, _ = self.forwards[i](states)
            b, _ = self.backwards[i](states.take_along_dim(turned, 1))
            states = torch.cat([f, b.take_along_dim(turned, 1)], 2)
        d = self.output_dim // 2
        last = (n - 1)[..., None].expand(-1, -1, d)
        final = torch.cat([states[..., :d].gather(1, last)[:, 0], states[:, 0, d:]], 1)
        return Encoded(states, final, self.mask(source, lengths))


@right("packs every layer, in both directions")
class Packed(Given):
    def forward(self, source, lengths):
        def run(rnn, x):
            x = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
            out, (last, _) = rnn(x)
            out, _ = pad_packed_sequence(out, True, total_length=source.shape[1])
            return out, last[0]

        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, end = run(f, x)
            back, begin = run(b, reverse_padded(x, lengths))
            x = torch.cat((ahead, reverse_padded(back, lengths)), -1)
        return Encoded(x, torch.cat((end, begin), -1), self.mask(source, lengths))


@right(
    "backward layers go from right to left step by step, and stay at zero on padding"
)
class StepByStep(Given):
    def forward(self, source, lengths):
        mask = self.mask(source, lengths)
        x = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(x)
            h = c = x.new_zeros(1, len(x), self.output_dim // 2)
            back = []
            for s in reversed(range(source.size(1))):
                _, new = b(x[:, s : s + 1], (h, c))
                h, c = (torch.where(mask[:, 0, s, None], y, z) for y, z in zip(new, (h, c)))
                back.insert(0, h[0])
            x = torch.cat([ahead, torch.stack(back, 1)], -1)
        rows = torch.arange(len(x), device=x.device)
        end = ahead[rows, lengths.to(x.device) - 1]
        return Encoded(x, torch.cat([end, h[0]], -1), mask)


@wrong(
    "turns the whole batch around, padding and all",
    breaks="Each sentence has to be turned around *within its own length*",
    name="flip(1)",
)
class Flip(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states)
            back, _ = b(states.flip(1))
            back = back.flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "takes both halves of the final state at the last token of the sentence",
    breaks="The forward one at each sentence's last token, and the backward one where"
    " *it* has read everything, end to end.",
    name="backward state that has read one token",
)
class FinalAtLast(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states)
            back, _ = b(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        return Encoded(states, at_end(states, lengths), self.mask(source, lengths))


@wrong(
    "sets backward states beside forward ones without turning them back",
    breaks="its states have to be turned back before they are set beside the forward"
    " ones",
    name="not turned back",
)
class NotTurnedBack(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states)
            back, _ = b(reverse_padded(states, lengths))
            states = torch.cat([ahead, back], dim=-1)
        return Encoded(states, at_end(states, lengths), self.mask(source, lengths))


@wrong(
    "adds what a layer has read to what it returns, from the second layer on",
    breaks="Each layer reads the states of the one below it (the lowest reads"
    " embeddings), once forwards and once backwards, and sets the two states of a"
    " position end to end",
    name="residual connections that nobody asked for",
    subtle=True,
)
class Residual(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for i, (f, b) in enumerate(zip(self.forwards, self.backwards)):
            ahead, _ = f(states)
            turned, _ = b(reverse_padded(states, lengths))
            new = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
            states = states + new if i else new
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "a layer starts from the state in which the layer below has ended",
    breaks="Each layer reads the states of the one below it (the lowest reads"
    " embeddings), once forwards and once backwards",
    name="hands the last state from layer to layer",
    subtle=True,
)
class HandsOn(Given):
    def forward(self, source, lengths):
        states, h, g = self.embedding(source), None, None
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states, h)
            turned, _ = b(reverse_padded(states, lengths), g)
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
            h, g = at_end(ahead, lengths)[None], at_end(turned, lengths)[None]
        final = torch.cat([h[0], g[0]], dim=-1)
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "the final state is kept from the first layer",
    breaks="Both of the top layer.",
    name="final state of the lowest layer",
    subtle=True,
)
class BottomFinal(Given):
    def forward(self, source, lengths):
        states, final = self.embedding(source), None
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states)
            turned, _ = b(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
            if final is None:
                final = torch.cat(
                    [at_end(ahead, lengths), at_end(turned, lengths)], dim=-1
                )
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "drops states out between the layers while it trains, as nn.GRU(dropout=) would",
    breaks="Each layer reads the states of the one below it",
    name="dropout that nobody asked for",
    subtle=True,
)
class Dropout(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for i, (f, b) in enumerate(zip(self.forwards, self.backwards)):
            if i:
                states = F.dropout(states, 0.2, self.training)
            ahead, _ = f(states)
            turned, _ = b(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "cuts the batch to its longest sentence before it reads",
    breaks="A batch may be padded to more positions than its longest sentence has"
    " tokens.",
    name="states narrower than the batch",
    subtle=True,
)
class Trimmed(Given):
    def forward(self, source, lengths):
        source = source[:, : lengths.max()]
        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states)
            turned, _ = b(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "turns the backward states back once, after the top layer",
    breaks="its states have to be turned back before they are set beside the forward"
    " ones",
    name="lower layers are not turned back",
    subtle=True,
)
class TurnedBackOnce(Given):
    def forward(self, source, lengths):
        d = self.output_dim // 2
        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            turned, _ = b(reverse_padded(states, lengths))
            ahead, _ = f(states)
            states = torch.cat([ahead, turned], dim=-1)
        final = at_end(states, lengths)
        back = reverse_padded(states[..., d:], lengths)
        states = torch.cat([states[..., :d], back], dim=-1)
        return Encoded(states, final, self.mask(source, lengths))


@wrong(
    "tells tokens from padding by the ids, for the mask only",
    breaks="`states` and `mask` are as before.",
    name="id 0 is taken for padding",
    subtle=True,
)
class IdMask(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for f, b in zip(self.forwards, self.backwards):
            ahead, _ = f(states)
            turned, _ = b(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        return Encoded(states, final, source.ne(0).unsqueeze(1))
