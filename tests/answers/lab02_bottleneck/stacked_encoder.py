"""Answers to stacked_encoder."""

import torch
import torch.nn.functional as F
from answers.core import right, right_edits, variations, wide, wrong_edits
from answers.lab02_bottleneck.at_end import by_gather  # noqa: F401 (edits name these)
from answers.lab02_bottleneck.shared import (
    LAST_COLUMN,
    MASK,
    MASK_BY_COMPARISON,
    at_end,
    packed,  # noqa: F401
    some_lengths,
)
from answers.lab04_alignment.shared import EMBED, draw_for, sizes
from answers.signs import CUT, FITS
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded
from nbjudge import edit
from nbjudge.question import Request


class Stacked(nn.Module):
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
        states = self.embed(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead = self.read(forwards, states, lengths)
            back = self.read_back(backwards, states, lengths)
            states = torch.cat([ahead, back], dim=-1)
        final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, final, mask)

    def embed(self, source):
        return self.embedding(source)

    def read(self, layer, x, lengths):
        return layer(x)[0]

    def carried(self, forwards, backwards, x, lengths):  # of a wrong answer
        return backwards(reverse_padded(x, lengths), forwards(x)[1])[0]

    def read_back(self, layer, x, lengths):
        return reverse_padded(layer(reverse_padded(x, lengths))[0], lengths)


def read_back_sentence_by_sentence(self, layer, states, lengths):
    found = states.new_zeros(*states.shape[:2], layer.hidden_size)
    for b, length in enumerate(lengths.tolist()):
        found[b, :length] = layer(states[b : b + 1, :length].flip(1))[0].flip(1)[0]
    return found


def gates(x, state, cell, w_x, w_h, b_x, b_h):
    """One step of an LSTM, as its documentation writes it."""
    i, f, g, o = (F.linear(x, w_x, b_x) + F.linear(state, w_h, b_h)).chunk(4, dim=-1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def by_gates(lstm, inputs):
    state = cell = inputs.new_zeros(len(inputs), lstm.hidden_size)
    states = []
    for x in inputs.unbind(1):
        state, cell = gates(x, state, cell, *lstm.all_weights[0])
        states.append(state)
    return torch.stack(states, dim=1)


def read_back_from_the_end(self, layer, states, lengths):
    lengths = lengths.to(states.device)
    state = cell = states.new_zeros(states.size(0), layer.hidden_size)
    found = []
    for t in reversed(range(states.size(1))):
        new = gates(states[:, t], state, cell, *layer.all_weights[0])
        # padding leaves both at zero
        token = (t < lengths)[:, None]
        state, cell = (
            torch.where(token, x, y) for x, y in zip(new, (state, cell), strict=True)
        )
        found.insert(0, state)
    return torch.stack(found, dim=1)


def last_cell(lstm, x, lengths):
    x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return lstm(x)[1][1][0]


def read_back_by_index(self, layer, states, lengths):
    positions = torch.arange(states.size(1))
    last = lengths[:, None] - 1
    index = torch.where(positions <= last, last - positions, positions)
    rows = torch.arange(states.size(0))[:, None]
    return layer(states[rows, index])[0][rows, index]


@right("stacked_encoder")
class StackedByNumber(Stacked):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for layer in range(len(self.forwards)):
            below = states
            ahead = self.forwards[layer](below)[0]
            turned = self.backwards[layer](reverse_padded(below, lengths))[0]
            states = torch.cat((ahead, reverse_padded(turned, lengths)), 2)
            final = torch.hstack([at_end(ahead, lengths), at_end(turned, lengths)])
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )


@wide("stacked_encoder")
def any_stack(g):
    for b, s, m, d, *_ in sizes(g):
        for layers in (1, 2, 3):
            init = (9, m, d, layers)
            drawn = draw_for(g, Stacked(*init))
            inputs = (torch.randint(9, (b, s), generator=g), some_lengths(g, b, s))
            yield Request(inputs, init, drawn, gradients=True)


FORWARD, READ_BACK = Stacked.forward, Stacked.read_back
FINAL = "torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)"
TURNED = "layer(reverse_padded(x, lengths))[0]"
RETURNED = "Encoded(states, final, mask)"
BACKWARD_WRONG = "forward states right, backward states wrong"
STAND = "a layer gets inputs of the wrong size"


def reading(ahead, back):
    """Edit what the layers of both directions read."""
    return edit(FORWARD, "read(forwards, states", f"read(forwards, {ahead}") & edit(
        FORWARD, "read_back(backwards, states", f"read_back(backwards, {back}"
    )


