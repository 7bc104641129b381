from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share."""

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


@right("the cache is one tensor (B, 2 D): state and attentional vector side by side")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return F.pad(memory.state, (0, memory.state.shape[-1]))

    def step(self, token, memory, cache):
        state, fed = cache.chunk(2, dim=-1)
        inputs = torch.cat((self.embedding(token), fed.unsqueeze(1)), dim=-1)
        query, last = self.rnn(inputs, state.unsqueeze(0).contiguous())
        context, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        new = self.attentional_proj(torch.cat((context, query), dim=-1)).tanh()
        return self.head(new), weights, torch.cat((last[0], new[:, 0]), dim=-1)


@right("the cache is a dict, a new one for each step")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        first = memory.state
        return {"h": first, "fed": first.new_zeros(first.shape)}

    def step(self, token, memory, cache):
        y = self.embedding(token[:, 0])
        x = torch.cat([y, cache["fed"]], dim=1)
        h = self._cell(x, cache["h"])
        weights = masked_softmax(self.score(h[:, None], memory.key), memory.mask)
        context = torch.einsum("bs,bse->be", weights[:, 0], memory.value)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=1)))
        return self.head(fed)[:, None], weights, {**cache, "h": h, "fed": fed}

    def _cell(self, x, h):
        r = self.rnn
        xs = F.linear(x, r.weight_ih_l0, r.bias_ih_l0).chunk(3, dim=1)
        hs = F.linear(h, r.weight_hh_l0, r.bias_hh_l0).chunk(3, dim=1)
        reset, update = (torch.sigmoid(a + b) for a, b in zip(xs[:2], hs[:2]))
        new = torch.tanh(xs[2] + reset * hs[2])
        return torch.lerp(new, h, update)


class _Carried(NamedTuple):
    state: torch.Tensor  # (1, B, D), as the GRU wants it
    attentional: torch.Tensor  # (B, 1, D), as the concatenation wants it


@right("the cache is a NamedTuple in the layouts of the GRU; the step runs in two helper methods")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return _Carried(memory.state[None], torch.zeros_like(memory.state).unsqueeze(1))

    def _update(self, token, carried):
        return self.rnn(torch.cat([self.embedding(token), carried.attentional], 2), carried.state)

    def _ask(self, query, memory):
        context, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        return torch.tanh(self.attentional_proj(torch.cat([context, query], 2))), weights

    def step(self, token, memory, cache):
        query, state = self._update(token, cache)
        attentional, weights = self._ask(query, memory)
        return self.head(attentional), weights, _Carried(state, attentional)


@right("tuple in the other order, zeros from full_like, bmm for the context, an additional default argument")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        # full_like keeps width, dtype and device of the state
        return (torch.full_like(memory.state, 0), memory.state)

    def step(self, token, memory, cache, need_weights=True):
        fed, before = cache
        parts = [self.embedding(token), fed.view(fed.shape[0], 1, fed.shape[1])]
        after, _ = self.rnn(torch.concat(parts, dim=-1), torch.stack([before]))
        weights = masked_softmax(self.score(after, memory.key), memory.mask)
        context = torch.bmm(weights, memory.value)
        fed = torch.tanh(self.attentional_proj(torch.concat([context, after], dim=-1)))
        return self.head(fed), weights, (fed.squeeze(1), after.squeeze(1))


@wrong(
    "puts the attentional vector before the embedding: wrong from the first step on",
    r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0.",
    "GRU input concatenated in the wrong order",
)
class InputFeedingDecoder(Decoder):
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "starts with the first state as attentional vector instead of zeros: the first step is wrong",
    "Before the first step, the attentional vector consists of zeros.",
    "first attentional vector is the state, not zeros",
)
class InputFeedingDecoder(Decoder):
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "keeps the attentional vector on self: two continuations of one cache, or two sources in turn, disturb each other",
    "So `step` must not change the cache that it gets, and must not store anything on `self`.",
    "attentional vector stored on self",
)
class InputFeedingDecoder(Decoder):
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        self.fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(self.fed), weights, last[0]


@wrong(
    "zeros of the default dtype: with a bfloat16 model the concatenation is float32 and the GRU raises",
    "Give it the same width, dtype and device as the state.",
    "zeros without dtype and device",
)
class InputFeedingDecoder(Decoder):
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "the zeros get the width of the values: right if E equals D, otherwise the GRU raises in the first step",
    "Give it the same width, dtype and device as the state.",
    "zeros have the encoder's width",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.value[:, :1])

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "squeeze() on what goes into the cache: for a batch of one sentence the second step raises",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze without an axis loses a batch of one",
)
class InputFeedingDecoder(Decoder):
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
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last.squeeze(), fed.squeeze())


@wrong(
    "the cache is a list that step fills anew and returns: continuing twice from the same cache gives a wrong second result",
    "So `step` must not change the cache that it gets, and must not store anything on `self`.",
    "cache is changed in place",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [memory.state, torch.zeros_like(memory.state)[:, None]]

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), cache[1]], dim=-1)
        states, last = self.rnn(inputs, cache[0][None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        cache[0] = last[0]
        cache[1] = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(cache[1]), weights, cache


@wrong(
    "passes on the vector before the tanh: the first step is right, every later one is fed wrong numbers",
    "Input feeding solves this problem: concatenate the last attentional vector to the next input.",
    "feeds the projection without its tanh",
)
class InputFeedingDecoder(Decoder):
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(torch.tanh(fed)), weights, (last[0], fed)


@wrong(
    "makes the zeros once and keeps them: the next batch of another size, or the model after .to(bfloat16), gets the old ones and raises",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "zeros of the first batch are kept",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        if not hasattr(self, "zeros"):
            self.zeros = torch.zeros_like(memory.state)[:, None]
        return memory.state, self.zeros

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "detaches the attentional vector in the cache: all numbers are right, but no gradient of a later step "
    "reaches the context of an earlier one",
    r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0.",
    "gradient through input feeding is cut",
)
class InputFeedingDecoder(Decoder):
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed.detach())
