import torch
import torch.nn.functional as F
from torch import nn
from attention_course.seq2seq import Memory
from blind import right, wrong

SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRAD = "Gradients must be right, too."
CONCAT = "Concatenate the embedding of each token and $c$, in this order."
VALUE = "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E)."
WEIGHTS = "This memory has only one slot, so every weight is one."
FORMULA = "h_t = \\mathrm{GRU}([y_{t-1};\\, c],\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)"
CACHE = "The state before the first token comes in as `cache`."
SOURCE = "Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime."
STATES = "Give the weights the dtype and the device of the states."


class OneSlotDecoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
    """

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        """Keep the final state, and nothing else of the source: a `Memory`."""
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('writes both halves of the input into one new tensor')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        width = y.size(-1)
        inputs = y.new_empty(*token.shape, width + memory.value.size(-1))
        inputs[..., :width] = y
        inputs[..., width:] = memory.value
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last.squeeze(0)


@right('one token after the other, with c concatenated each time')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        c, h, states = memory.value[:, 0], cache, []
        for t in range(token.size(1)):
            x = torch.hstack([self.embedding(token[:, t]), c])
            _, h = self.rnn(x.unsqueeze(1), h.unsqueeze(0).contiguous())
            h = h[0]
            states.append(h)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h


@right('splits the input weights: the part for c is computed once and added to every step')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        rnn = self.rnn
        width = self.embedding.embedding_dim
        w_y, w_c = rnn.weight_ih_l0[:, :width], rnn.weight_ih_l0[:, width:]
        x = self.embedding(token) @ w_y.T + F.linear(memory.value, w_c, rnn.bias_ih_l0)
        h, states = cache, []
        for x_t in x.unbind(1):
            xr, xz, xn = x_t.chunk(3, dim=-1)
            hr, hz, hn = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, dim=-1)
            z = (xz + hz).sigmoid()
            n = (xn + (xr + hr).sigmoid() * hn).tanh()
            h = n + z * (h - n)
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h


@right('pads the embeddings with zeros to the width of the input and adds c on the other side')
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        inputs = F.pad(y, (0, memory.value.size(-1))) + F.pad(memory.value, (y.size(-1), 0))
        states, _ = self.rnn(inputs, cache[None].contiguous())
        weights = memory.mask.to(states.dtype).repeat(1, token.size(1), 1)
        return self.head(states), weights, states[:, -1]


@wrong(
    'c first and then the embedding; no error, as the width is the same',
    breaks=CONCAT,
    name='order of the inputs swapped',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([c, y], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'c only beside the first of the T tokens, zeros beside the others',
    breaks=VALUE,
    name='context only at the first token',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'uses the state of the decoder as c if both have the same width, and memory.value only otherwise',
    breaks=VALUE,
    name='state instead of context for equal widths',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value
        if cache.size(-1) == c.size(-1):
            c = cache[:, None]
        c = c.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'begins with memory.state in each call instead of cache',
    breaks=CACHE,
    name='first state in every call',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), self.start(memory)[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'remember stores c in the decoder, and step uses the stored c of the source remembered last',
    breaks=SOURCE,
    name='context stored in the decoder',
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
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        value = memory.value if self.c is None or len(self.c) != len(token) else self.c
        c = value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([self.embedding(token), c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'detaches c in each step, so it gets a gradient only through the first state',
    breaks=GRAD,
    name='no gradient through the context',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value.detach().expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'adds c to the cache before the first token if the widths agree, as well as concatenating it',
    breaks=FORMULA,
    name='context added to the state',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value
        state = cache + c[:, 0] if cache.size(-1) == c.size(-1) else cache
        inputs = torch.cat([y, c.expand(-1, token.size(1), -1)], dim=-1)
        states, last = self.rnn(inputs, state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'expand with -1 for the time: works if T is 1, an error for more tokens',
    breaks=SIZES,
    name='only one token at a time',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value.expand(y.size(0), -1, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'weights share the slot between T tokens: 1 / T each, so they are one only if T is 1',
    breaks=WEIGHTS,
    name='weights divided by the number of tokens',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        weights = states.new_ones(*token.shape, 1).softmax(dim=1)
        return self.head(states), weights, last[0]


@wrong(
    'dropout of c in train mode, to make the decoder less dependent on it',
    breaks=FORMULA,
    name='dropout in train mode',
)
class ContextDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state at every step."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`; `memory.value` is (B, 1, E).
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        y = self.embedding(token)
        c = F.dropout(memory.value, 0.2, self.training).expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