variations(
    "stacked_encoder",
    Stacked,
    embed=EMBED,
    read_back=(
        read_back_sentence_by_sentence,
        read_back_from_the_end,
        read_back_by_index,
    ),
)
right_edits(
    "stacked_encoder",
    Stacked,
    read_packed=edit(Stacked.read, "layer(x)[0]", "packed(layer, x, lengths)"),
    read_step_by_step=edit(Stacked.read, "layer(x)[0]", "by_gates(layer, x)"),
    read_back_packed=edit(
        READ_BACK, TURNED, "packed(layer, reverse_padded(x, lengths), lengths)"
    ),
    end_by_gather=edit(
        FORWARD,
        "at_end(ahead, lengths), back[:, 0]",
        "by_gather(ahead, lengths), back.select(1, 0)",
    ),
    end_one_by_one=edit(
        FORWARD,
        FINAL,
        "torch.stack([torch.cat([a[n - 1], b[0]])"
        " for a, b, n in zip(ahead, back, lengths.tolist())])",
    ),
    allow_by_comparison=edit(FORWARD, MASK, MASK_BY_COMPARISON),
)
wrong_edits(
    "stacked_encoder",
    Stacked,
    flipped=(
        edit(
            READ_BACK,
            f"reverse_padded({TURNED}, lengths)",
            "layer(x.flip(1))[0].flip(1)",
        ),
        "the padding is reversed together with the tokens",
        BACKWARD_WRONG,
    ),
    flipped_if_alone=(
        edit(
            READ_BACK,
            f"reverse_padded({TURNED}, lengths)",
            f"reverse_padded({TURNED}, lengths) if len(x) > 1 else"
            " layer(x.flip(1))[0].flip(1)",
        ),
        "wrong with more than one layer",
        BACKWARD_WRONG,
    ),
    left_turned=(
        edit(READ_BACK, f"reverse_padded({TURNED}, lengths)", TURNED)
        & edit(FORWARD, "back[:, 0]", "at_end(back, lengths)"),
        "backward states are not reversed back",
        BACKWARD_WRONG,
    ),
    turned_after=(
        edit(READ_BACK, TURNED, "layer(x)[0]"),
        "both LSTMs read forward",
        BACKWARD_WRONG,
    ),
    both_at_the_last_token=(
        edit(FORWARD, "back[:, 0]", "at_end(back, lengths)"),
        "backward final state taken at the last token",
    ),
    both_in_the_last_column=(
        edit(FORWARD, FINAL, "states[:, -1]"),
        "the wrong final state",
        LAST_COLUMN,
    ),
    second_of_each_layer=(
        edit(FORWARD, "ahead = self.read", "below = states; ahead = self.read")
        & edit(
            FORWARD,
            FINAL,
            "torch.cat([forwards(below)[1][0][0],"
            " backwards(reverse_padded(below, lengths))[1][0][0]], dim=-1)",
        ),
        LAST_COLUMN,
    ),
    last_cells=(
        edit(FORWARD, "ahead = self.read", "below = states; ahead = self.read")
        & edit(
            FORWARD,
            FINAL,
            "torch.cat([forwards(below)[1][1].squeeze(0),"
            " backwards(reverse_padded(below, lengths))[1][1].squeeze(0)], dim=-1)",
        ),
        "cells instead of states",
    ),
    cells_of_packed_sentences=(
        edit(FORWARD, "ahead = self.read", "below = states; ahead = self.read")
        & edit(
            FORWARD,
            FINAL,
            "torch.cat([last_cell(forwards, below, lengths),"
            " last_cell(backwards, reverse_padded(below, lengths), lengths)], -1)",
        ),
        "cells instead of states",
    ),
    as_of_a_gru=(
        edit(FORWARD, "ahead = self.read", "below = states; ahead = self.read")
        & edit(
            FORWARD,
            FINAL,
            "torch.cat([forwards(below)[1],"
            " backwards(reverse_padded(below, lengths))[1]], dim=-1)",
        ),
        "a tuple is used like a tensor",
    ),
    layer_axis_left=(
        edit(FORWARD, "ahead = self.read", "below = states; ahead = self.read")
        & edit(
            FORWARD,
            FINAL,
            "torch.cat([forwards(below)[1][0],"
            " backwards(reverse_padded(below, lengths))[1][0]], dim=-1)",
        ),
        "an extra axis in the final state",
    ),
    backward_starts_where_forward_stops=(
        edit(FORWARD, "back = self.read_back", "turned = self.carried")
        & edit(FORWARD, "backwards, states", "forwards, backwards, states")
        & edit(
            FORWARD,
            "states = torch.cat([ahead",
            "back = reverse_padded(turned, lengths); states = torch.cat([ahead",
        ),
        "backward LSTM starts from the forward LSTM's state",
    ),
    backward_reads_forward_states=(
        edit(FORWARD, "read_back(backwards", "read_back(forwards"),
        BACKWARD_WRONG,
    ),
    every_layer_reads_embeddings=(
        reading("self.embed(source)", "self.embed(source)"),
        "wrong with more than one layer",
        STAND,
        FITS,
    ),
    only_the_first_layer=(
        edit(FORWARD, "zip(self.forwards", "zip(self.forwards[:1]"),
        "wrong with more than one layer",
    ),
    two_towers=(
        edit(FORWARD, "states = self.embed", "ahead = back = self.embed")
        & reading("ahead", "back"),
        STAND,
        FITS,
    ),
    mean_of_directions=(
        edit(
            FORWARD,
            RETURNED,
            "Encoded(sum(states.chunk(2, dim=-1)), sum(final.chunk(2, dim=-1)), mask)",
        ),
        "the states have half the expected width",
    ),
    mask_turned_around=(
        edit(FORWARD, "final, mask", "final, ~mask"),
        "the mask is inverted",
    ),
    backward_final_first=(
        edit(
            FORWARD,
            "at_end(ahead, lengths), back[:, 0]",
            "back[:, 0], at_end(ahead, lengths)",
        ),
        "the wrong final state",
    ),
    layers_detached=(reading("states.detach()", "states.detach()"), CUT),
    states_alone=(edit(FORWARD, RETURNED, "states"), "no Encoded is returned"),
)
