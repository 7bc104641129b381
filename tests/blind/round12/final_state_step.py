import torch
from torch import nn

from attention_course.seq2seq import Memory

from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """The right answer to section 3, on which this question builds."""

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


# ---------------------------------------------------------------- wrong answers


@wrong(
    "starts from zeros and never hears of the source",
    "The state before the first token comes in as `cache`.",
    "first state ignored",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0]


@wrong(
    "returns probabilities",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).",
    "softmax of the logits",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states).softmax(dim=-1), weights, last[0]


@wrong(
    "returns the last state as the GRU gives it, with the axis of the layers",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).",
    "axis of the layers kept",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last


@wrong(
    "divides the weights by the number of tokens, so that they add up to one over T",
    "This memory has only one slot, so every weight is one.",
    "weights normalised over the wrong axis",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_zeros(*token.shape, 1).softmax(dim=1)
        return self.head(states), weights, last[0]


@wrong(
    "starts every call from memory.state: right for the first token only",
    "The state before the first token comes in as `cache`.",
    "memory.state instead of cache",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0]


@wrong(
    "goes on from the state that its own last call has stored",
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
        self.state = None

    def step(self, token, memory, cache):
        if self.state is None or self.state.size(1) != token.size(0):
            self.state = cache[None]
        states, self.state = self.rnn(self.embedding(token), self.state)
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, self.state[0]


@wrong(
    "weights from torch.ones: float32, on the CPU",
    "Give the weights the dtype and the device of the states.",
    "weights always float32",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = torch.ones(token.size(0), token.size(1), 1)
        return self.head(states), weights, last[0]


@wrong(
    "returns the state after the first of the tokens, the same if T is 1",
    "Return the logits, the weights, and the state after the last token.",
    "state after the first token",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, states[:, 0]


@wrong(
    "gives the caller's cache the axis of the layers in place",
    "Do not change the inputs.",
    "shape of the cache changed in place",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache.unsqueeze_(0))
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0]


@wrong(
    "detaches the state that it returns: no gradient flows from one step to the next",
    "Gradients must be right, too.",
    "returned state detached",
    subtle=True,
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0].detach()


# ---------------------------------------------------------------- right answers


@right("one token after the other")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        logits, state = [], cache.unsqueeze(0)
        for column in token.split(1, dim=1):
            out, state = self.rnn(self.embedding(column), state)
            logits.append(self.head(out))
        logits = torch.cat(logits, dim=1)
        return logits, torch.ones_like(logits[..., :1]), state.squeeze(0)


@right("the gates of the GRU written out, in float64")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        w_x, w_h, b_x, b_h = (
            parameter.double()
            for parameter in (
                self.rnn.weight_ih_l0,
                self.rnn.weight_hh_l0,
                self.rnn.bias_ih_l0,
                self.rnn.bias_hh_l0,
            )
        )
        h, states = cache.double(), []
        for x in self.embedding(token).double().unbind(dim=1):
            r_x, z_x, n_x = (x @ w_x.T + b_x).chunk(3, dim=-1)
            r_h, z_h, n_h = (h @ w_h.T + b_h).chunk(3, dim=-1)
            r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
            n = torch.tanh(n_x + r * n_h)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1).to(cache.dtype)
        weights = states.new_ones(token.size(0), token.size(1), 1)
        return self.head(states), weights, states[:, -1]


@right("the weights are a softmax over the one slot, the state is the last column")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        first = torch.stack([cache])
        states = self.rnn(self.embedding(token), first)[0]
        weights = torch.softmax(torch.zeros_like(states[:, :, :1]), dim=-1)
        logits = torch.einsum("btd,vd->btv", states, self.head.weight) + self.head.bias
        return logits, weights, states[:, -1, :]


@right("reads each sentence by itself, and makes the weights of the memory's mask")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def read(self, ids, state):
        states, last = self.rnn(self.embedding(ids)[None], state[None, None])
        return self.head(states)[0], last[0, 0]

    def step(self, token, memory, cache):
        results = [self.read(ids, state) for ids, state in zip(token, cache)]
        logits = torch.stack([logits for logits, _ in results])
        weights = memory.mask.to(cache.dtype).repeat(1, token.size(1), 1)
        return logits, weights, torch.stack([last for _, last in results])
