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


@right('weights first, context by einsum')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        y = self.embedding(token[:, 0])
        h = self.rnn(torch.hstack((y, context)), cache)
        return self.head(torch.hstack((h, context, y))).unsqueeze(1), weights, h


@right("the GRU written out by hand from the cell's parameters")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, a = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        x = torch.cat([y, c], dim=-1)[:, 0]
        cell = self.rnn
        ir, iz, i_n = F.linear(x, cell.weight_ih, cell.bias_ih).chunk(3, dim=1)
        hr, hz, hn = F.linear(cache, cell.weight_hh, cell.bias_hh).chunk(3, dim=1)
        r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
        n = torch.tanh(i_n + r * hn)
        h = n + z * (cache - n)
        return self.head(torch.cat([h[:, None], c, y], dim=-1)), a, h


@right('the head cut into its three blocks and summed')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, a = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), 2).flatten(0, 1), cache)
        parts = (h[:, None], c, y)
        blocks = self.head.weight.split([p.size(-1) for p in parts], dim=1)
        logits = self.head.bias
        for part, block in zip(parts, blocks):
            logits = logits + part @ block.T
        return logits, a, h


@right('one sentence after another, then stacked')
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        def one(b):
            s = slice(b, b + 1)
            c, a = attend(self.score(cache[s, None], memory.key[s]), memory.value[s], memory.mask[s])
            y = self.embedding(token[s])
            h = self.rnn(torch.cat([y, c], -1)[:, 0], cache[s])
            return self.head(torch.cat([h[:, None], c, y], -1)), a, h
        logits, weights, states = zip(*[one(b) for b in range(len(token))])
        return torch.cat(logits), torch.cat(weights), torch.cat(states)


@wrong('the head reads embedding, context, state', breaks='`[a; b]` means: attached one behind the other, in this order', name='pieces in the wrong order', subtle=False)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([y, context, state[:, None]], dim=-1))
        return logits, weights, state


@wrong('asks again with the new state for the prediction', breaks='\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_{t-1}, k_s) \\\\', name='the state after the update asks', subtle=False)
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


@wrong('returns log-softmax', breaks='leave the step as they are: the loss takes their softmax.', name='softmax twice', subtle=False)
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


@wrong('drops the axis of length one with squeeze()', breaks='Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).', name='squeeze() takes the batch axis too when B = 1', subtle=True)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1)).squeeze()
        return logits.unsqueeze(-2), weights, state


@wrong('writes the new state over the cache', breaks='What comes in stays as it is', name='cache changed in place', subtle=True)
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
        cache.data.copy_(state.data)
        return logits, weights, state


@wrong('forgets a tenth of the logits while training', breaks='leave the step as they are: the loss takes their softmax.', name='dropout that nobody asked for, in train mode', subtle=True)
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
        return F.dropout(logits, 0.1, self.training), weights, state


@wrong('every sentence is masked like the first', breaks='`mask` (B, 1, S), where True = may attend', name='mask of the first sentence for all', subtle=True)
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


@wrong('scores clamped to [-5, 5] for safety', breaks='\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_{t-1}, k_s) \\\\', name='large scores cut off', subtle=True)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key).clamp(-5, 5), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong('token 0 taken for padding: its state stays', breaks='h_t &= \\mathrm{GRU}([y_{t-1}; c_t],\\, h_{t-1}) \\\\', name='id 0 treated as special', subtle=True)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        state = torch.where(token == 0, cache, state)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong('weights leave the step in single precision', breaks='what goes out has its dtype and its device', name='dtype fixed to float32', subtle=True)
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
        return logits, weights.float(), state
