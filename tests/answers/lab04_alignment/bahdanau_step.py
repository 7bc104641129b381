"""Answers to bahdanau_step."""

import torch
import torch.nn.functional as F
from answers.core import draw, variations, wide, with_part, wrong
from answers.lab04_alignment.shared import (
    PARTS,
    Decoder,
    decoder_weights,
    gates,
    memories,
    sizes,
)
from answers.signs import CUT, FITS, NO_NAME, ONE_AXIS, ORDER, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge.question import Request


@wide("bahdanau_step")
def any_bahdanau(g):
    for b, s, v, m, d, e, a in sizes(g):
        for memory in memories(g, b, s, d, e, a):
            weights = decoder_weights(g, v, m, d, e, a, reads=m + e, says=d + e + m)
            inputs = (torch.randint(v, (b, 1), generator=g), draw(g, b, d), *memory)
            yield Request(inputs, (v, m, d, e, a), weights, gradients=True)


class Bahdanau(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embed(token)
        context, weights = self.look(cache.unsqueeze(1), memory)
        state = self.update(embedded, context, cache)
        return self.say(state, context, embedded), weights, state

    def update(self, embedded, context, cache):
        return self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)

    def say(self, state, context, embedded):
        return self.head(torch.cat([state[:, None], context, embedded], dim=-1))


def update_squeezed(self, embedded, context, cache):
    return self.rnn(torch.cat([embedded.squeeze(1), context.squeeze(1)], dim=1), cache)


def update_by_gates(self, embedded, context, cache):
    x = torch.cat([embedded, context], dim=-1).squeeze(1)
    return gates(
        x,
        cache,
        self.rnn.weight_ih,
        self.rnn.weight_hh,
        self.rnn.bias_ih,
        self.rnn.bias_hh,
    )


def say_in_parts(self, state, context, embedded):
    parts = self.head.weight.split(
        [state.size(-1), context.size(-1), embedded.size(-1)], dim=1
    )
    return (
        F.linear(state[:, None], parts[0], self.head.bias)
        + context @ parts[1].T
        + embedded @ parts[2].T
    )


def say_without_time(self, state, context, embedded):
    return self.head(
        torch.cat([state, context.squeeze(1), embedded.squeeze(1)], dim=-1)
    ).unsqueeze(1)


variations(
    "bahdanau_step",
    Bahdanau,
    **PARTS,
    update=(update_squeezed, update_by_gates),
    say=(say_in_parts, say_without_time),
)


@wrong("bahdanau_step", "the first state asks at every step")
@with_part(Bahdanau, "step")
def asks_with_the_memory(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(
        self.score(memory.state[:, None], memory.key), memory.value, memory.mask
    )
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], memory.state)
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", "another query")
@with_part(Bahdanau, "step")
def updates_first(self, token, memory, cache):
    embedded = self.embedding(token)
    nothing = memory.value.new_zeros(token.size(0), memory.value.size(-1))
    state = self.rnn(torch.cat([embedded[:, 0], nothing], dim=-1), cache)
    context, weights = attend(
        self.score(state[:, None], memory.key), memory.value, memory.mask
    )
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", "the update reads something else than token and context")
@with_part(Bahdanau, "step")
def context_left_out(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(
        self.score(cache[:, None], memory.key), memory.value, memory.mask
    )
    state = self.rnn(
        torch.cat([embedded, torch.zeros_like(context)], dim=-1)[:, 0], cache
    )
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", FITS)
@with_part(Bahdanau, "step")
def no_axis_for_the_query(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache, memory.key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", FITS)
@with_part(Bahdanau, "step")
def keys_projected_again(self, token, memory, cache):
    embedded = self.embedding(token)
    key = self.score.project_keys(memory.key)
    context, weights = attend(
        self.score(cache[:, None], key), memory.value, memory.mask
    )
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", WEIGHT)
@with_part(Bahdanau, "step")
def mask_forgotten(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", WEIGHT)
@with_part(Bahdanau, "step")
def mask_inverted(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(
        self.score(cache[:, None], memory.key), memory.value, ~memory.mask
    )
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong(
    "bahdanau_step", "the old state predicts", "the output layer reads something else"
)
@with_part(Bahdanau, "step")
def predicts_too_early(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(
        self.score(cache[:, None], memory.key), memory.value, memory.mask
    )
    logits = self.head(torch.cat([cache[:, None], context, embedded], dim=-1))
    return (
        logits,
        weights,
        self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache),
    )


@wrong("bahdanau_step", "the output layer reads something else")
@with_part(Bahdanau, "step")
def context_first_in_the_head(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(
        self.score(cache[:, None], memory.key), memory.value, memory.mask
    )
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return (
        self.head(torch.cat([context, state[:, None], embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", ORDER)
@with_part(Bahdanau, "step")
def weights_before_logits(self, token, memory, cache):
    logits, weights, state = Bahdanau.step(self, token, memory, cache)
    return weights, logits, state


@wrong("bahdanau_step", ONE_AXIS)
@with_part(Bahdanau, "step")
def axis_taken_off(self, token, memory, cache):
    logits, weights, state = Bahdanau.step(self, token, memory, cache)
    return logits[:, 0], weights[:, 0], state


@wrong("bahdanau_step", CUT)
@with_part(Bahdanau, "step")
def state_detached(self, token, memory, cache):
    return Bahdanau.step(self, token, memory, cache.detach())


@wrong("bahdanau_step", TOO_MUCH)
@with_part(Bahdanau, "step")
def nothing_handed_on(self, token, memory, cache):
    return Bahdanau.step(self, token, memory, cache)[:2]


@wrong("bahdanau_step", FITS)
@with_part(Bahdanau, "step")
def every_axis_squeezed(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(
        self.score(cache[:, None], memory.key), memory.value, memory.mask
    )
    state = self.rnn(torch.cat([embedded, context], dim=-1).squeeze(), cache)
    return (
        self.head(torch.cat([state[:, None], context, embedded], dim=-1)),
        weights,
        state,
    )


@wrong("bahdanau_step", NO_NAME)
@with_part(Bahdanau, "step")
def misspelt(self, token, memory, cache):
    context, weights = attend(
        self.score(cache[:, None], memory.keys), memory.values, memory.mask
    )
    return context, weights, cache
