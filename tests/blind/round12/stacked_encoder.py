import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import at_end, reverse_padded
from attention_course.seq2seq import Encoded

from blind import right, wrong


class StackedBase(nn.Module):
    """What the notebook's cell gives: the layers, made in __init__."""

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


# ---------------------------------------------------------------- wrong answers


@wrong(
    "reverses the whole rows, so that short sentences begin with their padding",
    "Reverse each sentence *within its own length* instead, with `reverse_padded(x,"
    " lengths)`.",
    "flip instead of reverse_padded",
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(states.flip(1))
            states = torch.cat([ahead, turned.flip(1)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), turned[:, -1]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "does not reverse the backward states again",
    "So let the backward LSTM read a reversed batch, and reverse its states again before"
    " you concatenate them with the forward states.",
    "backward states not reversed again",
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, turned], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "final is the top layer's vector at the last token, where the backward LSTM has read"
    " one token",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "backward final state at the wrong end",
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "the backward state first",
    "Concatenate their two states at each position, the forward state first:",
    "directions swapped",
)
class StackedEncoder(StackedBase):
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
    "starts each higher layer from the last state and cell of the layer below",
    "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state.",
    "state and cell handed up",
    subtle=True,
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        states, pair, turned_pair = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, pair = forwards(states, pair)
            turned, turned_pair = backwards(
                reverse_padded(states, lengths), turned_pair
            )
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "the mask has as many positions as the longest sentence has tokens",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "mask cut to the longest sentence",
    subtle=True,
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), int(lengths.max()))
        return Encoded(states, final, mask)


@wrong(
    "keeps the final state of the lowest layer, the same if there is one layer",
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence.",
    "final state of the lowest layer",
    subtle=True,
)
class StackedEncoder(StackedBase):
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
    "writes zeros over the padding in the caller's source",
    "Do not change the inputs.",
    "source changed in place",
    subtle=True,
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        source[~mask[:, 0]] = 0
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        return Encoded(states, final, mask)


@wrong(
    "drops states between the layers in train mode, as nn.LSTM(dropout=...) would",
    "The lowest layer reads the embeddings, and every higher layer reads the states of"
    " the layer below it.",
    "dropout between the layers in train mode",
    subtle=True,
)
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for layer, forwards in enumerate(self.forwards):
            if layer:
                states = F.dropout(states, 0.1, self.training)
            ahead, _ = forwards(states)
            turned, _ = self.backwards[layer](reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "reads the lowest layer and the top one only: layers between them are left out",
    "The lowest layer reads the embeddings, and every higher layer reads the states of"
    " the layer below it.",
    "at most two layers used",
    subtle=True,
)
class StackedEncoder(StackedBase):
    def layer(self, number, states, lengths):
        ahead, _ = self.forwards[number](states)
        turned, _ = self.backwards[number](reverse_padded(states, lengths))
        states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
        ends = [at_end(ahead, lengths), at_end(turned, lengths)]
        return states, torch.cat(ends, dim=-1)

    def forward(self, source, lengths):
        states, final = self.layer(0, self.embedding(source), lengths)
        if len(self.forwards) > 1:
            states, final = self.layer(-1, states, lengths)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


# ---------------------------------------------------------------- right answers


@right("packs both directions; the backward final state is read at position 0")
class StackedEncoder(StackedBase):
    def run(self, lstm, vectors, lengths):
        packed = pack_padded_sequence(
            vectors, lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = lstm(packed)
        size = vectors.size(1)
        return pad_packed_sequence(out, batch_first=True, total_length=size)[0]

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead = self.run(forwards, states, lengths)
            turned = self.run(backwards, reverse_padded(states, lengths), lengths)
            back = reverse_padded(turned, lengths)
            states = torch.cat([ahead, back], dim=2)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@right("one sentence at a time without padding, turned around by flip")
class StackedEncoder(StackedBase):
    def read(self, ids):
        states = self.embedding(ids)[None]
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, (h, _) = forwards(states)
            turned, (g, _) = backwards(states.flip(1))
            states = torch.cat([ahead, turned.flip(1)], dim=-1)
        return states[0], torch.cat([h[0, 0], g[0, 0]])

    def forward(self, source, lengths):
        rows, ends = [], []
        for ids, n in zip(source, lengths.tolist()):
            states, end = self.read(ids[:n])
            blank = states.new_zeros(len(ids) - n, self.output_dim)
            rows.append(torch.cat([states, blank]))
            ends.append(end)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(rows), torch.stack(ends), mask)


def _walk_lstm(lstm, x, there, order):
    """Go through the columns in an order; state and cell stay zero on padding."""
    h = x.new_zeros(x.size(0), lstm.hidden_size)
    c, out = h, {}
    for s in order:
        gates = x[:, s] @ lstm.weight_ih_l0.T + lstm.bias_ih_l0
        gates = gates + h @ lstm.weight_hh_l0.T + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4, dim=-1)
        new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        new_h = o.sigmoid() * new_c.tanh()
        here = there[:, s, None]
        c = torch.where(here, new_c, torch.zeros_like(c))
        h = torch.where(here, new_h, torch.zeros_like(h))
        out[s] = h
    return torch.stack([out[s] for s in range(x.size(1))], dim=1)


@right("the gates written out, the backward walk goes from right to left, no reversal")
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        there, size = mask[:, 0], source.size(1)
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead = _walk_lstm(forwards, states, there, range(size))
            back = _walk_lstm(backwards, states, there, range(size - 1, -1, -1))
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, mask)


@right("its own index for the reversal, a list of layers, and hstack at the end")
class StackedEncoder(StackedBase):
    def forward(self, source, lengths):
        n = lengths.to(source.device).view(-1, 1)
        columns = torch.arange(source.size(1), device=source.device)
        # positions on padding point at any token; what stands there does not matter
        turn = (n - 1 - columns).clamp(min=0)[..., None]
        stack = [self.embedding(source)]
        for layer in range(len(self.forwards)):
            below = stack[-1]
            ahead = self.forwards[layer](below)[0]
            turned = self.backwards[layer](torch.take_along_dim(below, turn, dim=1))[0]
            back = torch.take_along_dim(turned, turn, dim=1)
            stack.append(torch.cat((ahead, back), dim=-1))
        last = (n - 1)[..., None]
        final = torch.hstack(
            [torch.take_along_dim(x, last, dim=1).squeeze(1) for x in (ahead, turned)]
        )
        return Encoded(stack[-1], final, (columns < n).unsqueeze(1))
