from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend
from attention_course.seq2seq import Memory
from blind import right, wrong


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


# ---------------------------------------------------------------- right answers


@right("a tuple of two, as the hints suggest")
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
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@right("the cache is one tensor (B, 2D): the attentional vector, then the state")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        width = memory.state.size(1)
        return F.pad(memory.state, (width, 0))

    def step(self, token, memory, cache):
        fed, state = cache.chunk(2, dim=1)
        inputs = torch.cat([self.embedding(token[:, 0]), fed], dim=1)
        out, _ = self.rnn(inputs.unsqueeze(1), state.unsqueeze(0).contiguous())
        context, weights = attend(
            self.score(out, memory.key), memory.value, memory.mask
        )
        both = torch.cat([context, out], dim=2)
        attentional = self.attentional_proj(both).tanh().squeeze(1)
        logits = self.head(attentional).unsqueeze(1)
        return logits, weights, torch.hstack([attentional, out.squeeze(1)])


class Before(NamedTuple):
    """The state and the attentional vector of the step before, both (B, D)."""

    h: torch.Tensor
    feed: torch.Tensor


@right("a named tuple, the GRU's gates by hand, and no vector that is concatenated")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return Before(memory.state, memory.state.new_zeros(memory.state.shape))

    def update(self, y, before):
        rnn, E = self.rnn, y.size(-1)
        from_y = F.linear(y, rnn.weight_ih_l0[:, :E], rnn.bias_ih_l0)
        from_feed = F.linear(before.feed, rnn.weight_ih_l0[:, E:])
        i = (from_y + from_feed).chunk(3, dim=1)
        s = F.linear(before.h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, dim=1)
        r, z = torch.sigmoid(i[0] + s[0]), torch.sigmoid(i[1] + s[1])
        return torch.lerp(torch.tanh(i[2] + r * s[2]), before.h, z)

    def step(self, token, memory, cache):
        h = self.update(self.embedding(token).flatten(1), cache)
        scores = self.score(h[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        W = self.attentional_proj.weight
        cut = context.size(-1)
        feed = torch.tanh(context[:, 0] @ W[:, :cut].T + h @ W[:, cut:].T)
        return self.head(feed)[:, None], weights, Before(h, feed)


@right("the cache is a list with one dictionary per sentence, and the GRU runs unbatched")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [
            {"state": state, "attentional": torch.zeros_like(state)}
            for state in memory.state
        ]

    def one(self, y, key, value, mask, old):
        inputs = torch.cat([y, old["attentional"]])
        out, last = self.rnn(inputs[None], old["state"][None].contiguous())
        scores = self.score(out[None], key[None])
        context, weights = attend(scores, value[None], mask[None])
        both = torch.cat([context[0], out], dim=1)
        new = torch.tanh(self.attentional_proj(both))[0]
        return self.head(new), weights[0], {"state": last[0], "attentional": new}

    def step(self, token, memory, cache):
        results = [
            self.one(self.embedding(token[b, 0]), *(x[b] for x in memory[:3]), old)
            for b, old in enumerate(cache)
        ]
        logits, weights, new = zip(*results)
        return torch.stack(logits)[:, None], torch.stack(weights), list(new)


# ---------------------------------------------------------------- wrong answers


@wrong(
    "starts with the first state as attentional vector instead of zeros",
    breaks="Before the first step, the attentional vector consists of zeros.",
    name="attentional vector starts as the state",
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
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "feeds the state h back instead of the attentional vector",
    breaks="Input feeding solves this problem: concatenate the last attentional vector"
    " to the next input.",
    name="feeds the state",
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
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], states)


@wrong(
    "asks with the state before the update",
    breaks="Luong's order, with the last attentional vector as part of the next input.",
    name="queries with the old state",
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
        scores = self.score(state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "computes the new attentional vector from the context and the last attentional"
    " vector",
    breaks=r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t ="
    r" \mathrm{head}(\tilde{h}_t)",
    name="old attentional vector instead of the state",
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
        state, attentional = cache
        inputs = torch.cat([self.embedding(token), attentional], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, attentional], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "keeps the attentional vector on self; the cache is only the state",
    breaks="So `step` must not change the cache that it gets, and must not store"
    " anything on `self` or on its parts.",
    name="attentional vector on self",
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
        self.attentional = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), self.attentional], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        self.attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(self.attentional), weights, last[0]


@wrong(
    "makes float32 zeros on the CPU, whatever the state's dtype and device are",
    breaks="Give it the same width, dtype and device as the state.",
    name="zeros in the default dtype",
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
        B, D = memory.state.shape
        return memory.state, torch.zeros(B, 1, D)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "the cache is a list, which each step overwrites and returns again",
    breaks="So `step` must not change the cache that it gets, and must not store"
    " anything on `self` or on its parts.",
    name="overwrites the cache",
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
        states, last = self.rnn(inputs, cache[0][None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        cache[0] = last[0]
        cache[1] = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(cache[1]), weights, cache


@wrong(
    "feeds back the projection before its tanh, so only the second step is wrong",
    breaks=r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t ="
    r" \mathrm{head}(\tilde{h}_t)",
    name="feeds the vector without tanh",
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
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(attentional.tanh()), weights, (last[0], attentional)


@wrong(
    "feeds the attentional vector in train mode, and zeros in eval mode",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up,"
    " for large and for small numbers, in train mode and in eval mode.",
    name="no input feeding in eval mode",
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
        if not self.training:
            fed = torch.zeros_like(fed)
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "copies the first state without its gradient, so the bridge does not learn",
    breaks="Gradients must be right, too.",
    name="first state detached",
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
        state = memory.state.detach().clone()
        return state, torch.zeros_like(state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)
