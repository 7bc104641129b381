"""Answers to `context_step`."""
import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """The decoder of section 3, with its remember."""

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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('writes out the gates, and multiplies c by its part of the weights only once')
class ContextDecoder_right1(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        w_in, w_state, b_in, b_state = self.rnn.all_weights[0]
        width = self.embedding.embedding_dim
        from_c = F.linear(memory.value, w_in[:, width:], b_in)
        inputs = F.linear(self.embedding(token), w_in[:, :width]) + from_c
        states = []
        for x in inputs.unbind(1):
            r_x, z_x, n_x = x.chunk(3, dim=-1)
            r_h, z_h, n_h = F.linear(cache, w_state, b_state).chunk(3, dim=-1)
            z = torch.sigmoid(z_x + z_h)
            new = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
            cache = new + z * (cache - new)
            states.append(cache)
        states = torch.stack(states, dim=1)
        return self.head(states), states.new_ones(*token.shape, 1), cache


@right('fills an empty tensor with the embeddings and, by broadcasting, with c')
class ContextDecoder_right2(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y, c = self.embedding(token), memory.value
        inputs = y.new_empty(*token.shape, y.size(-1) + c.size(-1))
        inputs[..., : y.size(-1)] = y
        inputs[..., y.size(-1) :] = c
        states, last = self.rnn(inputs, cache.unsqueeze(0).contiguous())
        return self.head(states), torch.ones_like(states[..., :1]).detach(), last.squeeze(0)


@right('calls the network once for each token, with the slot next to it')
class ContextDecoder_right3(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        logits, states = [], cache[None].contiguous()
        for column in token.split(1, dim=1):
            out, states = self.rnn(torch.cat([self.embedding(column), memory.value], dim=2), states)
            logits.append(self.head(out))
        weights = states.new_ones(()).expand(token.size(0), token.size(1), 1)
        return torch.cat(logits, dim=1), weights, states[0]


@right('looks c up with an attention over the one slot: the weights times the value')
class ContextDecoder_right4(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        weights = memory.value.new_ones(token.size(0), token.size(1), memory.value.size(1))
        c = torch.einsum("bts,bse->btse", weights, memory.value).sum(2)
        state, states = cache, []
        for x in torch.cat((self.embedding(token), c), -1).transpose(0, 1):
            state = torch.gru_cell(x, state, *self.rnn.all_weights[0])
            states.append(state)
        return self.head(torch.stack(states, 1)), weights, state


@wrong(
    'Concatenates c and the embedding in the wrong order.',
    'Concatenate the embedding of each token and $c$, in this order.',
    'c before the embedding',
)
class ContextDecoder_wrong1(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([c, self.embedding(token)], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Starts every call from the first state in the memory.',
    'cache: (B, D), the state before the first of the tokens.',
    'ignores the cache',
)
class ContextDecoder_wrong2(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], -1)
        states, last = self.rnn(inputs, memory.state[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "Gives the network the decoder's first state in place of c.",
    '$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).',
    'first state instead of c',
)
class ContextDecoder_wrong3(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.state[:, None].expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Repeats along the first axis and reshapes, which mixes the sources of the batch.',
    '$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).',
    'repeat mixes up the sources',
)
class ContextDecoder_wrong4(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.repeat(token.size(1), 1, 1).view(token.size(0), token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Gives c to the first of the T tokens only, and zeros to the others.',
    '$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).',
    'c for first token only',
)
class ContextDecoder_wrong5(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Detaches c, so the encoder gets a gradient only through the first state.',
    'Gradients must be right, too.',
    'c is detached',
)
class ContextDecoder_wrong6(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.detach().expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Squeezes the memory, which also removes the batch axis of a single source, or an E of one.',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'batch axis squeezed away',
)
class ContextDecoder_wrong7(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.squeeze()
        c = torch.stack([c] * token.size(1), dim=1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Stores c when it remembers a source and uses what it stored, so an older memory meets the newest c.',
    'The other arguments and results of `step` are as in section 5.',
    'c of the source remembered last',
)
class ContextDecoder_wrong8(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    c = None

    def remember(self, encoded):
        memory = super().remember(encoded)
        self.c = memory.value
        return memory

    def step(self, token, memory, cache):
        same = self.c is not None and self.c.shape == memory.value.shape
        c = (self.c if same else memory.value).expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Switches gradients off in eval mode.',
    'Gradients must be right, too.',
    'no gradients in eval mode',
)
class ContextDecoder_wrong9(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            c = memory.value.expand(-1, token.size(1), -1)
            states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
            return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Returns the mask as weights: True in place of the number one.',
    'Give the weights the dtype and the device of the states.',
    'weights are booleans',
)
class ContextDecoder_wrong10(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], -1), cache[None].contiguous())
        return self.head(states), memory.mask.expand(-1, token.size(1), -1), last[0]
