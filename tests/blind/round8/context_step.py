import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """What the decoders of the lab share."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=c, value=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


class Given(OneSlotDecoder):
    """The lines of the lab."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)


@right("token after token, the context concatenated to each one")
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        c, states = memory.value[:, 0], []
        for ids in token.unbind(dim=1):
            x = torch.cat((self.embedding(ids), c), dim=1)
            _, last = self.rnn(x[:, None], cache[None])
            cache = last[0]
            states.append(cache)
        states = torch.stack(states, dim=1)
        return self.head(states), states.new_ones(states.shape[:2] + (1,)), cache


@right("weights first: the context is their product with the memory's value")
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        weights = torch.ones_like(y[..., :1])
        c = weights @ memory.value
        states, last = self.rnn(torch.cat([y, c], -1), cache.unsqueeze(0))
        return self.head(states), weights, last.squeeze(0)


@right("fills an empty input from both sides, repeats by index")
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        B, T = token.shape
        y = self.embedding(token)
        x = y.new_empty(B, T, self.rnn.input_size)
        x[..., : y.size(-1)] = y
        x[..., y.size(-1) :] = memory.value
        states, last = self.rnn(x, cache[None])
        return self.head(states), states.new_ones(B, T, 1), last[0]


@right("splits the GRU's input map: the context's part is computed once")
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        g, y = self.rnn, self.embedding(token)
        w_y, w_c = g.weight_ih_l0.split([y.size(-1), memory.value.size(-1)], dim=1)
        told = memory.value @ w_c.mT + g.bias_ih_l0
        h, states = cache, []
        for i in (y @ w_y.mT + told).unbind(1):
            ir, iz, i_n = i.chunk(3, -1)
            hr, hz, hn = (h @ g.weight_hh_l0.mT + g.bias_hh_l0).chunk(3, -1)
            z = (iz + hz).sigmoid()
            h = (1 - z) * (i_n + (ir + hr).sigmoid() * hn).tanh() + z * h
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), torch.ones_like(states[..., :1]), h


@wrong(
    "the context stands before the embedding",
    "Now $c$ is concatenated to every input, after the embedding of the token.",
    "context before the embedding",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, y.size(1), -1)
        states, last = self.rnn(torch.cat([c, y], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "concatenates the state (cache) in place of c: raises unless D = E, and is wrong then",
    "$c$ is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "state used as context",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = cache[:, None].expand(-1, y.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "starts from memory.state instead of the cache: wrong from the second step on",
    "cache: (B, D), the state before the first of the tokens.",
    "cache ignored",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, y.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "does not repeat the context: raises for T > 1",
    "$c$ is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "context not repeated over the tokens",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), memory.value], dim=-1)
        states, last = self.rnn(x, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "weights made in float32: wrong for a model in float64 or bfloat16",
    "What you return has the dtype of the vectors or parameters that it is made from, and is on their device.",
    "weights of default dtype",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, y.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        weights = torch.ones(*token.shape, 1, device=token.device)
        return self.head(states), weights, last[0]


@wrong(
    "squeezes the memory before it is repeated: for one sentence and T > 1 the axes no longer fit, and (E,) cannot be expanded",
    "memory: from `remember`; `memory.value` is (B, 1, E).",
    "squeeze drops axes of length one",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.squeeze()[:, None].expand(-1, y.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeats whole batches and views the result as (B, T, E): right for B = 1 or T = 1, otherwise sentences get the contexts of others",
    "$c$ is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "contexts of the sentences mixed",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        B, T = token.shape
        y = self.embedding(token)
        c = memory.value.repeat(T, 1, 1).view(B, T, -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(B, T, 1), last[0]


@wrong(
    "the context is told to the first of the T tokens only, the others get zeros: right when the model writes token by token",
    "Now $c$ is concatenated to every input, after the embedding of the token.",
    "context only for the first token",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        rest = memory.value.new_zeros(y.size(0), y.size(1) - 1, memory.value.size(-1))
        c = torch.cat([memory.value, rest], dim=1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "takes the context that remember saw last and not the one in the memory: wrong when other sources were remembered in between",
    "$c$ is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "context kept inside the decoder",
)
class ContextDecoder(Given):
    kept = None

    def remember(self, encoded):
        self.kept = encoded.final[:, None]
        return super().remember(encoded)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value if self.kept is None else self.kept
        c = c.expand(-1, y.size(1), -1)
        states, last = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns as next cache the state after the first token: right for T = 1, wrong for a step over several tokens",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    "cache after the first token",
)
class ContextDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        c = memory.value.expand(-1, y.size(1), -1)
        states, _ = self.rnn(torch.cat([y, c], dim=-1), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]
