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
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        h, states = cache.unsqueeze(0), []
        for t in range(token.size(1)):
            out, h = self.rnn(self.embedding(token[:, t : t + 1]), h)
            states.append(out)
        states = torch.cat(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h.squeeze(0)


@right("the GRU's equations by hand")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        g, h, states = self.rnn, cache, []
        for y in self.embedding(token).unbind(1):
            a = F.linear(y, g.weight_ih_l0, g.bias_ih_l0).chunk(3, -1)
            b = F.linear(h, g.weight_hh_l0, g.bias_hh_l0).chunk(3, -1)
            r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            n = torch.tanh(a[2] + r * b[2])
            h = n + z * (h - n)
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_full((*token.shape, 1), 1.0), h


@right('embedding by one-hot, last state cut out of all')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = F.one_hot(token, self.embedding.num_embeddings).to(cache.dtype) @ self.embedding.weight
        states = self.rnn(y, cache[None].contiguous())[0]
        logits = torch.einsum("btd,vd->btv", states, self.head.weight) + self.head.bias
        return logits, (states[:, :, 0:1] * 0).exp(), states[:, -1]


@right('recursive: the first token, then the rest')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, h = self.rnn(self.embedding(token[:, :1]), cache.view(1, *cache.shape))
        logits, weights, h = self.head(states), torch.ones_like(states[:, :, :1]), h[0]
        if token.size(1) > 1:
            more = self.step(token[:, 1:], memory, h)
            logits, weights, h = torch.cat([logits, more[0]], 1), torch.cat([weights, more[1]], 1), more[2]
        return logits, weights, h


@wrong('starts from zeros', breaks='What `step` is handed as `cache` is the state before the first of its tokens, and the last that it returns is the state after the last of them.', name='cache ignored', subtle=False)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("the last state keeps the layer's axis", breaks='Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).', name='axis left over', subtle=False)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong('logits of the last token only', breaks='Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).', name='only the last position', subtle=False)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states[:, -1:]), states.new_ones(*token.shape, 1), last[0]


@wrong("starts from the memory's state at every call", breaks='What `step` is handed as `cache` is the state before the first of its tokens, and the last that it returns is the state after the last of them.', name='first state in place of the cache', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('hands on the state after the first of the tokens', breaks='What `step` is handed as `cache` is the state before the first of its tokens, and the last that it returns is the state after the last of them.', name='state of the first position', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]


@wrong('weights always float32', breaks='Its weight is one, in the dtype and on the device of the states.', name='wrong dtype', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), torch.ones(*token.shape, 1, device=states.device), last[0]


@wrong('weights for one step only', breaks='Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).', name='weights without the T positions', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong('logarithms of probabilities in place of logits', breaks='\\mathrm{logits}_t = \\mathrm{head}(h_t)', name='log_softmax of the logits', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states).log_softmax(-1), states.new_ones(*token.shape, 1), last[0]


@wrong("writes the new state over the one it was handed, which is the memory's", breaks="`state` (B, D): the decoder's first state, $h_0 = \\tanh(W c)$.", name='cache changed in place', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0].detach())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('the state stands still at the token 0', breaks='What `step` is handed as `cache` is the state before the first of its tokens, and the last that it returns is the state after the last of them.', name='PAD treated specially', subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        h, states = cache, []
        for t in range(token.size(1)):
            new = self.rnn(self.embedding(token[:, t : t + 1]), h[None])[1][0]
            h = torch.where(token[:, t, None] != 0, new, h)
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h
