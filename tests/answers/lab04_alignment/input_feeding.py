"""Answers to input_feeding."""

import torch
from answers.core import right, variations, wide, wrong
from answers.lab04_alignment.luong_step import (
    Luong,
    mix_by_sigmoid,
    mix_in_parts,
    run_by_gates,
)
from answers.lab04_alignment.shared import PARTS, decoder_weights, memories, sizes
from answers.signs import CUT, DEVICE, FITS, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge.question import Request


@wide("input_feeding")
def any_feeding(g):
    for b, s, v, m, d, e, a in sizes(g):
        for t, memory in enumerate(memories(g, b, s, d, e, a), start=1):
            weights = decoder_weights(
                g, v, m, d, e, a, reads=m + d, says=d, mixes=e + d
            )
            yield Request(
                (torch.randint(v, (b, t), generator=g), *memory),
                (v, m, d, e, a),
                weights,
                gradients=True,
            )


class Feeding(Luong):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, attentional = cache
        states = self.run(torch.cat([self.embed(token), attentional], dim=-1), state)
        context, weights = self.look(states, memory)
        attentional = self.mix(context, states)
        return self.head(attentional), weights, (states[:, -1], attentional)


class FeedingByName(Feeding):
    """A cache of another kind."""

    def start(self, memory):
        return {
            "h": memory.state,
            "tilde": memory.state.new_zeros(len(memory.state), 1, memory.state.size(1)),
        }

    def step(self, token, memory, cache):
        x = torch.cat((self.embed(token).squeeze(1), cache["tilde"].squeeze(1)), dim=1)
        states, last = self.rnn(x.unsqueeze(1), cache["h"].unsqueeze(0))
        context, weights = self.look(states, memory)
        tilde = self.mix(context, states)
        return self.head(tilde), weights, {"h": last.squeeze(0), "tilde": tilde}


variations(
    "input_feeding",
    Feeding,
    **PARTS,
    run=(run_by_gates,),
    mix=(mix_in_parts, mix_by_sigmoid),
)
right("input_feeding")(FeedingByName)


def feeding(**parts):
    return type(next(iter(parts.values())).__name__, (Feeding,), parts)


def feeding_step(step):
    return feeding(step=step)


@wrong("input_feeding", "zeros are fed at every step")
@feeding_step
def never_fed(self, token, memory, cache):
    state, nothing = cache
    logits, weights, (state, _) = Feeding.step(self, token, memory, cache)
    return logits, weights, (state, nothing)


@wrong("input_feeding", "the state is fed, not the attentional vector")
@feeding_step
def state_fed(self, token, memory, cache):
    logits, weights, (state, _) = Feeding.step(self, token, memory, cache)
    return logits, weights, (state, state[:, None])


@wrong("input_feeding", "the first state is fed first", "zeros are fed at every step")
class FirstStateFed(Feeding):
    def start(self, memory):
        return memory.state, memory.state[:, None]


@wrong("input_feeding", FITS)
@feeding_step
def context_fed(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
    context, weights = self.look(states, memory)
    return self.head(self.mix(context, states)), weights, (states[:, -1], context)


@wrong("input_feeding", "something else is handed on")
@feeding_step
def state_not_handed_on(self, token, memory, cache):
    logits, weights, (_, attentional) = Feeding.step(self, token, memory, cache)
    return logits, weights, (memory.state, attentional)


@wrong("input_feeding", CUT, "something else is handed on")
@feeding_step
def fed_without_gradient(self, token, memory, cache):
    logits, weights, (state, attentional) = Feeding.step(
        self, token, memory, (cache[0].detach(), cache[1].detach())
    )
    return logits, weights, (state, attentional)


@wrong("input_feeding", "something else is handed on")
@feeding_step
def logits_of_before_tanh(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
    context, weights = self.look(states, memory)
    mixed = self.attentional_proj(torch.cat([context, states], dim=-1))
    return self.head(mixed.tanh()), weights, (states[:, -1], mixed)


@wrong("input_feeding", DEVICE, "dtype lost on the way")
class ZerosOfTheirOwn(Feeding):
    def start(self, memory):
        return memory.state, torch.zeros(memory.state.size(0), 1, memory.state.size(1))


@wrong("input_feeding", "the weights are right, the logits are not")
@feeding_step
def tanh_forgotten(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
    context, weights = self.look(states, memory)
    mixed = self.attentional_proj(torch.cat([context, states], dim=-1))
    return self.head(mixed), weights, (states[:, -1], mixed)


@wrong("input_feeding", "attentional vector before token")
@feeding_step
def fed_in_front(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([fed, self.embed(token)], dim=-1), state)
    context, weights = self.look(states, memory)
    mixed = self.mix(context, states)
    return self.head(mixed), weights, (states[:, -1], mixed)


@wrong("input_feeding", WEIGHT)
class FeedingUnmasked(Feeding):
    def look(self, query, memory):
        return attend(self.score(query, memory.key), memory.value)


@wrong("input_feeding", FITS)
class TwoAxesOfZeros(Feeding):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)
