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


@right("the context goes through its own part of the input weights, gates by hand")
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, h, states = self.rnn, cache, []
        width = self.embedding.embedding_dim
        w_token, w_context = rnn.weight_ih_l0[:, :width], rnn.weight_ih_l0[:, width:]
        from_context = memory.value.squeeze(1) @ w_context.T + rnn.bias_ih_l0
        for column in token.unbind(dim=1):
            x = self.embedding(column) @ w_token.T + from_context
            y = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
            (xr, xz, xn), (yr, yz, yn) = x.chunk(3, dim=-1), y.chunk(3, dim=-1)
            r, z = torch.sigmoid(xr + yr), torch.sigmoid(xz + yz)
            n = torch.tanh(xn + r * yn)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h


@right("one call of the GRU per token, inside a small helper")
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def _one(self, column, c, state):
        inputs = torch.cat([self.embedding(column), c], dim=-1)
        out, state = self.rnn(inputs.unsqueeze(1), state)
        return out.squeeze(1), state

    def step(self, token, memory, cache):
        c, state, outs = memory.value[:, 0, :], cache.unsqueeze(0).contiguous(), []
        for t in range(token.shape[1]):
            out, state = self._one(token[:, t], c, state)
            outs.append(out)
        outs = torch.stack(outs, dim=1)
        weights = torch.full((*token.shape, 1), 1.0, dtype=outs.dtype, device=outs.device)
        return self.head(outs), weights, state[0]


@right("repeat_interleave for the context, the inputs are written into one new tensor")
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.repeat_interleave(token.size(1), dim=1)
        inputs = y.new_empty(*token.shape, y.size(-1) + c.size(-1))
        inputs[..., : y.size(-1)] = y
        inputs[..., y.size(-1) :] = c
        states, last = self.rnn(inputs, torch.stack([cache]))
        return self.head(states), states.new_ones(states.shape[:2]).unsqueeze(-1), last[-1]


@right("the context is attention over the slots with weights of one")
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache, *, dim=-1):
        y = self.embedding(token)
        weights = y.new_ones(*token.shape, 1)
        inputs = torch.cat((y, torch.bmm(weights, memory.value)), dim)
        states = self.rnn(inputs, cache[None].clone())[0]
        return self.head(states), weights, states[:, -1].clone()


@wrong(
    "The context stands before the embedding; the widths add up, but every number differs.",
    "Concatenate the embedding of each token and $c$, in this order.",
    "concatenates in the wrong order",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([c, self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "Only the first of the T tokens gets c, the others get zeros; right for T = 1.",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).",
    "gives the context to the first token only",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "The GRU is given no state, so what earlier calls have generated is lost; wrong for every cache that is not zero.",
    "The state before the first token comes in as `cache`.",
    "ignores the cache",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], dim=-1))
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeat along the batch and a reshape deal the contexts out in the wrong order: with several sentences and several tokens, a sentence gets the contexts of others; right for B = 1 or T = 1.",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).",
    "reshape mixes the sentences of a batch",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        batch, length = token.shape
        c = memory.value.repeat(length, 1, 1).reshape(batch, length, -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(batch, length, 1), last[0]


@wrong(
    "The slot axis is removed from the memory in place: after the call memory.value is (B, E).",
    "Do not change the inputs.",
    "squeeze_ changes the shape of the memory",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.squeeze_(1)[:, None].expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "The weights are converted to float32, so a bfloat16 model returns float32 weights.",
    "Give the weights the dtype and the device of the states.",
    "weights always float32",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = memory.mask.float().expand(-1, token.size(1), -1)
        return self.head(states), weights, last[0]


@wrong(
    "In train mode the tokens after the first are replaced by the model's own predictions; in eval mode and for T = 1 all is right.",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "feeds its own predictions in train mode",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, logits = cache[None], []
        column = token[:, :1]
        for t in range(token.size(1)):
            if t:
                column = logits[-1].argmax(-1) if self.training else token[:, t : t + 1]
            inputs = torch.cat([self.embedding(column), memory.value], dim=-1)
            out, state = self.rnn(inputs, state)
            logits.append(self.head(out))
        return torch.cat(logits, dim=1), state.new_ones(*token.shape, 1), state[0]


@wrong(
    "Every token starts from the cache again, and the loop forgets to pass the new state on: right for T = 1, so also for generating, wrong for whole targets.",
    'h_t = \\mathrm{GRU}([y_{t-1};\\, c],\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)',
    "does not pass the state on between tokens",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        logits = []
        for column in token.split(1, dim=1):
            inputs = torch.cat([self.embedding(column), memory.value], dim=-1)
            states, last = self.rnn(inputs, cache[None])
            logits.append(self.head(states))
        return torch.cat(logits, dim=1), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "The context is kept from the last call of remember: with two sources remembered before the steps, the first is decoded with the context of the second.",
    "Use only the arguments of `step`: the decoder may have remembered other sources in the meantime.",
    "uses the context stored by remember",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def remember(self, encoded):
        memory = super().remember(encoded)
        self._context = memory.value
        return memory

    def step(self, token, memory, cache):
        c = getattr(self, "_context", memory.value)
        if c.shape != memory.value.shape:
            c = memory.value
        c = c.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "If encoder and decoder are equally wide, memory.state = tanh(W c + b) is used as the context instead of c; with different widths it is right.",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).",
    "context from the state when the widths agree",
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.state
        if c.size(-1) + self.embedding.embedding_dim != self.rnn.input_size:
            c = memory.value[:, 0]
        c = c[:, None].expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
