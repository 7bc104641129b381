import torch
from torch import nn
from torch.nn import functional as F

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(
            value=slot,
            key=slot,
            mask=encoded.mask[..., :1],
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("the share of c in the gates computed once, the rest of the GRU by hand")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        for_y, for_c = self.rnn.weight_ih_l0.split(
            [y.size(-1), memory.value.size(-1)], dim=1
        )
        gates = F.linear(y, for_y, self.rnn.bias_ih_l0) + memory.value @ for_c.T
        h, states = cache, []
        for gate in gates.unbind(1):
            r_x, z_x, n_x = gate.chunk(3, dim=-1)
            r_h, z_h, n_h = F.linear(
                h, self.rnn.weight_hh_l0, self.rnn.bias_hh_l0
            ).chunk(3, dim=-1)
            z = (z_x + z_h).sigmoid()
            n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h


@right("one GRU cell call per token, with the slot taken out of the memory")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.select(1, 0)
        logits = []
        for column in range(token.size(1)):
            both = torch.hstack((self.embedding(token[:, column]), c))
            cache = torch.gru_cell(both, cache, *self.rnn.parameters())
            logits.append(self.head(cache)[:, None])
        logits = torch.cat(logits, dim=1)
        return logits, torch.ones_like(logits[:, :, :1]), cache


@right("inputs written into an empty tensor, c spread by broadcasting")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        width = y.size(2)
        inputs = y.new_empty(*token.shape, width + memory.value.size(2))
        inputs[..., :width] = y
        inputs[..., width:] = memory.value
        states, last = self.rnn(inputs, cache.reshape(1, *cache.shape))
        weights = torch.ones(
            token.size(0), token.size(1), 1, dtype=states.dtype, device=states.device
        )
        return self.head(states), weights, last.sum(0)


@right("the step calls the GRU once per token and itself never looks at T")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = []
        for ids in token.split(1, dim=1):
            inputs = torch.dstack([self.embedding(ids), memory.value])
            out, last = self.rnn(inputs, cache.unsqueeze(0))
            cache = last.squeeze(0)
            states.append(out)
        states = torch.cat(states, dim=1)
        weights = torch.full_like(states[..., 0], 1).unsqueeze(2)
        return self.head(states), weights, cache


@wrong(
    "c before the embedding",
    "Concatenate the embedding of each token and $c$, in this order.",
    "concatenates in the wrong order",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([c, self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "gives c to the first of the T tokens only, and zeros to the others",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "context only at the first token",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "concatenates the decoder's first state instead of the encoder's final state",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "memory.state instead of memory.value",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.state[:, None].expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeats along the batch and then reshapes, so the contexts of different sources mix"
    " if B and T are both more than one",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "contexts of different sources mixed",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        size, steps = token.shape
        c = memory.value.repeat(steps, 1, 1).view(size, steps, -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "squeeze without an axis drops B or E as well if it is one",
    "memory: from `remember`; `memory.value` is (B, 1, E).",
    "squeeze drops too many axes",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.squeeze()
        c = c[:, None].expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "starts every one of the T tokens from the cache, so no token knows the one before",
    "cache: (B, D), the state before the first of the tokens.",
    "state not carried from token to token",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        size, steps = token.shape
        c = memory.value.expand(-1, steps, -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1).flatten(0, 1)
        before = cache.repeat_interleave(steps, dim=0)
        states, _ = self.rnn(inputs[:, None], before[None])
        states = states.reshape(size, steps, -1)
        return self.head(states), states.new_ones(size, steps, 1), states[:, -1]


@wrong(
    "weights (B, 1, 1), one for the whole call instead of one for each step",
    "The weights (B, T, slots) say how much of each slot went into each step.",
    "weights without the axis of the tokens",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = torch.ones_like(memory.value[..., :1])
        return self.head(states), weights, last[0]


@wrong(
    "squeeze_ takes the axis of the slots away from the caller's memory",
    "Do not change the inputs.",
    "changes the shape of memory.value in place",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.squeeze_(1)
        c = c.unsqueeze(1).expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "reads c from what remember has stored last, not from the memory it is given",
    "Take the source and the state from the arguments of `step`, not from anything that"
    " an earlier call has stored: the decoder may have remembered other sources in the"
    " meantime.",
    "source stored on the decoder",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def remember(self, encoded):
        memory = super().remember(encoded)
        self.context = memory.value
        return memory

    def step(self, token, memory, cache):
        c = getattr(self, "context", memory.value)
        inputs = torch.cat(
            [self.embedding(token), c.expand(-1, token.size(1), -1)], dim=-1
        )
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns the expanded mask as the weights, so they are booleans",
    "Give the weights the dtype and the device of the states.",
    "weights are a mask",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), memory.mask.expand(-1, token.size(1), -1), last[0]
