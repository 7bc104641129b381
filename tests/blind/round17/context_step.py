import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong

ORDER = "Concatenate the embedding of each token and $c$, in this order."
SAME = (
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E)."
)
EVERY = "A decoder that gets the source's final state at every step."
DTYPE = "Give the weights the dtype and the device of the states."
RETURNS = (
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D)."
)
CACHE = "cache: (B, D), the state before the first of the tokens."
GRADIENTS = "Gradients must be right, too."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


class Base(nn.Module):
    """The decoder of section 3, and the given `__init__`."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

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


@right("reads token by token, with the context appended to each embedding")
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        c, state, logits = memory.value[:, 0], cache[None], []
        for t in range(token.size(1)):
            x = torch.hstack([self.embedding(token[:, t]), c])
            _, state = self.rnn(x[:, None], state)
            logits.append(self.head(state[0]))
        logits = torch.stack(logits, dim=1)
        weights = logits.new_ones(logits.shape[:2]).unsqueeze(-1)
        return logits, weights, state[0]


@right("spreads the context over the tokens by a product of weights and slots")
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        words = self.embedding(token)
        weights = torch.ones_like(words[..., :1]).detach()
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        states, last = self.rnn(torch.cat((words, context), 2), cache.unsqueeze(0))
        return self.head(states), weights, last.squeeze(0)


@right("multiplies embedding and context by their own parts of the GRU's weights")
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        gru, words = self.rnn, self.embedding(token)
        for_words, for_context = gru.weight_ih_l0.tensor_split([words.size(-1)], dim=1)
        inputs = words @ for_words.T + memory.value @ for_context.T + gru.bias_ih_l0
        h, states = cache, []
        for x in inputs.unbind(1):
            y = h @ gru.weight_hh_l0.T + gru.bias_hh_l0
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), y.chunk(3, -1)
            z = (xz + hz).sigmoid()
            n = (xn + (xr + hr).sigmoid() * hn).tanh()
            h = n * (1 - z) + h * z
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.detach()[..., :1].pow(0), h


@right("writes both parts into an empty input, and takes the state from the last column")
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        words = self.embedding(token)
        width = words.size(-1)
        inputs = words.new_empty(*token.shape, self.rnn.input_size)
        inputs[..., :width] = words
        inputs[..., width:] = memory.value
        states, _ = self.rnn(inputs, cache[None])
        weights = (memory.mask | True).to(states).expand(-1, token.size(1), -1)
        return self.head(states), weights, states.select(1, -1)


@wrong(
    "concatenates the context first",
    breaks=ORDER,
    name="context before embedding",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([context, words], -1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "gives the context to the first of the tokens, and zeros to the others",
    breaks=EVERY,
    name="context at the first token only",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([words, context], -1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "gives all sentences the context of the first one",
    breaks=SAME,
    name="the first sentence's context for the whole batch",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value[0].expand(*token.shape, -1)
        states, last = self.rnn(torch.cat([words, context], -1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns the last state as (B, 1, D), and accepts it like this",
    breaks=RETURNS,
    name="the state keeps the axis of the tokens",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        first = cache.reshape(1, token.size(0), -1)
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], -1)
        states, _ = self.rnn(inputs, first)
        return self.head(states), states.new_ones(*token.shape, 1), states[:, -1:]


@wrong(
    "takes the context from memory.key",
    breaks=SAME,
    name="key instead of value",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        context = memory.key.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], -1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "spreads the context once, and uses it again as long as the shape stays the same",
    breaks=CALLS,
    name="the context of an earlier source",
)
class ContextDecoder(Base):
    context = None

    def step(self, token, memory, cache):
        words = self.embedding(token)
        shape = (*token.shape, memory.value.size(-1))
        if self.context is None or self.context.shape != shape:
            self.context = memory.value.expand(shape)
        states, last = self.rnn(torch.cat([words, self.context], -1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "detaches the context, so the encoder learns through the first state only",
    breaks=GRADIENTS,
    name="no gradient through the context",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        context = memory.value.detach().expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], -1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns the mask of the slot as its weights: True equals one, but is no float",
    breaks=DTYPE,
    name="weights of the type bool",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], -1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), memory.mask.expand(-1, token.size(1), -1), last[0]


@wrong(
    "takes a cache of zeros for a missing one, and begins with memory.state instead",
    breaks=CACHE,
    name="a state of zeros is replaced",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        first = cache if cache.any() else self.start(memory)
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], -1)
        states, last = self.rnn(inputs, first[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeats the batch T times and then views it as (B, T, E), which mixes sentences",
    breaks=SAME,
    name="repeat and view mix up the sentences",
)
class ContextDecoder(Base):
    def step(self, token, memory, cache):
        B, T = token.shape
        context = memory.value.repeat(T, 1, 1).view(B, T, -1)
        inputs = torch.cat([self.embedding(token), context], -1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(B, T, 1), last[0]
