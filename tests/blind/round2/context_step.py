import torch
from torch import nn

from blind import right, wrong
from attention_course.seq2seq import Memory
from attention_course.tasks.core import BOS

BEHIND = "Now $c$ is attached to every input, behind the embedding of the token."
SLOT = "It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens."
CACHE = "(B, D), the state before the first of the tokens."
RETURN = "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,\n            D)."
ALONE = "A step depends only on what it is handed: the decoder may have remembered other sources in between."
DTYPE = "What you return has the dtype of the vectors or parameters that it is made from, and is on their device."
SAME = "Leave what you are handed unchanged."


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        c = encoded.final[:, None]
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(encoded.final).tanh())


@right("one token after the other")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        h, states = cache[None].contiguous(), []
        for y in self.embedding(token).split(1, dim=1):
            out, h = self.rnn(torch.cat([y, memory.value], -1), h)
            states.append(out)
        states = torch.cat(states, 1)
        return self.head(states), torch.ones_like(states[:, :, :1]), h.squeeze(0)


@right("the two halves of the input weights apart")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        r, width = self.rnn, self.embedding.embedding_dim
        W, U = r.weight_ih_l0[:, :width], r.weight_ih_l0[:, width:]
        gates = self.embedding(token) @ W.T + memory.value @ U.T + r.bias_ih_l0
        h, states = cache, []
        for gate in gates.unbind(1):
            a_r, a_z, a_n = gate.chunk(3, -1)
            b_r, b_z, b_n = (h @ r.weight_hh_l0.T + r.bias_hh_l0).chunk(3, -1)
            z = torch.sigmoid(a_z + b_z)
            h = torch.lerp(torch.tanh(a_n + torch.sigmoid(a_r + b_r) * b_n), h, z)
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h


@right("inputs written into an empty tensor")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        inputs = y.new_empty(*token.shape, self.rnn.input_size)
        inputs[..., : y.size(-1)] = y
        inputs[..., y.size(-1) :] = memory.value
        states, last = self.rnn(inputs, cache.unsqueeze(0).contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@right("repeat_interleave of the slot, the last state read off the states")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.repeat_interleave(token.size(1), dim=1)
        states = self.rnn(torch.cat((self.embedding(token), context), 2), torch.stack([cache]))[0]
        weights = torch.full((*token.shape, 1), 1, dtype=states.dtype, device=states.device)
        return self.head(states), weights, states[:, -1]


@wrong("the context in front", breaks=BEHIND, name="context and embedding exchanged")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = torch.cat([memory.value.expand(-1, token.size(1), -1), self.embedding(token)], -1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("the cache is forgotten", breaks=CACHE, name="starts from zero")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), memory.value.expand(-1, token.size(1), -1)], -1)
        states, last = self.rnn(inputs)
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("tanh of the slot", breaks=SLOT, name="squashed context")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.tanh().expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), context], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("the first of the tokens alone gets the context", breaks=BEHIND, name="context at the first token only", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = nn.functional.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([self.embedding(token), context], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("the first sentence's slot for the whole batch", breaks=SLOT, name="right for a batch of one only", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value[0].expand(*token.shape, -1)
        states, last = self.rnn(torch.cat([self.embedding(token), context], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("takes the source that was remembered last", breaks=ALONE, name="source kept in the decoder", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def remember(self, encoded):
        memory = super().remember(encoded)
        self.context = memory.value
        return memory

    def step(self, token, memory, cache):
        context = getattr(self, "context", memory.value)
        if context.shape != memory.value.shape:
            context = memory.value
        inputs = torch.cat([self.embedding(token), context.expand(-1, token.size(1), -1)], -1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("weights made from the mask, in single precision", breaks=DTYPE, name="weights in another dtype", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), memory.value.expand(-1, token.size(1), -1)], -1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), memory.mask.float().expand(-1, token.size(1), -1), last[0]


@wrong("repeat and view: sentences mixed up", breaks=SLOT, name="slots given to the wrong sentences", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.repeat(token.size(1), 1, 1).view(*token.shape, -1)
        states, last = self.rnn(torch.cat([self.embedding(token), context], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("returns the state after the first token", breaks=RETURN, name="state after the first token", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), memory.value.expand(-1, token.size(1), -1)], -1)
        states, _ = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]


@wrong("where BOS comes in, the memory's state takes the place of the cache", breaks=CACHE, name="cache dropped at BOS", subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        start = torch.where(token[:, :1] == BOS, memory.state, cache)
        inputs = torch.cat([self.embedding(token), memory.value.expand(-1, token.size(1), -1)], -1)
        states, last = self.rnn(inputs, start[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
