import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """The base class of section 3, with the right `remember`."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("one token at a time; the slot is attached to each")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, columns = cache.unsqueeze(0).contiguous(), []
        for one in torch.unbind(token, dim=1):
            x = torch.hstack([self.embedding(one), memory.value[:, 0]])
            out, state = self.rnn(x.unsqueeze(1), state)
            columns.append(out)
        states = torch.cat(columns, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), state.squeeze(0)


@right("the weight matrix split in two, c multiplied once; all in float64")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token).double()
        w, u = self.rnn.weight_ih_l0.double(), self.rnn.weight_hh_l0.double()
        for_y, for_c = w.split([y.size(-1), memory.value.size(-1)], dim=1)
        told = memory.value.double() @ for_c.T + self.rnn.bias_ih_l0.double()
        inputs = torch.einsum("bti,gi->btg", y, for_y) + told  # (B, T, 3 D)
        h, states = cache.double(), []
        for t in range(token.size(1)):
            xr, xz, xn = inputs[:, t].chunk(3, dim=-1)
            hr, hz, hn = (h @ u.T + self.rnn.bias_hh_l0.double()).chunk(3, dim=-1)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1).to(cache.dtype)
        weights = states.new_ones(token.size(0), token.size(1), 1)
        return self.head(states), weights, h.to(cache.dtype)


@right("the slot looked up as attention would: softmax of zeros, matrix product")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = y.new_zeros(token.size(0), token.size(1), memory.value.size(1))
        scores = scores.masked_fill(~memory.mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        context = torch.matmul(weights, memory.value)
        states, last = self.rnn(torch.cat((y, context), dim=2), cache[None].contiguous())
        return self.head(states), weights, last[0]


@right("torch.gru_cell, c repeated with repeat_interleave, last state by a negative index")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)
        self.last_shape = None  # only to look at

    def step(self, token, memory, cache):
        self.last_shape = tuple(token.shape)
        c = memory.value.repeat_interleave(token.size(1), dim=1)
        x = torch.cat([self.embedding(token), c], dim=-1).transpose(0, 1)
        parameters = [p for _, p in self.rnn.named_parameters()]
        states = []
        for column in x:
            state = states[-1] if states else cache
            states.append(torch.gru_cell(column, state, *parameters))
        logits = self.head(torch.stack(states)).transpose(0, 1)
        weights = cache.new_full((1,), 1).expand(*token.shape, 1)
        return logits, weights, states[-1]


@wrong(
    "concatenates c first and the embedding second",
    "Concatenate the embedding of each token and $c$, in this order.",
    "order of the concatenation",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        x = torch.cat([c, self.embedding(token)], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "does not repeat c over the tokens; only T = 1 works",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "c not repeated",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), memory.value], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "attaches the decoder's first state in place of c; other numbers, and another width"
    " if D is not E",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "memory.state in place of memory.value",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.state[:, None].expand(-1, token.size(1), -1)
        x = torch.cat([self.embedding(token), c], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "repeats the whole batch T times and views it as (B, T, E), which mixes the"
    " sentences; right for B = 1 or T = 1",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "repeat and view in the wrong order",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.repeat(token.size(1), 1, 1).view(*token.shape, -1)
        x = torch.cat([self.embedding(token), c], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "keeps c from the first step after a `remember`, also if the next step comes with"
    " another memory",
    "Take the source and the state from the arguments of `step`, not from anything that"
    " an earlier call has stored: the decoder may have remembered other sources in the"
    " meantime.",
    "c stored in the decoder",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)
        self.c = None

    def remember(self, encoded):
        self.c = None
        return super().remember(encoded)

    def step(self, token, memory, cache):
        if self.c is None:
            self.c = memory.value
        x = self.embedding(token)
        x = torch.cat([x, self.c.expand(-1, x.size(1), -1)], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "drops a tenth of the inputs in train mode",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "dropout that nobody asked for",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        x = torch.cat([self.embedding(token), c], dim=-1)
        x = nn.functional.dropout(x, 0.1, self.training)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "returns the mask for the weights: True is one, but its dtype is bool",
    "Give the weights the dtype and the device of the states.",
    "weights of dtype bool",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        size = token.size(1)
        c = memory.value.expand(-1, size, -1)
        states, state = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), cache[None]
        )
        return self.head(states), memory.mask.expand(-1, size, -1), state[0]


@wrong(
    "squeezes every axis of length one off memory.value; fails for B = 1 or E = 1",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze without an axis",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.squeeze()  # (B, E)
        c = c[:, None].expand(-1, token.size(1), -1)
        x = torch.cat([self.embedding(token), c], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "returns the state after the first of the tokens; right for T = 1",
    "Return the logits, the weights, and the state after the last token.",
    "state after the wrong token",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        x = torch.cat([self.embedding(token), c], dim=-1)
        states, _ = self.rnn(x, cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, states[:, 0]


@wrong(
    "makes the weights on the CPU, wherever the states are",
    "Give the weights the dtype and the device of the states.",
    "weights on the wrong device",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        x = torch.cat([self.embedding(token), c], dim=-1)
        states, state = self.rnn(x, cache[None])
        weights = torch.ones(*token.shape, 1, dtype=states.dtype)
        return self.head(states), weights, state[0]
