import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("projects embedding and c separately with the two parts of the input matrix and runs the GRU's equations by hand")
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        E = memory.value.size(-1)
        w_y, w_c = self.rnn.weight_ih_l0.split([self.rnn.input_size - E, E], dim=1)
        from_c = F.linear(memory.value, w_c, self.rnn.bias_ih_l0)
        gates = F.linear(self.embedding(token), w_y) + from_c
        state, states = cache, []
        for t in range(token.size(1)):
            recurrent = F.linear(state, self.rnn.weight_hh_l0, self.rnn.bias_hh_l0)
            (r, z, n), (rr, zz, nn_) = gates[:, t].chunk(3, -1), recurrent.chunk(3, -1)
            z = (z + zz).sigmoid()
            state = z * state + (1 - z) * (n + (r + rr).sigmoid() * nn_).tanh()
            states.append(state)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(states.shape[:2] + (1,)), state


@right('one token at a time, c concatenated for each of them')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c, h = memory.value[:, 0], cache[None]
        words = self.embedding(token)
        outputs = []
        for t in range(words.size(1)):
            output, h = self.rnn(torch.cat([words[:, t], c], dim=-1)[:, None], h)
            outputs.append(output)
        states = torch.cat(outputs, dim=1)
        return self.head(states), torch.ones_like(states[:, :, :1]), h[0]


@right('fills an empty tensor with both parts; c broadcasts in the assignment')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        width = y.shape[-1]
        inputs = y.new_empty(*token.shape, width + memory.value.shape[-1])
        inputs[..., :width] = y
        inputs[..., width:] = memory.value
        states, last = self.rnn(inputs, cache.reshape(1, *cache.shape))
        weights = torch.full_like(states[..., 0], 1.0)[..., None]
        return self.head(states), weights, last.reshape(cache.shape)


@right('repeat_interleave in a helper method; the state after the last token is read from the states')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def inputs(self, token, c):
        return torch.cat([self.embedding(token), c.repeat_interleave(token.size(1), dim=1)], 2)

    def step(self, token, memory, cache, *, slot=0):
        c = memory.value[:, slot, :].unsqueeze(1)
        states = self.rnn(self.inputs(token, c), cache.unsqueeze(0))[0]
        weights = states.detach().mul(0).add(1)[..., :1]
        return self.head(states), weights, states.select(1, -1)


@wrong(
    'c first and the embedding second',
    'Concatenate the embedding of each token and $c$, in this order.',
    'concatenates in the wrong order',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([c, y], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'starts from memory.state instead of the cache: every step of a generation forgets the earlier tokens',
    'The state before the first token comes in as `cache`.',
    'ignores cache, starts from memory.state',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'c reaches the first of the T tokens only, the others get zeros: right for T = 1',
    '$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).',
    'c only at the first token',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeat along the batch and then view: sentences get each other's c if B > 1 and T > 1",
    '$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).',
    'repeat and view mix up the sentences',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        B, T = token.shape
        c = memory.value.repeat(T, 1, 1).view(B, T, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(B, T, 1), last[0]


@wrong(
    'squeeze() of value: with one sentence c is (E,), with width one (B,), and the concatenation fails',
    'The other arguments and results of `step` are as in section 5.',
    'squeezes the batch axis of one sentence',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = torch.stack([memory.value.squeeze()] * token.size(1), dim=1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'the weights are divided by T, so that they sum to one over the tokens: right for T = 1',
    'This memory has only one slot, so every weight is one.',
    'weights normalised over the tokens',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        T = token.size(1)
        c = memory.value.expand(-1, T, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_full((token.size(0), T, 1), 1 / T), last[0]


@wrong(
    "the weights are the slot's mask: True instead of 1.0, so they have no floating-point dtype",
    'Give the weights the dtype and the device of the states.',
    'returns the boolean mask as weights',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), memory.mask.expand(-1, token.size(1), -1), last[0]


@wrong(
    'remember keeps c on the decoder and step reads it there: wrong once another source has been remembered',
    'Use only the arguments of `step`: the decoder may have remembered other sources in the meantime.',
    'takes c from the decoder, not the memory',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)
        self.c = None

    def remember(self, encoded):
        memory = super().remember(encoded)
        self.c = memory.value
        return memory

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value if self.c is None else self.c
        c = c.expand(token.size(0), token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "writes the new state into the caller's cache",
    'Do not change the inputs.',
    'overwrites the cache in place',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        cache.data[:] = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), cache


@wrong(
    'if the widths agree, c is replaced by the running state after the first token: right for T = 1 and for E different from D',
    '$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).',
    'replaces c by the state while looping',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, h, outputs = memory.value, cache[None], []
        for t in range(token.size(1)):
            output, h = self.rnn(torch.cat([y[:, t : t + 1], c], dim=-1), h)
            outputs.append(output)
            if output.shape == c.shape:
                c = output
        states = torch.cat(outputs, dim=1)
        return self.head(states), states.new_ones(*token.shape, 1), h[0]
