import torch
from torch import nn
from torch.nn import functional as F

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
        return Memory(value, value, encoded.mask[..., :1], state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


class Given(OneSlotDecoder):
    """The __init__ of the notebook."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)


@right("an empty input of full width is filled in two halves")
class Filled(Given):
    def step(self, token, memory, cache):
        y, c = self.embedding(token), memory.value
        both = y.new_zeros(*token.shape, y.size(-1) + c.size(-1))
        both[..., : y.size(-1)] = y
        both[..., y.size(-1) :] = c
        states, last = self.rnn(both, cache[None])
        return self.head(states), torch.ones_like(states[..., :1]), last[0]


@right("one token after the other, c attached each time")
class OneByOne(Given):
    def step(self, token, memory, cache):
        c = memory.value[:, 0]
        h, states = cache[None], []
        for y in self.embedding(token).unbind(dim=1):
            out, h = self.rnn(torch.hstack((y, c))[:, None], h)
            states.append(out[:, 0])
        states = torch.stack(states, dim=1)
        return self.head(states), states.new_ones(()).repeat(*token.shape, 1), h[0]


@right("by hand: c's part of the input is the same for all tokens, and is made once")
class SplitWeights(Given):
    def step(self, token, memory, cache):
        r, width = self.rnn, self.embedding.embedding_dim
        w_y, w_c = r.weight_ih_l0.split([width, memory.value.size(-1)], dim=1)
        x = self.embedding(token) @ w_y.T + memory.value @ w_c.T + r.bias_ih_l0
        h, states = cache, []
        for t in range(x.size(1)):
            hidden = h @ r.weight_hh_l0.T + r.bias_hh_l0
            xr, xz, xn = x[:, t].tensor_split(3, dim=-1)
            hr, hz, hn = hidden.tensor_split(3, dim=-1)
            z = (xz + hz).sigmoid()
            h = torch.lerp((xn + (xr + hr).sigmoid() * hn).tanh(), h, z)
            states += [h[:, None]]
        states = torch.cat(states, dim=1)
        return F.linear(states, self.head.weight, self.head.bias), states.new_ones(
            states.size(0), states.size(1), memory.value.size(1)
        ), h


@right("the copies of c come from a matrix product with ones, which are the weights")
class WeightsTimesValue(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        weights = torch.zeros_like(y[..., :1]).exp()
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        states, last = self.rnn(torch.cat([y, context], -1), cache.unsqueeze(0))
        return self.head(states), weights, last.squeeze(0)


@wrong(
    "attaches c in front of the embedding",
    breaks="Now $c$ is attached to every input, behind the embedding of the token.",
    name="[c; y] for [y; c]",
)
class Order(Given):
    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(
            torch.cat([c, self.embedding(token)], dim=-1), cache[None]
        )
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "attaches c to the first of the tokens, and zeros to the others",
    breaks="Now $c$ is attached to every input",
    name="told at the first token only",
    subtle=True,
)
class FirstOnly(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeats along the batch and views: the sentences' vectors are mixed",
    breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and"
    " the same for all T tokens.",
    name="repeat and view mix the sentences",
    subtle=True,
)
class RepeatView(Given):
    def step(self, token, memory, cache):
        b, t = token.shape
        c = memory.value.repeat(t, 1, 1).view(b, t, -1)
        states, last = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), cache[None]
        )
        return self.head(states), states.new_ones(b, t, 1), last[0]


@wrong(
    "keeps the context of the first source on self",
    breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E)",
    name="context kept on self",
    subtle=True,
)
class OnSelf(Given):
    context = None

    def step(self, token, memory, cache):
        if self.context is None or self.context.shape != memory.value.shape:
            self.context = memory.value
        c = self.context.expand(-1, token.size(1), -1)
        states, last = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), cache[None]
        )
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "drops out some of c while it trains",
    breaks="h_t = \\mathrm{GRU}([y_{t-1};\\, c],\\, h_{t-1})",
    name="dropout that nobody asked for",
    subtle=True,
)
class Dropout(Given):
    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        c = F.dropout(c, 0.1, training=self.training)
        states, last = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), cache[None]
        )
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "squeezes the slot's axis off, and every other axis of length one",
    breaks="memory: from `remember`; `memory.value` is (B, 1, E).",
    name="squeeze without an axis",
    subtle=True,
)
class Squeeze(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.squeeze().unsqueeze(1).expand(-1, token.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "attaches the first sentence's c to the inputs of all sentences",
    breaks="It is the content of the memory's one slot",
    name="the slot's axis taken for the batch's",
    subtle=True,
)
class FirstSentence(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value[0].expand(*token.shape, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "weights made by torch.ones, in the default dtype and on the CPU",
    breaks="What you return has the dtype of the vectors or parameters that it is made"
    " from, and is on their device.",
    name="torch.ones has a dtype and a device of its own",
    subtle=True,
)
class CpuOnes(Given):
    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), cache[None]
        )
        return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong(
    "goes on from the first state of the memory whatever the cache is",
    breaks="cache: (B, D), the state before the first of the tokens.",
    name="starts from the first state every time",
    subtle=True,
)
class FromMemory(Given):
    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        states, last = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), self.start(memory)[None]
        )
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "squashes c once more before it is attached",
    breaks="It is the content of the memory's one slot, `memory.value` (B, 1, E), and"
    " the same for all T tokens.",
    name="tanh on c",
)
class TanhContext(Given):
    def step(self, token, memory, cache):
        c = torch.tanh(memory.value).expand(-1, token.size(1), -1)
        states, last = self.rnn(
            torch.cat([self.embedding(token), c], dim=-1), cache[None]
        )
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
