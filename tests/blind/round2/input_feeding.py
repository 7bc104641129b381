from blind import right, wrong
import torch
from torch import nn
import torch.nn.functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import EncoderDecoder, Memory


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
        # the weights cost nothing here: they come asked for or not
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


from typing import NamedTuple


@right('the cache is one tensor, state and vector side by side')
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return F.pad(memory.state, (0, memory.state.size(-1)))

    def step(self, token, memory, cache):
        state, fed = cache.tensor_split(2, dim=-1)
        x = torch.cat([self.embedding(token[:, 0]), fed], dim=-1)[:, None]
        h, _ = self.rnn(x, state[None].contiguous())
        a = masked_softmax(self.score(h, memory.key), memory.mask)
        c = torch.einsum("bts,bse->bte", a, memory.value)
        vector = self.attentional_proj(torch.cat([c, h], -1)).tanh()
        return self.head(vector), a, torch.cat([h, vector], -1)[:, 0]


@right('a dictionary, new at every step')
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return {"vector": memory.state.new_zeros(memory.state.shape), "state": memory.state}

    def step(self, token, memory, cache):
        y = self.embedding(token)
        x = torch.cat([y, cache["vector"].unsqueeze(1)], dim=2)
        h, last = self.rnn(x, cache["state"].unsqueeze(0))
        c, a = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=2)))
        return self.head(vector), a, {"vector": vector.squeeze(1), "state": last.squeeze(0)}


@right('the GRU by hand, its input weights cut in two')
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [torch.zeros_like(memory.state), memory.state]

    def step(self, token, memory, cache):
        fed, h = cache
        w_y, w_f = self.rnn.weight_ih_l0.split([self.embedding.embedding_dim, fed.size(-1)], dim=1)
        gi = self.embedding(token)[:, 0] @ w_y.T + fed @ w_f.T + self.rnn.bias_ih_l0
        gh = F.linear(h, self.rnn.weight_hh_l0, self.rnn.bias_hh_l0)
        (ir, iz, i_n), (hr, hz, hn) = gi.chunk(3, -1), gh.chunk(3, -1)
        z = torch.sigmoid(iz + hz)
        new = (1 - z) * torch.tanh(i_n + torch.sigmoid(ir + hr) * hn) + z * h
        c, a = attend(self.score(new[:, None], memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([c[:, 0], new], -1)))
        return self.head(vector)[:, None], a, [vector, new]


@right('hands on state and context, and makes the vector from them in the next step')
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, None

    def vector(self, pair):
        return torch.tanh(self.attentional_proj(torch.cat(pair, dim=-1)))

    def step(self, token, memory, cache):
        state, pair = cache
        fed = torch.zeros_like(state)[:, None] if pair is None else self.vector(pair)
        h, last = self.rnn(torch.cat([self.embedding(token), fed], -1), state[None])
        c, a = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(self.vector((c, h))), a, (last[0], (c, h))


@wrong('feeds the state instead of the attentional vector', breaks='attach the last attentional vector to the next input', name='state fed, not the attentional vector', subtle=False)
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
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], states)


@wrong('attentional vector before the embedding', breaks='h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0.', name='pieces in the wrong order', subtle=False)
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
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], attentional)


@wrong('hands on zeros for ever', breaks='h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0.', name='the attentional vector is never fed', subtle=False)
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
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], torch.zeros_like(attentional))


@wrong('the first vector is the first state', breaks='\\tilde{h}_0 = 0.', name='the first attentional vector is not zero', subtle=True)
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
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], attentional)


@wrong('a list as cache, changed in place', breaks='`step` leaves the cache that it is handed as it is', name='cache changed in place', subtle=True)
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
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        cache[0], cache[1] = last[0], attentional
        return self.head(attentional), weights, cache


@wrong('the vector lies on self', breaks='keeps nothing on `self`', name='state on self', subtle=True)
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
        state, fed = cache, self.fed
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        self.fed = attentional
        return self.head(attentional), weights, last[0]


@wrong('feeds what was before the tanh', breaks='attach the last attentional vector to the next input', name='vector fed without its tanh', subtle=True)
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
        attentional = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(attentional.tanh()), weights, (last[0], attentional)


@wrong('the zeros are as wide as an embedding', breaks='the attentional vector before the first step is zeros, like the state in width, dtype and device.', name='width of the embedding for the width of the state', subtle=True)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, memory.state.new_zeros(len(memory.state), 1, self.embedding.embedding_dim)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], attentional)


@wrong('once fed, always fed: the first vector stays', breaks='h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0.', name='the first attentional vector is fed at every later step', subtle=True)
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
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], fed if fed.any() else attentional)


@wrong('zeros kept for each batch size by the class', breaks='like the state in width, dtype and device.', name='zeros shared between models of other widths and dtypes', subtle=True)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    _zeros = {}

    def start(self, memory):
        zeros = self._zeros.setdefault(len(memory.state), torch.zeros_like(memory.state)[:, None])
        return memory.state, zeros

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, (last[0], attentional)
