import torch
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """The base class of section 3, with the right `remember`."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("one token at a time, in a loop")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, logits, weights = cache[None].contiguous(), [], []
        for one in token.split(1, dim=1):
            out, state = self.rnn(self.embedding(one), state)
            logits.append(self.head(out))
            weights.append(torch.ones_like(out[..., :1]))
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), state[0]


@right("the GRU and the head written out in float64")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def advance(self, x, h):
        w, u = self.rnn.weight_ih_l0.double(), self.rnn.weight_hh_l0.double()
        a, b = self.rnn.bias_ih_l0.double(), self.rnn.bias_hh_l0.double()
        xr, xz, xn = (x @ w.T + a).chunk(3, dim=-1)
        hr, hz, hn = (h @ u.T + b).chunk(3, dim=-1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        return n + z * (h - n)

    def step(self, token, memory, cache):
        h, states = cache.double(), []
        for x in self.embedding(token).double().unbind(1):
            h = self.advance(x, h)
            states.append(h)
        states = torch.stack(states, dim=1)
        logits = states @ self.head.weight.double().T + self.head.bias.double()
        weights = torch.ones(
            *token.shape, 1, dtype=cache.dtype, device=cache.device
        )
        return logits.to(cache.dtype), weights, h.to(cache.dtype)


@right("torch.gru_cell with the weights of the nn.GRU, columns in a list")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = [cache]
        for t in range(token.size(1)):
            x = self.embedding(token[:, t])
            states.append(
                torch.gru_cell(
                    x,
                    states[-1],
                    self.rnn.weight_ih_l0,
                    self.rnn.weight_hh_l0,
                    self.rnn.bias_ih_l0,
                    self.rnn.bias_hh_l0,
                )
            )
        logits = torch.stack([self.head(h) for h in states[1:]], dim=1)
        weights = logits.new_ones(1, 1, 1).expand(*token.shape, 1)
        return logits, weights, states[-1]


@right("weights by a softmax over the one slot, head by einsum, state cut off states")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.asked = 0  # for curiosity

    def step(self, token, memory, cache, need_weights=True):
        self.asked += token.size(1)
        first = torch.stack([cache]).contiguous()
        states = self.rnn(self.embedding(token), first)[0]
        logits = torch.einsum("btd,vd->btv", states, self.head.weight)
        weights = torch.zeros_like(states[:, :, :1]).softmax(dim=-1)
        return logits + self.head.bias, weights, states[:, -1].clone()


@wrong(
    "starts every call from zeros",
    "The state before the first token comes in as `cache`.",
    "no first state",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token))
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "returns the state with the axis of the layers, (1, B, D)",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    "axis of the layers left in place",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state


@wrong(
    "returns log-probabilities",
    "Return the logits, the weights, and the state after the last token.",
    "log-softmax in place of logits",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states).log_softmax(dim=-1), weights, state[0]


@wrong(
    "starts every call from the memory's first state; right for `decode` and for the"
    " first step, wrong for every later one",
    "The state before the first token comes in as `cache`.",
    "memory.state in place of cache",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), memory.state[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]


@wrong(
    "keeps the running state itself, from `start` on, and looks at the cache only once",
    "Take the source and the state from the arguments of `step`, not from anything that"
    " an earlier call has stored: the decoder may have remembered other sources in the"
    " meantime.",
    "state stored in the decoder",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.running = None

    def start(self, memory):
        self.running = None
        return memory.state

    def step(self, token, memory, cache):
        if self.running is None:
            self.running = cache[None]
        states, self.running = self.rnn(self.embedding(token), self.running)
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, self.running[0]


@wrong(
    "makes the weights with torch.ones, which is float32 for float64 and bfloat16 too",
    "Give the weights the dtype and the device of the states.",
    "weights of the default dtype",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), cache[None])
        weights = torch.ones(*token.shape, 1, device=states.device)
        return self.head(states), weights, state[0]


@wrong(
    "takes a softmax over the steps, so each of T weights is 1 / T",
    "This memory has only one slot, so every weight is one.",
    "softmax over the wrong axis",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), cache[None])
        weights = states.new_zeros(*token.shape, 1).softmax(dim=1)
        return self.head(states), weights, state[0]


@wrong(
    "detaches the state that it returns, so no gradient flows from a later step back",
    "Gradients must be right, too.",
    "returned state detached",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0].detach()


@wrong(
    "writes the new state into the cache that it was given (and `start` gives the"
    " memory's own state)",
    "Do not change the inputs.",
    "cache changed in place",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, state = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        cache.data.copy_(state[0].data)
        return self.head(states), weights, state[0]


@wrong(
    "loops over the tokens but starts each of them from the cache again; right for T = 1",
    "Write its `step`, which takes T tokens at once.",
    "state not carried from token to token",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        columns = []
        for t in range(token.size(1)):
            x = self.embedding(token[:, t : t + 1])
            out, state = self.rnn(x, cache[None])
            columns.append(out)
        states = torch.cat(columns, dim=1)
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, state[0]
