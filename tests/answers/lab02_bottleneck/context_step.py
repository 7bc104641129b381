"""Answers to context_step."""

import torch
from answers.core import variations, wide, with_part, wrong
from answers.lab02_bottleneck.final_state_step import WRITING, FinalState
from answers.lab02_bottleneck.networks import any_step
from answers.signs import ANOTHER, CUT, FITS, TOO_MUCH
from torch import nn

wide("final_state_step")(lambda g: any_step(g, told=False))
wide("context_step")(lambda g: any_step(g, told=True))


class Context(FinalState):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def tell(self, embedded, memory):
        return torch.cat(
            [embedded, memory.value.expand(-1, embedded.size(1), -1)], dim=-1
        )


def tell_repeated(self, embedded, memory):
    return torch.cat((embedded, memory.value.repeat(1, embedded.size(1), 1)), dim=2)


def tell_by_attention(self, embedded, memory):
    weights = (
        embedded.new_zeros(*embedded.shape[:2], 1)
        .masked_fill(~memory.mask, -1e30)
        .softmax(-1)
    )
    return torch.cat([embedded, weights @ memory.value], dim=-1)


def tell_token_by_token(self, embedded, memory):
    told = [torch.cat([x, memory.value[:, 0]], dim=-1) for x in embedded.unbind(1)]
    return torch.stack(told, dim=1)


def tell_by_key(self, embedded, memory):
    key = (
        memory.key.squeeze(1)
        .unsqueeze(1)
        .expand(embedded.size(0), embedded.size(1), memory.key.size(-1))
    )
    return torch.cat([embedded, key.contiguous()], dim=-1)


variations(
    "context_step",
    Context,
    **WRITING,
    tell=(tell_repeated, tell_by_attention, tell_token_by_token, tell_by_key),
)


def told(self, token, memory):
    return torch.cat(
        [self.embedding(token), memory.value.expand(-1, token.size(1), -1)], dim=-1
    )


@wrong("context_step", "the source before the token")
@with_part(Context, "step")
def source_in_front(self, token, memory, cache):
    inputs = torch.cat(
        [memory.value.expand(-1, token.size(1), -1), self.embedding(token)], dim=2
    )
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "one source for many tokens", FITS)
@with_part(Context, "step")
def not_repeated(self, token, memory, cache):
    states, last = self.rnn(
        torch.cat([self.embedding(token), memory.value], dim=-1), cache[None]
    )
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", FITS)
@with_part(Context, "step")
def not_told(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", FITS)
@with_part(Context, "step")
def state_told(self, token, memory, cache):
    inputs = torch.cat(
        [self.embedding(token), memory.state[:, None].expand(-1, token.size(1), -1)],
        dim=-1,
    )
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", FITS)
@with_part(Context, "step")
def stacked_in_time(self, token, memory, cache):
    states, last = self.rnn(
        torch.cat([self.embedding(token), memory.value], dim=1), cache[None]
    )
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "every step starts from the first state")
@with_part(Context, "step")
def starts_again(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory), memory.state.unsqueeze(0))
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "every step starts from nothing")
@with_part(Context, "step")
def no_past(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory))
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "the new state is not handed on", "another state is handed on")
@with_part(Context, "step")
def old_cache_handed_on(self, token, memory, cache):
    states, _ = self.rnn(told(self, token, memory), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), cache


@wrong(
    "context_step",
    "the state after the first token is handed on",
    "another state is handed on",
)
@with_part(Context, "step")
def first_handed_on(self, token, memory, cache):
    states, _ = self.rnn(told(self, token, memory), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]


@wrong("context_step", "the logits are made of something else")
@with_part(Context, "step")
def head_after_tanh(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory), cache[None])
    return self.head(torch.relu(states)), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "other weights")
@with_part(Context, "step")
def ones_over_the_source(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory), cache[None])
    return (
        self.head(states),
        states.new_ones(*token.shape, memory.value.size(-1)),
        last[0],
    )


@wrong("context_step", CUT)
@with_part(Context, "step")
def source_detached(self, token, memory, cache):
    return Context.step(
        self, token, memory._replace(value=memory.value.detach()), cache
    )


@wrong("context_step", TOO_MUCH)
@with_part(Context, "step")
def logits_and_state(self, token, memory, cache):
    logits, _, state = Context.step(self, token, memory, cache)
    return logits, state


@wrong("context_step", "the update reads something else")
@with_part(Context, "step")
def mean_of_the_embeddings(self, token, memory, cache):
    embedded = self.embedding(token).mean(0, keepdim=True).expand(token.size(0), -1, -1)
    inputs = torch.cat([embedded, memory.value.expand(-1, token.size(1), -1)], dim=-1)
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", ANOTHER)
@with_part(Context, "step")
def told_state_kept_on_self(self, token, memory, cache):
    states, self.state = self.rnn(
        told(self, token, memory), getattr(self, "state", cache[None])
    )
    return self.head(states), states.new_ones(*token.shape, 1), self.state[0]


@wrong("context_step", CUT)
@with_part(Context, "step")
def told_handed_on_without_gradient(self, token, memory, cache):
    logits, weights, state = Context.step(self, token, memory, cache)
    return logits, weights, state.detach()
