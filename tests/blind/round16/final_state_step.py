import torch
import torch.nn.functional as F
from torch import nn
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
GRAD = "Gradients must be right, too."
FORMULA = "h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)"
CACHE = "The state before the first token comes in as `cache`."
RETURN = "Return the logits, the weights, and the state after the last token."
SOURCE = "Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime."
WEIGHTS = "This memory has only one slot, so every weight is one."
SHAPE = "The weights (B, T, slots) say how much of each slot went into each step."
STATES = "Give the weights the dtype and the device of the states."
MANY = "Write its `step`, which takes T tokens at once."
LOGITS = "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,"


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


@right('one token after the other')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        state, states = cache[None].contiguous(), []
        for y in self.embedding(token).unbind(1):
            out, state = self.rnn(y[:, None], state)
            states.append(out)
        states = torch.cat(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), state[0]


@right('torch.gru_cell with the weights of the layer')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        r, h, states = self.rnn, cache, []
        for t in range(token.size(1)):
            y = self.embedding(token[:, t])
            h = torch.gru_cell(
                y, h, r.weight_ih_l0, r.weight_hh_l0, r.bias_ih_l0, r.bias_hh_l0
            )
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h


@right('the gates of the GRU by hand')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        rnn = self.rnn
        x = F.linear(self.embedding(token), rnn.weight_ih_l0, rnn.bias_ih_l0)
        h, logits = cache, []
        for t in range(token.size(1)):
            xr, xz, xn = x[:, t].chunk(3, dim=-1)
            hr, hz, hn = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, dim=-1)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = (1 - z) * n + z * h
            logits.append(self.head(h))
        weights = memory.mask.to(h.dtype).expand(-1, token.size(1), -1)
        return torch.stack(logits, 1), weights, h


@right('all tokens at once; the weights as a softmax over the one slot, the state from the last column')
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, _ = self.rnn(self.embedding(token), cache.unsqueeze(0).contiguous())
        weights = torch.softmax(torch.zeros_like(states[..., :1]), dim=-1)
        return self.head(states), weights, states.select(1, -1)


@wrong(
    'begins with memory.state in every call: right for whole targets, wrong from the second step of generation on',
    breaks=CACHE,
    name='first state in every call',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'begins with the state that the decoder itself has stored in its last call',
    breaks=SOURCE,
    name='state stored in the decoder',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.state = None

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        if self.state is None or self.state.shape != cache.shape or cache is memory.state:
            self.state = cache
        states, last = self.rnn(self.embedding(token), self.state[None])
        self.state = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'takes a cache of zeros for a missing one and uses memory.state instead',
    breaks=CACHE,
    name='state of zeros replaced',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        if not cache.any():
            cache = memory.state
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'the weights have one column only, however many tokens come in',
    breaks=SHAPE,
    name='weights for one step only',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong(
    'torch.ones makes float32 weights on the CPU',
    breaks=STATES,
    name='weights always in float32',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong(
    'logits for the last token only: the same as all logits if T is 1',
    breaks=MANY,
    name='logits of the last token only',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states[:, -1:]), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'detaches the incoming state, so the encoder gets no gradient',
    breaks=GRAD,
    name='gradient cut at the cache',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), cache.detach()[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'returns the state with the axis of the layers, (1, B, D)',
    breaks=LOGITS,
    name='axis of the layers left',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong(
    "writes the new state into the caller's cache",
    breaks=INPUTS,
    name='cache overwritten',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0].detach())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'keeps the state as it is at tokens with the id 0, as if they were padding',
    breaks=FORMULA,
    name='steps with id 0 left out',
)
class FinalStateDecoder(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        """Predict the token after each of T tokens.

        Args:
            token: (B, T), ids.
            memory: from `remember`.
            cache: (B, D), the state before the first of the tokens.

        Returns:
            Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,
            D).
        """
        h, states = cache[None], []
        for t in range(token.size(1)):
            _, new = self.rnn(self.embedding(token[:, t : t + 1]), h)
            h = torch.where((token[:, t] == 0)[None, :, None], h, new)
            states.append(h[0])
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h[0]
