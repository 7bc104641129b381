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


@right('W_c cut in two, context by einsum')
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
        h, last = self.rnn(self.embedding(token), cache.unsqueeze(0))
        weights = masked_softmax(self.score(h, memory.key), memory.mask)
        c = torch.einsum("bts,bse->bte", weights, memory.value)
        width = memory.value.size(-1)
        w_c, w_h = self.attentional_proj.weight[:, :width], self.attentional_proj.weight[:, width:]
        return self.head((c @ w_c.mT + h @ w_h.mT).tanh()), weights, last.squeeze(0)


@right('the GRU unrolled by hand, then all ask at once')
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
        rnn, h, states = self.rnn, cache, []
        gates = F.linear(self.embedding(token), rnn.weight_ih_l0, rnn.bias_ih_l0)
        for g in gates.unbind(1):
            ir, iz, i_n = g.chunk(3, -1)
            hr, hz, hn = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, -1)
            z = torch.sigmoid(iz + hz)
            h = (1 - z) * torch.tanh(i_n + torch.sigmoid(ir + hr) * hn) + z * h
            states.append(h)
        states = torch.stack(states, 1)
        c, a = attend(self.score(states, memory.key), memory.value, memory.mask)
        return self.head(self.attentional_proj(torch.cat((c, states), 2)).tanh()), a, h


@right('one call of the GRU per token, one question for all')
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
        state, collected = cache[None], []
        for piece in self.embedding(token).split(1, dim=1):
            out, state = self.rnn(piece, state)
            collected.append(out)
        h = torch.cat(collected, dim=1)
        c, a = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([c, h], -1)))), a, state[0]


@right('mask spread out, tanh through a sigmoid, last state from the outputs')
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
        h = self.rnn(self.embedding(token), torch.stack([cache]))[0]
        scores = self.score(h, memory.key)
        a = masked_softmax(scores, memory.mask.expand_as(scores))
        c = torch.bmm(a, memory.value)
        z = self.attentional_proj(torch.cat([c, h], dim=2))
        return self.head(2 * torch.sigmoid(2 * z) - 1), a, h[:, -1]


@wrong('the states before the update ask', breaks='\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_t, k_s) \\\\', name="Bahdanau's order", subtle=False)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        before = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        context, weights = attend(self.score(before, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('state before context', breaks='\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)', name='pieces in the wrong order', subtle=False)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([states, context], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('the GRU starts from zeros', breaks='cache: (B, D), the state before the first of the tokens.', name='cache not used', subtle=False)
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
        states, last = self.rnn(self.embedding(token))
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('hands on the state after the first token', breaks='the state after the last token (B,', name='state after the first token, right for T = 1', subtle=True)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, states[:, 0]


@wrong('axis of the layer taken off with squeeze()', breaks='the state after the last token (B,', name='squeeze() takes the batch axis too when B = 1', subtle=True)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last.squeeze()


@wrong('a cache of zeros is taken for none', breaks='cache: (B, D), the state before the first of the tokens.', name='zero state replaced by the first state', subtle=True)
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
        if not cache.any():
            cache = memory.state
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('long targets in pieces of sixteen, each from the same state', breaks='h_t &= \\mathrm{GRU}(y_{t-1},\\, h_{t-1}) \\\\', name='state not carried over between chunks', subtle=True)
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
        runs = [self.rnn(part, cache[None]) for part in self.embedding(token).split(16, dim=1)]
        states, last = torch.cat([out for out, _ in runs], dim=1), runs[-1][1]
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('empties the padded slots of the memory', breaks='What comes in stays as it is', name='memory changed in place', subtle=True)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        memory.value.data.masked_fill_(~memory.mask.mT, 0.0)
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('keeps the first memory it has seen, if the shape is the same', breaks='c_t &= \\sum_s \\alpha_{ts} v_s \\\\', name='values kept between calls', subtle=True)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        if getattr(self, "_value", None) is None or self._value.shape != memory.value.shape:
            self._value = memory.value
        context, weights = attend(self.score(states, memory.key), self._value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(attentional), weights, last[0]


@wrong('dropout that does not know eval mode: only in train', breaks='Your code works for every length from one on, in train mode and in eval mode.', name='dropout nobody asked for, in train mode', subtle=True)
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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        attentional = F.dropout(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1))), 0.2, self.training)
        return self.head(attentional), weights, last[0]
