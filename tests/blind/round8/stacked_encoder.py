import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


class Given(nn.Module):
    """The lines of the lab."""

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


@right("each sentence alone without its padding, reversed with flip")
class StackedEncoder(Given):
    def forward(self, source, lengths):
        rows, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[:n])
            for forwards, backwards in zip(self.forwards, self.backwards):
                right_, left = forwards(x)[0], backwards(x.flip(0))[0].flip(0)
                x = torch.cat([right_, left], dim=-1)
            half = x.size(-1) // 2
            finals.append(torch.cat([x[-1, :half], x[0, half:]]))
            rows.append(torch.cat([x, x.new_zeros(len(ids) - n, x.size(-1))]))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(torch.stack(rows), torch.stack(finals), mask)


@right("packed sequences; the final states are those that the LSTMs return")
class StackedEncoder(Given):
    def run(self, lstm, x, lengths):
        S = x.size(1)
        packed = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        packed, (last, _) = lstm(packed)
        return pad_packed_sequence(packed, True, total_length=S)[0], last[0]

    def forward(self, source, lengths):
        states = self.embedding(source)
        for one, other in zip(self.forwards, self.backwards):
            ahead, end = self.run(one, states, lengths)
            back, begin = self.run(other, reverse_padded(states, lengths), lengths)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat([end, begin], dim=-1), mask)


@right("own reversal by gather; the backward final state is column 0 of the states")
class StackedEncoder(Given):
    def forward(self, source, lengths):
        n = lengths.to(source.device)[:, None]
        here = torch.arange(source.size(1), device=source.device)
        turned = torch.where(here < n, n - 1 - here, here)[..., None]
        states = self.embedding(source)
        for i in range(len(self.forwards)):
            read = states.take_along_dim(turned, dim=1)
            back = self.backwards[i](read)[0].take_along_dim(turned, dim=1)
            ahead = self.forwards[i](states)[0]
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, (here < n)[:, None])


@right("the LSTM's equations in two loops, the backward one from the right, held at zero on padding")
class StackedEncoder(Given):
    def cell(self, lstm, x, h, c):
        gates = x @ lstm.weight_ih_l0.mT + lstm.bias_ih_l0
        gates = gates + h @ lstm.weight_hh_l0.mT + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def read(self, lstm, x, mask, order):
        zero = x.new_zeros(x.size(0), lstm.hidden_size)
        h, c, states = zero, zero, [zero] * x.size(1)
        for s in order:
            real = mask[:, 0, s, None]
            new_h, new_c = self.cell(lstm, x[:, s], h, c)
            h, c = torch.where(real, new_h, h), torch.where(real, new_c, c)
            states[s] = h
        return torch.stack(states, dim=1), h

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        x, S = self.embedding(source), source.size(1)
        for one, other in zip(self.forwards, self.backwards):
            ahead, end = self.read(one, x, mask, range(S))
            back, begin = self.read(other, x, mask, range(S - 1, -1, -1))
            x = torch.cat([ahead, back], dim=-1)
        return Encoded(x, torch.cat([end, begin], dim=-1), mask)


@wrong(
    "flips the whole batch, so the backward LSTM begins with the padding of short sentences; right for equal lengths",
    "Each sentence has to be reversed *within its own length*:",
    "whole batch flipped",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back = backwards(states.flip(1))[0].flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "the backward states are not reversed again before they are concatenated; the final state of one layer is right",
    "So the backward LSTM reads a reversed batch, and its states have to be reversed again before they are concatenated with the forward ones.",
    "backward states not reversed again",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, back], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "takes both halves of the final state at the last token: the backward LSTM has read one token there; right for sentences of one token",
    "the forward state at the sentence's last token, and the backward state at the position where the backward LSTM has read the whole sentence.",
    "backward final state at the last token",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "the final state is made of what the LSTMs return as last state, which has read the padding; right for sentences without padding",
    "The final state of a sentence is the concatenation of two states of the top layer:",
    "final state after the padding",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, (end, _) = forwards(states)
            back, (begin, _) = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, torch.cat([end[0], begin[0]], dim=-1), mask)


@wrong(
    "a layer starts from the last state and cell of the layer below: right for one layer, wrong for more",
    "Every LSTM starts from zeros, which is what `nn.LSTM` does if it is given no state.",
    "state handed on to the next layer",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states, one, other = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, one = forwards(states, one)
            back, other = backwards(reverse_padded(states, lengths), other)
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "cuts states and mask to the longest sentence: wrong for a batch that is padded further",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "result cut to the longest sentence",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        source = source[:, : int(lengths.max())]
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "the id 0 is padding for the mask: a token 0 is hidden, other ids in the padding are not",
    "`states` and `mask` are as before.",
    "mask made from the ids",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        return Encoded(states, final, source.ne(0).unsqueeze(1))


@wrong(
    "in upper layers the forward half of states is overwritten by the new forward states before the backward LSTM reads them: right for one layer, wrong for more",
    "A layer has two LSTMs: one reads every sentence forwards, the other reads it backwards.",
    "backward LSTM reads the forward states",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for i, pair in enumerate(zip(self.forwards, self.backwards)):
            ahead, _ = pair[0](states)
            if i > 0:
                states = torch.cat([ahead, states[..., ahead.size(-1) :]], dim=-1)
            back, _ = pair[1](reverse_padded(states, lengths))
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "only the lowest layer reads backwards: the second LSTM of every upper layer reads forwards; right for one layer and for sentences of one token",
    "A layer has two LSTMs: one reads every sentence forwards, the other reads it backwards.",
    "upper layers read forwards twice",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for i, (one, other) in enumerate(zip(self.forwards, self.backwards)):
            ahead, _ = one(states)
            if i == 0:
                back, _ = other(reverse_padded(states, lengths))
                turned = reverse_padded(back, lengths)
            else:
                back, _ = other(states)
                turned = back
            final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
            states = torch.cat([ahead, turned], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)


@wrong(
    "the final state is the sum of all layers' final states in place of the top layer's: the same for one layer",
    "The final state of a sentence is the concatenation of two states of the top layer:",
    "final states of all layers summed",
)
class StackedEncoder(Given):
    def forward(self, source, lengths):
        states, final = self.embedding(source), 0
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            ends = [at_end(ahead, lengths), at_end(back, lengths)]
            final = final + torch.cat(ends, dim=-1)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)
