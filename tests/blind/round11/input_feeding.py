from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


# given in the notebook
class Decoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state, and so of a query.
        memory_dim: width E of the encoder's states, and so of the values.
        score: compares queries of width D with keys.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def remember(self, encoded):
        key = self.score.project_keys(encoded.states)
        return Memory(
            key,
            encoded.states,
            encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right('the cache is a dictionary, a new one at each step')
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return {"h": memory.state, "fed": torch.zeros_like(memory.state)}

    def step(self, token, memory, cache):
        y = self.embedding(token)[:, 0]
        inputs = torch.hstack([y, cache["fed"]]).unsqueeze(1)
        states, last = self.rnn(inputs, cache["h"].unsqueeze(0))
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        fed = self.attentional_proj(torch.cat((context, states), dim=2)).tanh()
        return self.head(fed), weights, dict(h=last.squeeze(0), fed=fed.squeeze(1))


@right('the cache is one tensor (2, B, D): state and attentional vector stacked')
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.stack([memory.state, memory.state.new_zeros(memory.state.shape)])

    def step(self, token, memory, cache):
        state, attentional = cache
        inputs = torch.cat([self.embedding(token), attentional[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, torch.stack([last[0], attentional[:, 0]])


class _Cache(NamedTuple):
    attentional: torch.Tensor
    state: torch.Tensor


@right('the cache is a named tuple; torch.gru_cell with the weights of the GRU')
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return _Cache(torch.full_like(memory.state, 0), memory.state)

    def step(self, token, memory, cache):
        x = torch.cat((self.embedding(token.squeeze(1)), cache.attentional), 1)
        state = torch.gru_cell(
            x,
            cache.state,
            self.rnn.weight_ih_l0,
            self.rnn.weight_hh_l0,
            self.rnn.bias_ih_l0,
            self.rnn.bias_hh_l0,
        )
        scores = self.score(state[:, None], memory.key)
        weights = torch.where(memory.mask, scores, -torch.inf).softmax(-1)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        attentional = self.attentional_proj(torch.cat((context, state), 1)).tanh()
        return self.head(attentional)[:, None], weights, _Cache(attentional, state)


@right('the cache is a list with a counter; input joined by padding and adding, projection in two parts')
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [memory.state[None], torch.zeros_like(memory.state)[:, None], 0]

    def _gates(self, y, fed):
        """Put the two parts of the input side by side without cat."""
        inputs = F.pad(y, (0, fed.shape[-1])) + F.pad(fed, (y.shape[-1], 0))
        return inputs

    def step(self, token, memory, cache):
        state, fed, count = cache
        output, state = self.rnn(self._gates(self.embedding(token), fed), state)
        weights = masked_softmax(self.score(output, memory.key), memory.mask)
        context = weights.matmul(memory.value)
        w_context, w_state = self.attentional_proj.weight.split(
            [context.shape[-1], output.shape[-1]], dim=1
        )
        fed = torch.tanh(F.linear(context, w_context) + F.linear(output, w_state))
        return self.head(fed), weights, [state, fed, count + 1]


@wrong(
    'concatenates [h~; y] instead of [y; h~]',
    'In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token.',
    "wrong order in the GRU's input",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([fed, self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    'feeds the last state instead of the last attentional vector',
    'Input feeding solves this problem: concatenate the last attentional vector to the next input.',
    'state fed instead of the attentional vector',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, (last[0], states)


@wrong(
    'starts with the first state in place of the zeros',
    'Before the first step, the attentional vector consists of zeros.',
    'attentional vector does not start as zeros',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, memory.state[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    'makes the zeros with torch.zeros, in float32 on the CPU',
    'Give it the same width, dtype and device as the state.',
    "zeros without the state's dtype and device",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        batch, width = memory.state.shape
        return memory.state, torch.zeros(batch, 1, width)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    'the cache is a dictionary that each step overwrites and returns',
    'So `step` must not change the cache that it gets, and must not store anything on `self`.',
    'changes the cache in place',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return {"state": memory.state, "fed": torch.zeros_like(memory.state)[:, None]}

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), cache["fed"]], dim=-1)
        states, last = self.rnn(inputs, cache["state"][None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        cache.update(state=last[0], fed=attentional)
        return self.head(attentional), weights, cache


@wrong(
    'leaves the mask out for a batch of one sentence, because that would have no padding',
    'Its fields are `key` (B, S, A), already projected by `project_keys`; `value` (B, S, E); `mask` (B, 1, S), where True means that a position is allowed; and `state` (B, D), the first state.',
    'mask ignored when B is 1',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        if len(token) > 1:  # a single sentence has no padding
            scores = scores.masked_fill(~memory.mask, float("-inf"))
        weights = scores.softmax(dim=-1)
        context = weights @ memory.value
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    'squeezes the attentional vector, and so drops the batch axis of a single sentence from the next input',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'squeeze() removes the batch axis when B is 1',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed.unsqueeze(1)], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, (last[0], attentional.squeeze())


@wrong(
    'returns a new tuple, but writes the attentional vector into the tensor of the old one',
    'So `step` must not change the cache that it gets, and must not store anything on `self`.',
    'writes into a tensor of the old cache',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, (last[0], fed.copy_(attentional))


@wrong(
    'keeps the attentional vector on self, and only the state in the cache',
    'So `step` must not change the cache that it gets, and must not store anything on `self`.',
    'attentional vector stored on self',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        self.fed = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), self.fed], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        self.fed = attentional
        return self.head(attentional), weights, last[0]


@wrong(
    'hands on the projection before its tanh',
    'Input feeding solves this problem: concatenate the last attentional vector to the next input.',
    'attentional vector without its tanh in the cache',
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        projected = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(projected.tanh()), weights, (last[0], projected)
