from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory


class Decoder(nn.Module):
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
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


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
        return {'state': memory.state, 'fed': memory.state.new_zeros(memory.state.shape)[:, None]}

    def step(self, token, memory, cache):
        state, fed = cache['state'], cache['fed']
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, {'state': last[0], 'fed': vector}


@right('one tensor (2, B, D)')
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.stack([memory.state, torch.zeros_like(memory.state)])

    def step(self, token, memory, cache):
        state, fed = cache.unbind(0)
        inputs = torch.cat([self.embedding(token), fed.unsqueeze(1)], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, torch.stack([last[0], vector[:, 0]])


@right('None for zeros before the first step')
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

    def step(self, token, memory, cache):
        state, fed = cache
        if fed is None:
            fed = state.new_zeros(state.size(0), state.size(1))
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last.squeeze(0), vector.squeeze(1))


@right('both in one row (B, 1, 2D), the vector first')
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return F.pad(memory.state[:, None], (memory.state.size(-1), 0))

    def step(self, token, memory, cache):
        fed, state = cache.chunk(2, dim=-1)
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, _ = self.rnn(inputs, state.transpose(0, 1).contiguous())
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        both = torch.cat([weights @ memory.value, states], dim=-1)
        vector = (both @ self.attentional_proj.weight.mT).tanh()
        return self.head(vector), weights, torch.cat([vector, states], dim=-1)


@wrong(
    'feeds the state in place of the attentional vector',
    breaks='The remedy: attach the last attentional vector to the next input,',
    name='state fed',
    subtle=False,
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], states)


@wrong(
    'begins with the state as attentional vector',
    breaks='$$ h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0. $$',
    name='attentional vector before the first step not zero',
    subtle=False,
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], vector)


@wrong(
    'the attentional vector before the embedding (widths swapped)',
    breaks='$$ h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0. $$',
    name='parts of the input in the wrong order',
    subtle=False,
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
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], vector)


@wrong(
    'zeros in float32, on the CPU',
    breaks='`start` knows the first state; the attentional vector before the first step is zeros, like the state in width, dtype and device.',
    name='dtype and device of the zeros',
    subtle=True,
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
        return memory.state, torch.zeros(memory.state.size(0), 1, memory.state.size(1))

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], vector)


@wrong(
    'writes the next state into the list that it was handed',
    breaks='Returns: Logits (B, 1, V), weights (B, 1, S), and the next cache.',
    name='old cache overwritten',
    subtle=True,
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
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        cache[:] = [last[0], vector]
        return self.head(vector), weights, cache


@wrong(
    'the vector is kept on the module, not in the cache',
    breaks='You are free in what the cache is, as long as `step` finds in it what it needs: what are the two things?',
    name='state kept on the module',
    subtle=True,
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
        fed = self.fed
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        self.fed = vector
        return self.head(vector), weights, last[0]


@wrong(
    'hands the zeros on for ever: right at the first step',
    breaks='The remedy: attach the last attentional vector to the next input,',
    name='attentional vector never handed on',
    subtle=True,
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], fed)


@wrong(
    'feeds the vector in train mode only',
    breaks='$$ h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0. $$',
    name='no input feeding in eval mode',
    subtle=True,
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
        fed = fed if self.training else torch.zeros_like(fed)
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], vector)


@wrong(
    'hands on what stood before the tanh',
    breaks='$$ h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0. $$',
    name='vector before the tanh fed',
    subtle=True,
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        raw = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(vector), weights, (last[0], raw)


@wrong(
    'the attentional vector is taken as its mean over the sentences of the batch',
    breaks='The remedy: attach the last attentional vector to the next input,',
    name='sentences of a batch mixed',
    subtle=True,
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
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], vector.mean(0, keepdim=True).expand_as(vector))
