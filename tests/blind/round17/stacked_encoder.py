import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from blind import right, wrong

FORWARD_FIRST = (
    "Concatenate their two states at each position, the forward state first:"
)
ZEROS = "Let every LSTM start from zeros, as `nn.LSTM` does if you give it no state."
OWN_LENGTH = (
    "Reverse each sentence *within its own length* instead, with `reverse_padded(x,"
    " lengths)`."
)
AGAIN = (
    "So let the backward LSTM read a reversed batch, and reverse its states again"
    " before you concatenate them with the forward states."
)
FINAL = (
    "The final state of a sentence combines two states of the top layer: the forward"
    " state at the last token, and the backward state that has read the whole sentence."
)
STATES = (
    "`states` (B, S, E) holds the state at every position. What it holds on padding"
    " does not matter."
)
PADDED = "A batch may be padded to more positions than its longest sentence has tokens."
ANY_ID = "Any id of the vocabulary may be a token, and any id may be padding."
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


def mask_of(source, lengths):
    return padding_mask(lengths.to(source.device), source.size(1))


class Base(nn.Module):
    """The given part of the class."""

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


@right("reads each sentence alone, without padding, and mirrors it with flip")
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states, finals = [], []
        for ids, n in zip(source, lengths.tolist()):
            x = self.embedding(ids[:n])
            for forwards, backwards in zip(self.forwards, self.backwards):
                ahead, _ = forwards(x)
                back, _ = backwards(x.flip(0))
                x = torch.cat([ahead, back.flip(0)], dim=-1)
            finals.append(torch.cat([ahead[-1], back[-1]]))
            states.append(F.pad(x, (0, 0, 0, source.size(1) - n)))
        return Encoded(
            torch.stack(states), torch.stack(finals), mask_of(source, lengths)
        )


@right("packs every direction, takes the final states from the pairs (h, c)")
class StackedEncoder(Base):
    def read(self, lstm, x, lengths):
        packed = pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        states, (last, _) = lstm(packed)
        states, _ = pad_packed_sequence(
            states, batch_first=True, total_length=x.size(1)
        )
        return states, last[0]

    def forward(self, source, lengths):
        states = self.embedding(source)
        for layer in range(len(self.forwards)):
            ahead, last = self.read(self.forwards[layer], states, lengths)
            mirrored = reverse_padded(states, lengths)
            back, first = self.read(self.backwards[layer], mirrored, lengths)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=2)
        final = torch.cat([last, first], dim=1)
        return Encoded(states, final, mask_of(source, lengths))


@right("reverses with its own index, and finds the backward final state at position 0")
class StackedEncoder(Base):
    def forward(self, source, lengths):
        n = lengths.to(source.device)[:, None]
        s = torch.arange(source.size(1), device=source.device).expand_as(source)
        mirror = torch.where(s < n, n - 1 - s, s)[..., None]
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead = forwards(states)[0]
            back = backwards(torch.take_along_dim(states, mirror, 1))[0]
            states = torch.cat([ahead, torch.take_along_dim(back, mirror, 1)], -1)
        half = self.output_dim // 2
        last = torch.take_along_dim(states[..., :half], n[..., None] - 1, 1)[:, 0]
        final = torch.cat([last, states[:, 0, half:]], dim=-1)
        return Encoded(states, final, (s < n)[:, None])


@right("walks from right to left, and sets state and cell to zero on padding")
class StackedEncoder(Base):
    def forward(self, source, lengths):
        mask = mask_of(source, lengths)
        x = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            both = []
            for lstm, places in (
                (forwards, range(x.size(1))),
                (backwards, reversed(range(x.size(1)))),
            ):
                h = c = x.new_zeros(1, x.size(0), lstm.hidden_size)
                states = {}
                for s in places:
                    _, (new_h, new_c) = lstm(x[:, s : s + 1], (h, c))
                    token = mask[:, 0, s, None]
                    h, c = torch.where(token, new_h, h), torch.where(token, new_c, c)
                    states[s] = h[0]
                both.append((torch.stack([states[s] for s in sorted(states)], 1), h[0]))
            (ahead, last), (back, first) = both
            x = torch.cat([ahead, back], dim=-1)
        return Encoded(x, torch.cat([last, first], dim=-1), mask)


@wrong(
    "reverses the whole batch with flip, so short sentences begin with padding",
    breaks=OWN_LENGTH,
    name="the backward LSTM begins with padding",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back = backwards(states.flip(1))[0].flip(1)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@wrong(
    "takes both halves of the final state at the last token",
    breaks=FINAL,
    name="the backward state at the last token",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        return Encoded(states, at_end(states, lengths), mask_of(source, lengths))


@wrong(
    "does not reverse the backward states again",
    breaks=AGAIN,
    name="the backward states stay reversed",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, back], dim=-1)
        return Encoded(states, at_end(states, lengths), mask_of(source, lengths))


@wrong(
    "puts the backward state first",
    breaks=FORWARD_FIRST,
    name="the directions are swapped",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([reverse_padded(back, lengths), ahead], dim=-1)
        final = torch.cat([at_end(back, lengths), at_end(ahead, lengths)], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@wrong(
    "uses flip if all sentences have the same length, even in a batch with padding",
    breaks=PADDED,
    name="equal lengths are taken for a batch without padding",
)
class StackedEncoder(Base):
    def reverse(self, x, lengths):
        if bool((lengths == lengths.max()).all()):
            return x.flip(1)
        return reverse_padded(x, lengths)

    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back = self.reverse(backwards(self.reverse(states, lengths))[0], lengths)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@wrong(
    "detaches what the backward LSTM reads, so a gradient goes through one direction",
    breaks=GRADIENTS,
    name="no gradient through the reversed input",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states.detach(), lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@wrong(
    "lets each layer begin with the last state and cell of the layer below",
    breaks=ZEROS,
    name="a higher layer does not start from zeros",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states, first, second = self.embedding(source), None, None
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, first = forwards(states, first)
            back, second = backwards(reverse_padded(states, lengths), second)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@wrong(
    "cuts the batch to its longest sentence, and so the states are too short",
    breaks=STATES,
    name="columns that hold only padding get lost",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source[:, : int(lengths.max())])
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, mask_of(source, lengths))


@wrong(
    "marks the places with the id 0 as padding in addition to those after the lengths",
    breaks=ANY_ID,
    name="a token with the id 0 is masked",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(reverse_padded(states, lengths))
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, mask_of(source, lengths) & (source != 0)[:, None])


@wrong(
    "reverses the caller's source in place, sentence by sentence, for the lowest layer",
    breaks=INPUTS,
    name="the source of the caller is reversed",
)
class StackedEncoder(Base):
    def forward(self, source, lengths):
        mask = mask_of(source, lengths)
        for ids, n in zip(source, lengths.tolist()):
            ids[:n] = ids[:n].flip(0)
        mirrored = self.embedding(source)
        states = reverse_padded(mirrored, lengths)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            back, _ = backwards(mirrored)
            states = torch.cat([ahead, reverse_padded(back, lengths)], dim=-1)
            mirrored = reverse_padded(states, lengths)
        final = torch.cat([at_end(ahead, lengths), at_end(back, lengths)], dim=-1)
        return Encoded(states, final, mask)
