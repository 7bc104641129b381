import torch
from torch import nn

from attention_course.seq2seq import Encoded, EncoderDecoder, Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("a loop over the tokens, one call of the GRU each")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, states = cache.unsqueeze(0), []
        for t in range(token.size(1)):
            out, state = self.rnn(self.embedding(token[:, t : t + 1]), state)
            states.append(out)
        states = torch.cat(states, dim=1)
        weights = states.new_ones(token.size(0), token.size(1), 1)
        return self.head(states), weights, state.squeeze(0)


@right("the equations of the GRU by hand with the parameters of self.rnn")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        gru, h, states = self.rnn, cache, []
        given = nn.functional.linear(
            self.embedding(token), gru.weight_ih_l0, gru.bias_ih_l0
        )
        for x in given.unbind(dim=1):
            old = nn.functional.linear(h, gru.weight_hh_l0, gru.bias_hh_l0)
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, dim=-1), old.chunk(3, dim=-1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h


@right("the weights by a softmax over the scores of the one slot")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, _ = self.rnn(input=self.embedding(token), hx=cache[None].contiguous())
        scores = states.new_zeros(states.size(0), states.size(1), memory.value.size(1))
        weights = scores.softmax(dim=-1)
        return self.head(states), weights, states[:, -1]


@right("the reading in a method of its own, the axis of the layers by reshape")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def read(self, token, state, layers=1):
        inputs = self.embedding.weight[token]
        states, last = self.rnn(inputs, state.reshape(layers, *state.shape))
        return states, last.reshape(state.shape)

    def step(self, token, memory, cache):
        states, cache = self.read(token, cache)
        everything = torch.full(
            (*token.shape, 1), 1.0, dtype=states.dtype, device=states.device
        )
        return self.head(states), everything, cache


@wrong(
    "starts from the memory's first state at every call: with T = 1 the tokens before are forgotten",
    "`step` takes the state before the first of its tokens as `cache`, and the last thing that it returns is the state after the last of them.",
    "starts from memory.state, not from cache",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "returns the last state as the GRU gives it, (1, B, D)",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    "axis of the layers left on the state",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last


@wrong(
    "gives the GRU no first state, so it starts from zeros and the source is lost",
    "The source is in $h_0$ and nowhere else.",
    "cache is not passed to the GRU",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "weights by torch.ones: float32 if the model is of another dtype, and on the CPU if it is on a GPU",
    "Its weight is one, in the dtype and on the device of the states.",
    "weights always float32 on the CPU",
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
    "squeezes an axis of length one off the logits if one token comes in: (B, V) for T = 1",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    "axis T dropped when T is one",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states.squeeze(1)), weights, last[0]


@wrong(
    "weights for one step only, (B, 1, 1), whatever T is",
    "The second thing that `step` returns are the weights over the slots of the memory, (B, T, slots).",
    "weights do not have an entry per token",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = torch.ones_like(memory.value[..., :1])
        return self.head(states), weights, last[0]


@wrong(
    "puts the axis of the layers in second place: (B, 1, D) works for a batch of one sentence and raises for any other",
    "`step` takes the state before the first of its tokens as `cache`, and the last thing that it returns is the state after the last of them.",
    "layer axis in the wrong place, fails unless B=1",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[:, None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "takes several tokens for the beginning of a target: for T > 1 it starts from memory.state, and from cache only for T = 1",
    "`step` takes the state before the first of its tokens as `cache`, and the last thing that it returns is the state after the last of them.",
    "cache ignored when several tokens come in",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        first = memory.state if token.size(1) > 1 else cache
        states, last = self.rnn(self.embedding(token), first[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "keeps the state in the decoder and goes on from it; only a cache that is the memory's own first state starts anew",
    "A step depends only on its arguments: the decoder may have remembered other sources in between.",
    "goes on from a state kept in the decoder",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.state = None

    def step(self, token, memory, cache):
        if cache is memory.state or self.state is None:
            self.state = cache
        states, last = self.rnn(self.embedding(token), self.state[None])
        self.state = last[0]
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "copies the new state into cache: what the caller handed in, often memory.state itself, is overwritten",
    "Leave what you are handed unchanged.",
    "overwrites the cache it was given",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]
