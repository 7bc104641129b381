import torch
from torch import nn
from torch.nn import functional as F

from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(slot, slot, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("the gates of the GRU written by hand, one token after the other")
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, h, states = self.rnn, cache, []
        for column in token.unbind(dim=1):
            x = F.linear(self.embedding(column), rnn.weight_ih_l0, rnn.bias_ih_l0)
            y = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
            (xr, xz, xn), (yr, yz, yn) = x.chunk(3, dim=-1), y.chunk(3, dim=-1)
            r, z = torch.sigmoid(xr + yr), torch.sigmoid(xz + yz)
            n = torch.tanh(xn + r * yn)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h


@right("the GRU is called once per token, logits are concatenated")
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, logits = cache.unsqueeze(0).contiguous(), []
        for t in range(token.size(1)):
            out, state = self.rnn(self.embedding(token[:, t : t + 1]), state)
            logits.append(self.head(out))
        logits = torch.cat(logits, dim=1)
        ones = torch.ones(*token.shape, 1, dtype=state.dtype, device=state.device)
        return logits, ones, state.squeeze(0)


@right("F.embedding on the transposed tokens, head as a matrix product, torch.stack for the layers")
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = F.embedding(token.T, self.embedding.weight)  # (T, B, width)
        states, last = self.rnn(inputs.transpose(0, 1), torch.stack([cache]))
        logits = states @ self.head.weight.T + self.head.bias
        weights = states.new_ones(()).expand(*token.shape, 1).clone()
        return logits, weights, last[-1]


@right("the weights come from the memory's mask, the last state from the states")
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache, layers=1):
        first = cache.expand(layers, *cache.shape).contiguous()
        states = self.rnn(self.embedding(token), first)[0]
        allowed = memory.mask[..., :1].to(states)
        weights = allowed.repeat(1, token.size(1), 1)
        return self.head(states), weights, states[:, -1]


@wrong(
    "The GRU starts from zeros in every call: the source never reaches the decoder, and the second call forgets the first.",
    "The state before the first token comes in as `cache`.",
    "ignores the cache",
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "Every call starts from memory.state instead of the cache: right for the whole target and for the first token, wrong from the second single token on.",
    "The state before the first token comes in as `cache`.",
    "starts from the memory instead of the cache",
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
    "The state still has the axis of the layers, (1, B, D).",
    "Return the logits, the weights, and the state after the last token.",
    "state is returned with the layer axis",
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
    "squeeze() also removes the batch axis of a single sentence, so the state is (D,).",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes more than the layer axis",
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
    "The weights are always float32 on the CPU: wrong dtype in bfloat16 and wrong device on a GPU.",
    "Give the weights the dtype and the device of the states.",
    "weights have the default dtype and device",
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
    "The new state is written into the cache that the caller still holds (without gradient): a search that continues from the same cache with another token gets the wrong state.",
    "Do not change the inputs.",
    "overwrites the cache in place",
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        with torch.no_grad():
            cache.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "The softmax over the slots runs over the axis of the target positions instead: 1 for one token, but 1/T for T tokens.",
    "This memory has only one slot, so every weight is one.",
    "softmax over the target positions",
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        energies = states.new_zeros(*token.shape, 1)
        return self.head(states), torch.softmax(energies, dim=1), last[0]


@wrong(
    "The weight is a softmax of a score over one slot, which is one only while the score is finite: in large numbers the sum overflows to inf and the weight is NaN.",
    "This memory has only one slot, so every weight is one.",
    "softmax of an overflowing score",
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = states.sum(-1, keepdim=True) * memory.key.pow(2).sum(-1, keepdim=True)
        return self.head(states), torch.softmax(scores, dim=-1), last[0]


@wrong(
    "A cache of zeros is taken for a missing one and replaced by memory.state; a state of zeros is a state as any other.",
    "The state before the first token comes in as `cache`.",
    "treats a zero state as missing",
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state = cache if cache.any() else memory.state
        states, last = self.rnn(self.embedding(token), state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "A single token is continued from the state that the last call left on self, if its batch size fits: right in a plain loop, wrong when two sources or two branches of a search take turns.",
    "Use only the arguments of `step`: the decoder may have remembered other sources in the meantime.",
    "keeps its running state on self",
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self._running = None

    def start(self, memory):
        self._running = None
        return memory.state

    def step(self, token, memory, cache):
        state = cache
        if self._running is not None and token.size(1) == 1:
            if self._running.shape == cache.shape:
                state = self._running
        states, last = self.rnn(self.embedding(token), state[None])
        self._running = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
