"""Answers to luong_step."""

import torch
from answers.core import draw, variations, wide, with_part, wrong
from answers.lab04_alignment.shared import (
    PARTS,
    Decoder,
    decoder_weights,
    gates,
    memories,
    sizes,
)
from answers.signs import CUT, FITS, ONE_AXIS, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge.question import Request


@wide("luong_step")
def any_luong(g):
    for b, s, v, m, d, e, a in sizes(g):
        for t, memory in enumerate(memories(g, b, s, d, e, a), start=1):
            weights = decoder_weights(g, v, m, d, e, a, reads=m, says=d, mixes=e + d)
            inputs = (torch.randint(v, (b, t), generator=g), draw(g, b, d), *memory)
            yield Request(inputs, (v, m, d, e, a), weights, gradients=True)


class Luong(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def step(self, token, memory, cache):
        states = self.run(self.embed(token), cache)
        context, weights = self.look(states, memory)
        return self.head(self.mix(context, states)), weights, states[:, -1]

    def run(self, embedded, cache):
        return self.rnn(embedded, cache[None])[0]

    def mix(self, context, states):
        return torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))


def run_token_by_token(self, embedded, cache):
    states, state = [], cache[None]
    for token in embedded.split(1, dim=1):
        output, state = self.rnn(token, state)
        states.append(output)
    return torch.cat(states, dim=1)


def run_by_gates(self, embedded, cache):
    states = []
    for x in embedded.unbind(1):
        cache = gates(x, cache, *self.rnn.all_weights[0])
        states.append(cache)
    return torch.stack(states, dim=1)


def mix_in_parts(self, context, states):
    w_c, w_h = self.attentional_proj.weight.split(
        [context.size(-1), states.size(-1)], dim=1
    )
    return (context @ w_c.T + states @ w_h.T).tanh()


def mix_by_sigmoid(self, context, states):
    return (
        2
        * torch.sigmoid(2 * self.attentional_proj(torch.cat((context, states), dim=2)))
        - 1
    )


variations(
    "luong_step",
    Luong,
    **PARTS,
    run=(run_token_by_token, run_by_gates),
    mix=(mix_in_parts, mix_by_sigmoid),
)


@wrong("luong_step", "h_{t-1} asks, where h_t is meant", "another query")
@with_part(Luong, "step")
def old_state_asks(self, token, memory, cache):
    context, weights = attend(
        self.score(cache[:, None], memory.key), memory.value, memory.mask
    )
    states, last = self.rnn(self.embedding(token), cache[None])
    context = context.expand(-1, states.size(1), -1)
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", "tanh missing", "the attentional vector is made of something else")
@with_part(Luong, "step")
def no_tanh(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return (
        self.head(self.attentional_proj(torch.cat([context, states], dim=-1))),
        weights,
        last.squeeze(0),
    )


@wrong("luong_step", "the attentional vector is made of something else")
@with_part(Luong, "step")
def relu_for_tanh(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return (
        self.head(
            torch.relu(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", "the attentional vector is made of something else")
@with_part(Luong, "step")
def mean_of_the_source(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    _, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    context = memory.value.mean(1, keepdim=True).expand(-1, states.size(1), -1)
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", "the state predicts, not the attentional vector")
@with_part(Luong, "step")
def plain_states_predict(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    _, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(states), weights, last[0]


@wrong("luong_step", ONE_AXIS)
@with_part(Luong, "step")
def layers_axis_kept(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last,
    )


@wrong("luong_step", FITS)
@with_part(Luong, "step")
def axis_at_the_wrong_place(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[:, None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", "another query")
@with_part(Luong, "step")
def starts_from_nothing(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token))
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", FITS, ONE_AXIS, "another state is handed on")
@with_part(Luong, "step")
def last_state_asks_alone(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(
        self.score(last.mT, memory.key), memory.value, memory.mask
    )
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, last.mT], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", WEIGHT)
@with_part(Luong, "step")
def no_mask(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value)
    return (
        self.head(
            torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        ),
        weights,
        last[0],
    )


@wrong("luong_step", "another state is handed on")
@with_part(Luong, "step")
def first_state_handed_on(self, token, memory, cache):
    logits, weights, _ = Luong.step(self, token, memory, cache)
    return logits, weights, self.rnn(self.embedding(token), cache[None])[0][:, 0]


@wrong("luong_step", CUT)
@with_part(Luong, "step")
def context_detached(self, token, memory, cache):
    return Luong.step(self, token, memory._replace(value=memory.value.detach()), cache)


@wrong("luong_step", TOO_MUCH)
@with_part(Luong, "step")
def logits_and_weights_only(self, token, memory, cache):
    logits, weights, _ = Luong.step(self, token, memory, cache)
    return logits, weights
