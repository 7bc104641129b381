"""Answers to encoder."""

import torch
from answers.core import draw, right, variations, wide, with_part, wrong
from answers.lab02_bottleneck.at_end import by_gather, one_by_one
from answers.lab02_bottleneck.networks import LAST_COLUMN, gru, some_lengths
from answers.lab04_alignment.shared import (
    embed_by_index,
    embed_by_product,
    gates,
    sizes,
)
from answers.signs import ANOTHER, CUT, FITS, NO_NAME, ONE_AXIS
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from nbjudge.question import Request


@wide("encoder")
def any_source(g):
    for b, s, m, d, *_ in sizes(g):
        lengths = some_lengths(g, b, s)
        weights = {"embedding.weight": draw(g, 9, m)} | gru(g, "rnn", "l0", m, d)
        yield Request(
            (torch.randint(9, (b, s), generator=g), lengths),
            (9, m, d),
            weights,
            gradients=True,
        )


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states = self.run(self.embed(source), lengths)
        return Encoded(states, self.end(states, lengths), self.allow(source, lengths))

    # A student writes these lines one below the other; here they are apart, so that
    # each can be written otherwise.
    def embed(self, source):
        return self.embedding(source)

    def run(self, embedded, lengths):
        return self.rnn(embedded)[0]

    def end(self, states, lengths):
        return at_end(states, lengths)

    def allow(self, source, lengths):
        return padding_mask(lengths.to(source.device), source.size(1))


def run_token_by_token(self, embedded, lengths):
    states, state = [], None
    for token in embedded.split(1, dim=1):
        output, state = self.rnn(token, state)
        states.append(output)
    return torch.cat(states, dim=1)


def run_by_gates(self, embedded, lengths):
    state, states = embedded.new_zeros(embedded.size(0), self.rnn.hidden_size), []
    for x in embedded.unbind(1):
        state = gates(x, state, *self.rnn.all_weights[0])
        states.append(state)
    return torch.stack(states, dim=1)


def run_packed(self, embedded, lengths):
    packed = pack_padded_sequence(
        embedded, lengths, batch_first=True, enforce_sorted=False
    )
    return pad_packed_sequence(
        self.rnn(packed)[0], batch_first=True, total_length=embedded.size(1)
    )[0]


def run_from_zeros(self, embedded, lengths):
    first = embedded.new_zeros(1, embedded.size(0), self.rnn.hidden_size)
    return self.rnn(embedded, first)[0]


def run_with_padding_wiped(self, embedded, lengths):
    tokens = padding_mask(lengths.to(embedded.device), embedded.size(1)).mT
    return self.rnn(embedded * tokens)[0] * tokens


def allow_by_comparison(self, source, lengths):
    return ~(
        torch.arange(source.size(1), device=source.device)
        >= lengths.to(source.device)[:, None, None]
    )


class PackedEncoder(Encoder):
    """What a recurrent layer returns second is right, if it was packed."""

    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        return Encoded(states=states, final=last[-1], mask=self.allow(source, lengths))


ENDS = (
    lambda self, states, lengths: by_gather(states, lengths),
    lambda self, states, lengths: one_by_one(states, lengths),
)
RUNS = (
    run_token_by_token,
    run_by_gates,
    run_packed,
    run_from_zeros,
    run_with_padding_wiped,
)
variations(
    "encoder",
    Encoder,
    embed=(embed_by_index, embed_by_product),
    run=RUNS,
    end=ENDS,
    allow=(allow_by_comparison,),
)
right("encoder")(PackedEncoder)


@wrong("encoder", LAST_COLUMN)
@with_part(Encoder, "forward")
def column_minus_one(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(
        states, states[:, -1], padding_mask(lengths.to(source.device), source.size(1))
    )


@wrong("encoder", LAST_COLUMN)
@with_part(Encoder, "forward")
def second_of_the_gru(self, source, lengths):
    states, last = self.rnn(self.embedding(source))
    return Encoded(
        states, last.squeeze(0), padding_mask(lengths.to(source.device), source.size(1))
    )


@wrong("encoder", "the axis of the layers is left")
@with_part(Encoder, "forward")
def layers_left(self, source, lengths):
    states, last = self.rnn(self.embedding(source))
    return Encoded(
        states, last, padding_mask(lengths.to(source.device), source.size(1))
    )


@wrong("encoder", "the final state is one position too early", "another final state")
@with_part(Encoder, "forward")
def one_too_early(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(
        states,
        at_end(states, lengths - 1),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", "another final state")
@with_part(Encoder, "forward")
def mean_for_final(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    mask = padding_mask(lengths.to(source.device), source.size(1))
    return Encoded(
        states,
        (mask.to(states.dtype) @ states)[:, 0] / lengths[:, None].to(states),
        mask,
    )


@wrong("encoder", "mask the wrong way around")
@with_part(Encoder, "forward")
def mask_inverted(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(
        states,
        at_end(states, lengths),
        ~padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", "padding allowed")
@with_part(Encoder, "forward")
def all_allowed(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    mask = torch.ones(
        len(source), 1, source.size(1), dtype=torch.bool, device=source.device
    )
    return Encoded(states, at_end(states, lengths), mask)


@wrong("encoder", "numbers, where True and False are meant")
@with_part(Encoder, "forward")
def mask_of_numbers(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)).float(),
    )


@wrong("encoder", ONE_AXIS)
@with_part(Encoder, "forward")
def mask_without_axis(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1))[:, 0],
    )


@wrong("encoder", "no Encoded is returned")
@with_part(Encoder, "forward")
def plain_tuple(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return (
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", NO_NAME)
@with_part(Encoder, "forward")
def tuple_taken_for_states(self, source, lengths):
    states = self.rnn(self.embedding(source))
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", FITS, "dtype lost on the way")
@with_part(Encoder, "forward")
def not_embedded(self, source, lengths):
    states, _ = self.rnn(source)
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", CUT)
@with_part(Encoder, "forward")
def embedding_frozen(self, source, lengths):
    states, _ = self.rnn(self.embedding(source).detach())
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", "read across the batch")
@with_part(Encoder, "forward")
def time_first(self, source, lengths):
    states, _ = self.rnn(self.embedding(source).transpose(0, 1))
    states = states.transpose(0, 1)
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", ANOTHER)
@with_part(Encoder, "forward")
def goes_on_from_the_last_batch(self, source, lengths):
    states, self.state = self.rnn(self.embedding(source), getattr(self, "state", None))
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@wrong("encoder", ANOTHER)
@with_part(Encoder, "forward")
def begins_at_random(self, source, lengths):
    embedded = self.embedding(source)
    states, _ = self.rnn(
        embedded, torch.randn(1, len(source), self.output_dim).to(embedded)
    )
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )


@right("encoder")
@with_part(Encoder, "forward")
def allowed_where_there_is_an_id(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(
        mask=(source != 0)[:, None], final=at_end(states, lengths), states=states
    )


@wrong("encoder", "other states")
@with_part(Encoder, "forward")
def squashed_again(self, source, lengths):
    states = torch.tanh(self.rnn(self.embedding(source))[0])
    return Encoded(
        states,
        at_end(states, lengths),
        padding_mask(lengths.to(source.device), source.size(1)),
    )
