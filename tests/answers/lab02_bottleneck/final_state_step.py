"""Answers to final_state_step."""

import torch
from answers.core import right, variations, with_part, wrong
from answers.lab02_bottleneck.remember import OneSlot
from answers.lab04_alignment.shared import embed_by_index, embed_by_product, gates
from answers.signs import ANOTHER, CUT, DEVICE, DTYPE, FITS, ONE_AXIS, ORDER, TOO_MUCH
from torch import nn


class FinalState(OneSlot):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = self.write(self.tell(self.embed(token), memory), cache)
        return self.say(states), self.weigh(token, states), states[:, -1]

    def embed(self, token):
        return self.embedding(token)

    def tell(self, embedded, memory):
        return embedded

    def write(self, inputs, cache):
        return self.rnn(inputs, cache[None])[0]

    def say(self, states):
        return self.head(states)

    def weigh(self, token, states):
        return states.new_ones(*token.shape, 1)


def write_token_by_token(self, inputs, cache):
    states, state = [], cache.unsqueeze(0)
    for x in inputs.split(1, dim=1):
        output, state = self.rnn(x, state)
        states.append(output)
    return torch.cat(states, dim=1)


def write_by_gates(self, inputs, cache):
    states = []
    for x in inputs.unbind(1):
        cache = gates(x, cache, *self.rnn.all_weights[0])
        states.append(cache)
    return torch.stack(states, dim=1)


def write_time_first(self, inputs, cache):
    states, state = [], cache
    for t in range(inputs.size(1)):
        state = self.rnn(inputs[:, t : t + 1], state[None].contiguous())[1].squeeze(0)
        states.append(state)
    return torch.stack(states).transpose(0, 1)


def say_by_product(self, states):
    return states @ self.head.weight.T + self.head.bias


def say_by_einsum(self, states):
    return torch.einsum("btd,vd->btv", states, self.head.weight) + self.head.bias


def say_token_by_token(self, states):
    return torch.stack([self.head(state) for state in states.unbind(1)], dim=1)


def weigh_by_softmax(self, token, states):
    return torch.zeros_like(states[..., :1]).softmax(-1)


def weigh_ones_like(self, token, states):
    return torch.ones_like(states[:, :, :1])


def weigh_ones(self, token, states):
    return torch.ones(
        token.size(0), token.size(1), 1, dtype=states.dtype, device=states.device
    )


WRITING = {
    "embed": (embed_by_index, embed_by_product),
    "write": (write_token_by_token, write_by_gates, write_time_first),
    "say": (say_by_product, say_by_einsum, say_token_by_token),
    "weigh": (weigh_by_softmax, weigh_ones_like, weigh_ones),
}


class LastOfTheGRU(FinalState):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache.reshape(1, *cache.shape))
        return (
            self.head(states),
            memory.mask.to(states.dtype).expand(-1, token.size(1), -1),
            last.squeeze(0),
        )


variations("final_state_step", FinalState, **WRITING)
right("final_state_step")(LastOfTheGRU)


@wrong("final_state_step", "every step starts from the first state")
@with_part(FinalState, "step")
def memory_for_cache(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), memory.state[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "every step starts from nothing")
@with_part(FinalState, "step")
def no_state(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token))
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "another state is handed on", ONE_AXIS)
@with_part(FinalState, "step")
def layers_handed_on(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last


@wrong("final_state_step", "another state is handed on", ONE_AXIS)
@with_part(FinalState, "step")
def all_states_handed_on(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), states


@wrong("final_state_step", "the axis of the layers")
@with_part(FinalState, "step")
def layer_axis_second(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[:, None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "the axis of the layers")
@with_part(FinalState, "step")
def layer_axis_missing(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache)
    return self.head(states), states.new_ones(*token.shape, 1), last


@wrong("final_state_step", "probabilities, where logits are meant")
@with_part(FinalState, "step")
def softmaxed(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return (
        torch.softmax(self.head(states), dim=-1),
        states.new_ones(*token.shape, 1),
        last[0],
    )


@wrong("final_state_step", "the logits of one token only")
@with_part(FinalState, "step")
def last_logits_only(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(last[0])[:, None], states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", ORDER)
@with_part(FinalState, "step")
def state_first(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return last[0], self.head(states), states.new_ones(*token.shape, 1)


@wrong("final_state_step", TOO_MUCH)
@with_part(FinalState, "step")
def no_weights(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), last[0]


@wrong("final_state_step", "other weights")
@with_part(FinalState, "step")
def weights_of_zero(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), torch.zeros_like(states[..., :1]), last[0]


@wrong("final_state_step", "other weights")
@with_part(FinalState, "step")
def weights_for_one_token(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong("final_state_step", DEVICE, DTYPE)
@with_part(FinalState, "step")
def ones_of_their_own(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong("final_state_step", CUT)
@with_part(FinalState, "step")
def past_detached(self, token, memory, cache):
    return FinalState.step(self, token, memory, cache.detach())


@wrong("final_state_step", FITS)
@with_part(FinalState, "step")
def told_nevertheless(self, token, memory, cache):
    inputs = torch.cat(
        [self.embedding(token), memory.value.expand(-1, token.size(1), -1)], dim=-1
    )
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", ANOTHER)
@with_part(FinalState, "step")
def state_kept_on_self(self, token, memory, cache):
    states, self.state = self.rnn(
        self.embedding(token), getattr(self, "state", cache[None])
    )
    return self.head(states), states.new_ones(*token.shape, 1), self.state[0]


@wrong("final_state_step", CUT)
@with_part(FinalState, "step")
def handed_on_without_gradient(self, token, memory, cache):
    logits, weights, state = FinalState.step(self, token, memory, cache)
    return logits, weights, state.detach()
