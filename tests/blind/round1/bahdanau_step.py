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


@right('no axis for the position until the end; the sum by einsum')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token[:, 0])
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        context = torch.einsum('bts,bse->be', weights, memory.value)
        state = self.rnn(torch.cat((y, context), 1), cache)
        return self.head(torch.cat((state, context, y), 1)).unsqueeze(1), weights, state


@right('the GRU by hand')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)

        x = torch.cat([y, context], dim=-1).squeeze(1)
        ir, iz, i_n = F.linear(x, self.rnn.weight_ih, self.rnn.bias_ih).chunk(3, dim=-1)
        hr, hz, hn = F.linear(cache, self.rnn.weight_hh, self.rnn.bias_hh).chunk(3, dim=-1)
        gate = torch.sigmoid(iz + hz)
        new = torch.tanh(i_n + torch.sigmoid(ir + hr) * hn)
        state = new + gate * (cache - new)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@right('the head in three pieces')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)

        pieces = self.head.weight.split([state.size(-1), context.size(-1), y.size(-1)], dim=-1)
        parts = (state[:, None], context, y)
        logits = self.head.bias + sum(part @ piece.T for part, piece in zip(parts, pieces))
        return logits, weights, state


@right('the update in a closure that fills a tensor')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)

        def update():
            inputs = y.new_empty(y.size(0), y.size(-1) + context.size(-1))
            inputs = torch.cat([y.flatten(0, 1), context.flatten(0, 1), inputs[:, :0]], dim=1)
            return self.rnn(inputs, cache)

        state = update()
        return self.head(torch.cat([state.unsqueeze(1), context, y], -1)), weights, state


@wrong(
    "the GRU's input is [c; y]",
    breaks='`[a; b]` means: attached one behind the other, in this order, with the embedding of the token for $y_{t-1}$.',
    name='parts of the input in the wrong order',
    subtle=False,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)

        state = self.rnn(torch.cat([context, y], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'the new state asks (update with a first context, then asked anew)',
    breaks='Ask, then update: the state before the update looks for what the update will need.',
    name='asks with the state after the update',
    subtle=False,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)

        context, weights = attend(self.score(state[:, None], memory.key), memory.value, memory.mask)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'the head reads the state before the update',
    breaks='$$ \\begin{aligned} \\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_{t-1}, k_s) \\\\ c_t &= \\sum_s \\alpha_{ts} v_s \\\\ h_t &= \\mathrm{GRU}([y_{t-1}; c_t],\\, h_{t-1}) \\\\ \\mathrm{logits}_t &= \\mathrm{head}([h_t; c_t; y_{t-1}]) \\end{aligned} $$',
    name='old state into the head',
    subtle=False,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)

        logits = self.head(torch.cat([cache[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'log-softmax of the logits: the loss is the same',
    breaks='Logits leave the step as they are: the loss takes their softmax.',
    name='softmax inside the step',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits.log_softmax(-1), weights, state


@wrong(
    'squeezes every axis of length one: fails for one sentence',
    breaks='Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).',
    name='squeeze without an axis',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token).squeeze()
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        c = context.squeeze()
        state = self.rnn(torch.cat([y, c], dim=-1), cache)
        return self.head(torch.cat([state, c, y], dim=-1))[:, None], weights, state


@wrong(
    'projects the keys of the memory once more: no difference for a dot product',
    breaks='A memory has the fields `key` (B, S, A), already projected, `value` (B, S, E), `mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.',
    name='keys projected twice',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)

        key = self.score.project_keys(memory.key)
        context, weights = attend(self.score(cache[:, None], key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'goes on from the state that it keeps itself, whatever cache it is handed',
    breaks='cache: (B, D), the state before this step.',
    name='state kept on the module',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)

        if cache is not memory.state and getattr(self, "last", cache).shape == cache.shape:
            cache = getattr(self, "last", cache)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        self.last = state
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'the first state asks at every step',
    breaks='\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_{t-1}, k_s)',
    name='asks with memory.state',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)

        query = memory.state[:, None]
        context, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "the first sentence's mask for all",
    breaks='A memory has the fields `key` (B, S, A), already projected, `value` (B, S, E), `mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.',
    name='mask of another sentence',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)

        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask[:1])
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'takes only the best source position in eval mode',
    breaks='c_t &= \\sum_s \\alpha_{ts} v_s',
    name='hard attention in eval mode',
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)

        if not self.training:
            weights = F.one_hot(weights.argmax(-1), weights.size(-1)).to(weights.dtype)
            context = weights @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state
