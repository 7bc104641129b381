"""Answers to encoder."""

import torch
from answers.core import right, right_edits, variations, wide, wrong_edits
from answers.lab02_bottleneck.at_end import (
    by_gather,  # noqa: F401 (edits name these)
    one_by_one,  # noqa: F401
)
from answers.lab02_bottleneck.shared import (
    END,
    LAST_COLUMN,
    MASK,
    MASK_BY_COMPARISON,
    at_end,
    packed,  # noqa: F401
    some_lengths,
)
from answers.lab04_alignment.shared import (
    EMBED,
    by_gates,  # noqa: F401
    draw_for,
    sizes,
    token_by_token,  # noqa: F401
)
from answers.signs import ANOTHER, CUT, DTYPE, FITS, NAN, NO_NAME, ONE_AXIS
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from nbjudge import edit
from nbjudge.question import Request


class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        mask = padding_mask(lengths.to(source.device), source.size(1))
        states, last = self.rnn(self.embed(source))
        return Encoded(states, at_end(states, lengths), mask)

    def embed(self, source):
        return self.embedding(source)


class PackedEncoder(Encoder):
    """What a recurrent layer returns second is right, if it was packed."""

    def forward(self, source, lengths):
        tokens = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.rnn(tokens)
        states, _ = pad_packed_sequence(
            states, batch_first=True, total_length=source.size(1)
        )
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states=states, final=last[-1], mask=mask)


def by_large_gates(gru, inputs):
    """Read with a tanh of its own, which is NaN for large numbers."""

    def tanh(x):
        return (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())

    state = inputs.new_zeros(len(inputs), gru.hidden_size)
    w_x, w_h, b_x, b_h = gru.all_weights[0]
    states = []
    for x in inputs.unbind(1):
        (r, z, n), (u, v, m) = (
            y.chunk(3, dim=-1) for y in (x @ w_x.T + b_x, state @ w_h.T + b_h)
        )
        z = (z + v).sigmoid()
        state = (1 - z) * tanh(n + (r + u).sigmoid() * m) + z * state
        states.append(state)
    return torch.stack(states, dim=1)


@wide("encoder")
def any_source(g):
    for b, s, m, d, *_ in sizes(g):
        source = torch.randint(9, (b, s), generator=g)
        drawn = draw_for(g, Encoder(9, m, d))
        inputs = (source, some_lengths(g, b, s))
        yield Request(inputs, (9, m, d), drawn, gradients=True)


FORWARD = Encoder.forward
READ = "states, last = self.rnn(self.embed(source))"

variations("encoder", Encoder, embed=EMBED)
right("encoder")(PackedEncoder)
right_edits(
    "encoder",
    Encoder,
    run_token_by_token=edit(
        FORWARD, READ, "states = token_by_token(self.rnn, self.embed(source))"
    ),
    run_by_gates=edit(FORWARD, READ, "states = by_gates(self.rnn, self.embed(source))"),
    run_packed=edit(
        FORWARD, READ, "states = packed(self.rnn, self.embed(source), lengths)"
    ),
    run_from_zeros=edit(
        FORWARD,
        "self.embed(source)",
        "self.embed(source), self.embedding.weight.new_zeros("
        "1, len(source), self.output_dim)",
    ),
    run_with_padding_wiped=edit(
        FORWARD, READ, "states = self.rnn(self.embed(source) * mask.mT)[0] * mask.mT"
    ),
    end_by_gather=edit(FORWARD, END, "by_gather(states, lengths)"),
    end_one_by_one=edit(FORWARD, END, "one_by_one(states, lengths)"),
    allow_by_comparison=edit(FORWARD, MASK, MASK_BY_COMPARISON),
)
wrong_edits(
    "encoder",
    Encoder,
    column_minus_one=(edit(FORWARD, END, "states[:, -1]"), LAST_COLUMN),
    second_of_the_gru=(edit(FORWARD, END, "last.squeeze(0)"), LAST_COLUMN),
    unpadded_if_alone=(
        edit(FORWARD, END, f"last[0] if len(source) == 1 else {END}"),
        "the wrong final state",
    ),
    allowed_if_alone=(
        edit(FORWARD, MASK, f"{MASK} | (len(source) == 1)"),
        "the mask is True everywhere",
    ),
    fetched=(edit(FORWARD, END, "at_end(states.cpu(), lengths)"),),
    tanh_by_hand=(
        edit(FORWARD, READ, "states = by_large_gates(self.rnn, self.embed(source))"),
        NAN,
    ),
    layers_left=(edit(FORWARD, END, "last"), "an extra axis in the final state"),
    one_too_early=(
        edit(FORWARD, END, "at_end(states, lengths - 1)"),
        "final state taken one position too early",
        "the wrong final state",
    ),
    mean_for_final=(
        edit(
            FORWARD,
            END,
            "(mask.to(states.dtype) @ states)[:, 0] / lengths[:, None].to(states)",
        ),
        "the wrong final state",
    ),
    allowed_where_there_is_an_id=(
        edit(FORWARD, MASK, "(source != 0)[:, None]"),
        "padding is inferred from the ids",
    ),
    mask_inverted=(edit(FORWARD, MASK, f"~{MASK}"), "the mask is inverted"),
    all_allowed=(edit(FORWARD, MASK, f"{MASK} | True"), "the mask is True everywhere"),
    mask_of_numbers=(
        edit(FORWARD, MASK, f"{MASK}.float()"),
        "numbers instead of True and False",
    ),
    mask_without_axis=(edit(FORWARD, MASK, f"{MASK}[:, 0]"), ONE_AXIS),
    plain_tuple=(edit(FORWARD, "return Encoded", "return "), "no Encoded is returned"),
    tuple_taken_for_states=(edit(FORWARD, "states, last", "states"), NO_NAME),
    not_embedded=(edit(FORWARD, "self.embed(source)", "source"), FITS, DTYPE),
    embedding_frozen=(edit(FORWARD, "d(source)", "d(source).detach()"), CUT),
    time_first=(
        edit(FORWARD, "self.embed(source)", "self.embed(source).transpose(0, 1)")
        & edit(FORWARD, "return", "states = states.transpose(0, 1); return"),
        "the RNN reads along the batch axis",
    ),
    goes_on_from_the_last_batch=(
        edit(FORWARD, "states, last", "states, self.state")
        & edit(FORWARD, "d(source)", "d(source), getattr(self, 'state', None)"),
        ANOTHER,
    ),
    begins_at_random=(
        edit(
            FORWARD,
            "self.embed(source)",
            "self.embed(source),"
            " torch.randn(1, len(source), self.output_dim).to(self.embedding.weight)",
        ),
        "the wrong states",
    ),
    squashed_again=(
        edit(FORWARD, READ, "states = self.rnn(self.embed(source))[0].tanh()"),
        "the wrong states",
    ),
)
