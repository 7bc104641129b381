from blind import right, wrong
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory


class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=torch.tanh(self.bridge(encoded.final)))

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('token by token')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        h, states, c = cache[None], [], memory.value[:, 0]
        for y in self.embedding(token).unbind(1):
            out, h = self.rnn(torch.cat([y, c], dim=1)[:, None], h)
            states.append(out[:, 0])
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h[0]


@right('an input full of zeros, written in two parts')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        inputs = F.pad(y, (0, memory.value.size(-1)))
        inputs = inputs + F.pad(memory.value, (y.size(-1), 0))
        states, last = self.rnn(inputs, cache.unsqueeze(0))
        return self.head(states), inputs.new_ones(token.size(0), token.size(1), 1), last.squeeze(0)


@right('the GRU by hand, c multiplied once for all tokens')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        g, E = self.rnn, self.embedding.embedding_dim
        given = memory.value[:, 0] @ g.weight_ih_l0[:, E:].T + g.bias_ih_l0
        h, states = cache, []
        for t in range(token.size(1)):
            ar, az, an = (F.linear(self.embedding(token[:, t]), g.weight_ih_l0[:, :E]) + given).chunk(3, 1)
            br, bz, bn = F.linear(h, g.weight_hh_l0, g.bias_hh_l0).chunk(3, 1)
            z = torch.sigmoid(az + bz)
            h = (1 - z) * torch.tanh(an + torch.sigmoid(ar + br) * bn) + z * h
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states[..., :1].detach() * 0 + 1, h


@right('c repeated by an einsum with ones')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        ones = memory.value.new_ones(*token.shape, 1)
        c = torch.einsum("bto,boe->bte", ones, memory.value)
        states, last = self.rnn(torch.cat((self.embedding(token), c), -1), cache[None])
        return self.head(states), ones.to(states), last[0]


@wrong('c in front of the embedding', breaks='Now $c$ is attached to every input, behind the embedding of the token.', name='order of the two parts', subtle=False)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([c, y], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('zeros in place of c', breaks='Now $c$ is attached to every input, behind the embedding of the token.', name='not told at all', subtle=False)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = torch.zeros_like(memory.value).expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('all sentences are told c of the first', breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.", name='c of another sentence', subtle=False)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value[:1].expand(*token.shape, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('c only with the first token of a call', breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.", name='told once per call', subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('repeated and laid out in the wrong order: right for one sentence or one token', breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.", name='sentences mixed up by repeat', subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.repeat(token.size(1), 1, 1).view(*token.shape, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]




@wrong('tells what was remembered last, not what the memory holds', breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.", name='c kept on the decoder', subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def remember(self, encoded):
        memory = super().remember(encoded)
        self.told = memory.value
        return memory

    def step(self, token, memory, cache):
        c = getattr(self, "told", memory.value).expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('c is cut off at one, as states of a GRU are never larger', breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.", name='c clamped', subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.clamp(-1, 1).expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('a cache of zeros is taken for none, and the first state put in its place', breaks='cache: (B, D), the state before the first of the tokens.', name='zeros taken for missing', subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        if not cache.any():
            cache = memory.state
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('weights are the mask: True in place of one', breaks='Its weight is one, in the dtype and on the device of the states.', name='wrong dtype', subtle=True)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), memory.mask.expand(-1, token.size(1), -1), last[0]
