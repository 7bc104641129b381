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


@right('context and state mapped by the two halves of W_c')
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)

        of_context, of_state = self.attentional_proj.weight.tensor_split([context.size(-1)], dim=1)
        vector = (context @ of_context.T + states @ of_state.T).tanh()
        return self.head(vector), weights, last[0]


@right('the GRU token by token, everything else at once')
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        state, states = cache[None].contiguous(), []
        for y in self.embedding(token).split(1, dim=1):
            out, state = self.rnn(y, state)
            states.append(out)
        states = torch.cat(states, dim=1)
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, states[:, -1]


@right('the sum by einsum, the last state from the states')
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())

        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        context = torch.einsum('bts,bse->bte', weights, memory.value)
        both = torch.cat([context, states], dim=2)
        vector = torch.einsum('dx,btx->btd', self.attentional_proj.weight, both).tanh()
        return self.head(vector), weights, states.select(1, -1)


@right('query by query')
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())

        def answer(state):
            c, a = attend(self.score(state, memory.key), memory.value, memory.mask)
            return self.head(self.attentional_proj(torch.cat([c, state], dim=-1)).tanh()), a

        logits, weights = zip(*[answer(state) for state in states.split(1, dim=1)])
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), last.squeeze(0)


@wrong(
    '[h; c] in place of [c; h]',
    breaks='\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)',
    name='parts in the wrong order',
    subtle=False,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([states, context], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    'no tanh',
    breaks='\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)',
    name='tanh forgotten',
    subtle=False,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(vector), weights, last[0]


@wrong(
    'the state before the update asks',
    breaks='Update, then ask: the state after the update looks for what the prediction needs.',
    name='asks with the state before the update',
    subtle=False,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())

        before = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        context, weights = attend(self.score(before, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "starts from the memory's state at every call",
    breaks='cache: (B, D), the state before the first of the tokens.',
    name='cache ignored',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    'hands on the first of the new states: right for T = 1',
    breaks='Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D).',
    name='wrong state handed on',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, states[:, 0]


@wrong(
    'only the last state asks, and its context serves all: right for T = 1',
    breaks='No state depends on a context, so nothing has to wait: `step` takes T tokens at once, (B, T), and asks T queries at once.',
    name='one query for all positions',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())

        context, weights = attend(self.score(states[:, -1:], memory.key), memory.value, memory.mask)
        context, weights = (x.expand(-1, states.size(1), -1) for x in (context, weights))
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "drops the position's axis of the logits for T = 1",
    breaks='Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D).',
    name='axis of length one squeezed away',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector).squeeze(1), weights, last[0]


@wrong(
    'compares with the values instead of the projected keys: the same for a dot product',
    breaks='A memory has the fields `key` (B, S, A), already projected, `value` (B, S, E), `mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.',
    name='values taken as keys',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())

        key = memory.value if memory.value.shape == memory.key.shape else memory.key
        context, weights = attend(self.score(states, key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    'drops out entries of the attentional vector while training',
    breaks='\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)',
    name='dropout in train mode',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        vector = F.dropout(vector, 0.1, self.training)
        return self.head(vector), weights, last[0]


@wrong(
    'the mask is kept from the first memory of a size',
    breaks='A memory has the fields `key` (B, S, A), already projected, `value` (B, S, E), `mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.',
    name='mask of another source kept',
    subtle=True,
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())

        if getattr(self, "mask", None) is None or self.mask.shape != memory.mask.shape:
            self.mask = memory.mask
        context, weights = attend(self.score(states, memory.key), memory.value, self.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]
