"""Answers to stacked_encoder."""

import torch
from answers.core import draw, right, variations, wide, with_part, wrong
from answers.lab02_bottleneck.at_end import by_gather
from answers.lab02_bottleneck.encoder import allow_by_comparison, at_end
from answers.lab02_bottleneck.networks import gru, some_lengths
from answers.lab04_alignment.shared import (
    embed_by_index,
    embed_by_product,
    gates,
    sizes,
)
from answers.signs import CUT, FITS
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from nbjudge.question import Request


@wide("stacked_encoder")
def any_stack(g):
    for b, s, m, d, *_ in sizes(g):
        for layers in (1, 2, 3):
            weights = {"embedding.weight": draw(g, 9, m)}
            for layer in range(layers):
                for way in ("forwards", "backwards"):
                    weights |= gru(g, f"{way}.{layer}", "l0", 2 * d if layer else m, d)
            source = torch.randint(9, (b, s), generator=g)
            yield Request(
                (source, some_lengths(g, b, s)),
                (9, m, d, layers),
                weights,
                gradients=True,
            )


class Stacked(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.GRU(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.GRU(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source, lengths):
        states = self.embed(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, back = (
                self.read(forwards, states, lengths),
                self.read_back(backwards, states, lengths),
            )
            states = torch.cat([ahead, back], dim=-1)
        return Encoded(
            states, self.end(ahead, back, lengths), self.allow(source, lengths)
        )

    def embed(self, source):
        return self.embedding(source)

    def read(self, layer, states, lengths):
        return layer(states)[0]

    def read_back(self, layer, states, lengths):
        return reverse_padded(layer(reverse_padded(states, lengths))[0], lengths)

    def end(self, ahead, back, lengths):
        return torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)

    def allow(self, source, lengths):
        return padding_mask(lengths.to(source.device), source.size(1))


def read_packed(self, layer, states, lengths):
    packed = pack_padded_sequence(
        states, lengths, batch_first=True, enforce_sorted=False
    )
    return pad_packed_sequence(
        layer(packed)[0], batch_first=True, total_length=states.size(1)
    )[0]


def read_step_by_step(self, layer, states, lengths):
    state, found = states.new_zeros(states.size(0), layer.hidden_size), []
    for x in states.unbind(1):
        state = gates(x, state, *layer.all_weights[0])
        found.append(state)
    return torch.stack(found, dim=1)


def read_back_sentence_by_sentence(self, layer, states, lengths):
    found = torch.zeros(*states.shape[:2], layer.hidden_size, dtype=states.dtype)
    for b, length in enumerate(lengths.tolist()):
        found[b, :length] = layer(states[b : b + 1, :length].flip(1))[0].flip(1)[0]
    return found


def read_back_from_the_end(self, layer, states, lengths):
    state = states.new_zeros(states.size(0), layer.hidden_size)
    found = []
    for t in reversed(range(states.size(1))):
        new = gates(states[:, t], state, *layer.all_weights[0])
        # padding leaves it at zero
        state = torch.where((t < lengths)[:, None], new, state)
        found.insert(0, state)
    return torch.stack(found, dim=1)


def read_back_packed(self, layer, states, lengths):
    turned = reverse_padded(states, lengths)
    return reverse_padded(read_packed(self, layer, turned, lengths), lengths)


def read_back_by_index(self, layer, states, lengths):
    positions = torch.arange(states.size(1))
    last = lengths[:, None] - 1
    index = torch.where(positions <= last, last - positions, positions)
    rows = torch.arange(states.size(0))[:, None]
    return layer(states[rows, index])[0][rows, index]


def end_by_gather(self, ahead, back, lengths):
    return torch.cat([by_gather(ahead, lengths), back.select(1, 0)], dim=-1)


def end_one_by_one(self, ahead, back, lengths):
    ends = [
        torch.cat([a[n - 1], b[0]]) for a, b, n in zip(ahead, back, lengths.tolist())
    ]
    return torch.stack(ends)


class StackedByNumber(Stacked):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for layer in range(len(self.forwards)):
            below = states
            ahead = self.forwards[layer](below)[0]
            turned = self.backwards[layer](reverse_padded(below, lengths))[0]
            states = torch.cat((ahead, reverse_padded(turned, lengths)), 2)
            final = torch.hstack([at_end(ahead, lengths), at_end(turned, lengths)])
        return Encoded(states, final, padding_mask(lengths, source.size(1)))


variations(
    "stacked_encoder",
    Stacked,
    embed=(embed_by_index, embed_by_product),
    read=(read_packed, read_step_by_step),
    read_back=(
        read_back_sentence_by_sentence,
        read_back_from_the_end,
        read_back_packed,
        read_back_by_index,
    ),
    end=(end_by_gather, end_one_by_one),
    allow=(allow_by_comparison,),
)
right("stacked_encoder")(StackedByNumber)


@wrong(
    "stacked_encoder", "the whole batch turned around", "the backward layer is wrong"
)
@with_part(Stacked, "forward")
def flipped(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(states)
        back = backwards(states.flip(1))[0].flip(1)
        states = torch.cat([ahead, back], dim=-1)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong(
    "stacked_encoder", "backward states not turned back", "the backward layer is wrong"
)
@with_part(Stacked, "forward")
def left_turned(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(states)
        turned, _ = backwards(reverse_padded(states, lengths))
        states = torch.cat([ahead, turned], dim=-1)
    final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong(
    "stacked_encoder", "both directions read forwards", "the backward layer is wrong"
)
@with_part(Stacked, "forward")
def turned_after(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(states)
        turned, _ = backwards(states)
        states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
    final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "backward final state at the last token")
@with_part(Stacked, "forward")
def both_at_the_last_token(self, source, lengths):
    states, _, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, at_end(states, lengths), mask)


@wrong(
    "stacked_encoder",
    "another final state",
    "the last column is taken for the final state",
)
@with_part(Stacked, "forward")
def both_in_the_last_column(self, source, lengths):
    states, _, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, states[:, -1], mask)


@wrong("stacked_encoder", "the last column is taken for the final state")
@with_part(Stacked, "forward")
def second_of_each_layer(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, last_ahead = forwards(states)
        turned, last_back = backwards(reverse_padded(states, lengths))
        states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
    final = torch.cat([last_ahead[0], last_back[0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "the backward layer is wrong")
@with_part(Stacked, "forward")
def backward_reads_forward_states(self, source, lengths):
    states = self.embedding(source)
    for forwards in self.forwards:
        ahead, _ = forwards(states)
        back = reverse_padded(forwards(reverse_padded(states, lengths))[0], lengths)
        states = torch.cat([ahead, back], dim=-1)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong(
    "stacked_encoder",
    "one layer is right, more are not",
    "the layers do not stand on each other",
    FITS,
)
@with_part(Stacked, "forward")
def every_layer_reads_embeddings(self, source, lengths):
    embedded = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(embedded)
        back = reverse_padded(backwards(reverse_padded(embedded, lengths))[0], lengths)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(
        torch.cat([ahead, back], dim=-1), final, padding_mask(lengths, source.size(1))
    )


@wrong("stacked_encoder", "one layer is right, more are not")
@with_part(Stacked, "forward")
def only_the_first_layer(self, source, lengths):
    states = self.embedding(source)
    ahead = self.forwards[0](states)[0]
    back = reverse_padded(
        self.backwards[0](reverse_padded(states, lengths))[0], lengths
    )
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(
        torch.cat([ahead, back], dim=-1), final, padding_mask(lengths, source.size(1))
    )


@wrong("stacked_encoder", "the layers do not stand on each other", FITS)
@with_part(Stacked, "forward")
def two_towers(self, source, lengths):
    ahead, turned = (
        self.embedding(source),
        reverse_padded(self.embedding(source), lengths),
    )
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, turned = forwards(ahead)[0], backwards(turned)[0]
    states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
    final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "the directions are added")
@with_part(Stacked, "forward")
def mean_of_directions(self, source, lengths):
    states, final, mask = Stacked.forward(self, source, lengths)
    return Encoded(sum(states.chunk(2, dim=-1)), sum(final.chunk(2, dim=-1)), mask)


@wrong("stacked_encoder", "mask the wrong way around")
@with_part(Stacked, "forward")
def mask_turned_around(self, source, lengths):
    states, final, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, final, ~mask)


@wrong("stacked_encoder", "another final state")
@with_part(Stacked, "forward")
def backward_final_first(self, source, lengths):
    states, final, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, torch.cat(final.chunk(2, dim=-1)[::-1], dim=-1), mask)


@wrong("stacked_encoder", CUT)
@with_part(Stacked, "forward")
def layers_detached(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        states = states.detach()
        ahead, _ = forwards(states)
        back = reverse_padded(backwards(reverse_padded(states, lengths))[0], lengths)
        states = torch.cat([ahead, back], dim=-1)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "no Encoded is returned")
@with_part(Stacked, "forward")
def states_alone(self, source, lengths):
    return Stacked.forward(self, source, lengths).states
