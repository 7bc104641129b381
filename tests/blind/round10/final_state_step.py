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


@right('the equations of the GRU written out, one token after the other')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, states = cache, []
        w_in, w_rec = self.rnn.weight_ih_l0, self.rnn.weight_hh_l0
        b_in, b_rec = self.rnn.bias_ih_l0, self.rnn.bias_hh_l0
        for y in self.embedding(token).unbind(dim=1):
            r_in, z_in, n_in = F.linear(y, w_in, b_in).chunk(3, dim=-1)
            r_rec, z_rec, n_rec = F.linear(state, w_rec, b_rec).chunk(3, dim=-1)
            reset = torch.sigmoid(r_in + r_rec)
            update = torch.sigmoid(z_in + z_rec)
            new = torch.tanh(n_in + reset * n_rec)
            state = (1 - update) * new + update * state
            states.append(state)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), state


@right('calls the GRU once for each token and concatenates; the weights are a softmax over one slot')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        logits, state = [], cache.unsqueeze(0)
        for t in range(token.shape[1]):
            output, state = self.rnn(self.embedding(token[:, t : t + 1]), state)
            logits.append(self.head(output))
        logits = torch.cat(logits, dim=1)
        weights = torch.zeros(*token.shape, 1, dtype=state.dtype, device=state.device).softmax(-1)
        return logits, weights, state.squeeze(0)


@right('positions first: transposes the embeddings and calls a second function with the weights of the GRU')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def _read(self, inputs, first):
        cell = [self.rnn.weight_ih_l0, self.rnn.weight_hh_l0]
        cell += [self.rnn.bias_ih_l0, self.rnn.bias_hh_l0]
        states = [first]
        for x in inputs:
            states.append(torch.gru_cell(x, states[-1], *cell))
        return torch.stack(states[1:])

    def step(self, token, memory, cache):
        states = self._read(self.embedding(token.T), cache).transpose(0, 1)
        weights = states.new_full((token.size(0), token.size(1), 1), 1.0)
        return self.head(states), weights, states[:, -1].clone()


@right('reads each sentence as an unbatched GRU call')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        parts = [
            self.rnn(self.embedding(ids), first[None].contiguous())
            for ids, first in zip(token, cache)
        ]
        states = torch.stack([read for read, _ in parts])
        last = torch.cat([h for _, h in parts])
        return self.head(states), states.new_ones(()).expand(*token.shape, 1), last


@wrong(
    "starts every call from the memory's first state: when the model generates, each step forgets the previous ones",
    'The state before the first token comes in as `cache`.',
    'ignores cache, starts from memory.state',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'logits of the last token only: the same for T = 1, otherwise (B, 1, V)',
    'Write its `step`, which takes T tokens at once.',
    'logits only for the last token',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(last[0])[:, None], states.new_ones(*token.shape, 1), last[0]


@wrong(
    'returns the last state with the axis of the layers, (1, B, D)',
    'Return the logits, the weights, and the state after the last token.',
    'keeps the layer axis of the state',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong(
    'torch.ones without dtype and device: float32 on the CPU for a bfloat16 or GPU model',
    'Give the weights the dtype and the device of the states.',
    'weights always float32 on the CPU',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), torch.ones(token.size(0), token.size(1), 1), last[0]


@wrong(
    'weights (B, 1, 1): right for T = 1 only',
    'The weights (B, T, slots) say how much of each slot went into each step.',
    'one weight per sentence instead of per token',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(token.size(0), 1, 1)
        return self.head(states), weights, last[0]


@wrong(
    'squeeze() drops the axis of the batch too if there is one sentence, so the state is (D,)',
    'Return the logits, the weights, and the state after the last token.',
    'squeezes the batch axis of one sentence',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last.squeeze()


@wrong(
    "writes the new state into the caller's cache, so the same cache cannot be used for two continuations",
    'Do not change the inputs.',
    'overwrites the cache in place',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        with torch.no_grad():
            cache.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'takes T > 1 for training and then starts from memory.state: several tokens after a prefix get the wrong first state',
    'The state before the first token comes in as `cache`.',
    'uses cache only when T is one',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        first = cache if token.size(1) == 1 else memory.state
        states, last = self.rnn(self.embedding(token), first[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'keeps the running state on the decoder from start() on, ignores cache: right only if calls come in order for one source',
    'Use only the arguments of `step`: the decoder may have remembered other sources in the meantime.',
    'keeps the state on the decoder itself',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.running = None

    def start(self, memory):
        self.running = memory.state
        return memory.state

    def step(self, token, memory, cache):
        first = cache if self.running is None else self.running
        states, last = self.rnn(self.embedding(token), first[None])
        self.running = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "takes an all-zero cache for 'not started yet' and replaces it by memory.state: wrong if the state before is zero",
    'The state before the first token comes in as `cache`.',
    'treats a zero cache as missing',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        started = cache.ne(0).any(dim=-1, keepdim=True)
        first = torch.where(started, cache, memory.state)
        states, last = self.rnn(self.embedding(token), first[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
