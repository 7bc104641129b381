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
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)


@right("one token after the other through the same GRU")
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        logits = []
        for t in range(token.size(1)):
            x = self.embedding(token[:, t : t + 1])
            _, cache = self.rnn(x, cache.unsqueeze(0))
            cache = cache.squeeze(0)
            logits.append(self.head(cache))
        weights = torch.ones_like(token, dtype=cache.dtype)[..., None]
        return torch.stack(logits, dim=1), weights, cache


@right("the GRU's equations by hand")
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        g, h, seen = self.rnn, cache, []
        inputs = self.embedding(token) @ g.weight_ih_l0.mT + g.bias_ih_l0
        for i in inputs.unbind(1):
            ir, iz, i_n = i.chunk(3, dim=-1)
            hr, hz, hn = (h @ g.weight_hh_l0.mT + g.bias_hh_l0).chunk(3, dim=-1)
            z = torch.sigmoid(iz + hz)
            h = torch.lerp(torch.tanh(i_n + torch.sigmoid(ir + hr) * hn), h, z)
            seen.append(h)
        states = torch.stack(seen, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h


@right("softmax over the one slot, and the last column of the states as the next cache")
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        first = cache[None].contiguous()
        states = self.rnn(self.embedding(token), first)[0]
        weights = states[:, :, :1].detach().mul(0).softmax(dim=-1)
        return self.head(states), weights, states[:, -1]


@right("time first: a functional call with the axes exchanged before and after")
class FinalStateDecoder(Given):
    def step(self, token, memory, cache, *, slots=1):
        inputs = torch.nn.functional.embedding(token, self.embedding.weight)
        states, last = self.rnn(inputs, torch.stack([cache]))
        logits = torch.nn.functional.linear(states, self.head.weight, self.head.bias)
        weights = states.new_full((*token.shape, slots), 1.0)
        return logits, weights, last[-1]


@wrong(
    "starts every call from memory.state: right for the first token or a whole target, wrong for a later step",
    "`step` takes the state before the first of its tokens as `cache`, and the last thing that it returns is the state after the last of its tokens.",
    "cache ignored",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns the last state with the axis of the layers, (1, B, D)",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    "axis of the layers kept",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        if cache.dim() == 2:
            cache = cache[None]
        states, last = self.rnn(self.embedding(token), cache)
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong(
    "returns probabilities in place of logits",
    r"h_t = \mathrm{GRU}(y_{t-1},\, h_{t-1}), \qquad \mathrm{logits}_t = \mathrm{head}(h_t)",
    "softmax over the logits",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        logits = self.head(states).softmax(dim=-1)
        return logits, states.new_ones(*token.shape, 1), last[0]


@wrong(
    "weights for one step only, (B, 1, 1): right for T = 1",
    "The second thing that `step` returns are the weights over the slots of the memory, (B, T, slots).",
    "weights for a single token",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong(
    "torch.ones without dtype and device: float32 on the CPU, wrong for a model in float64 or bfloat16 or on a GPU",
    "Its weight is one, in the dtype and on the device of the states.",
    "weights of default dtype and device",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong(
    "writes the new state into the cache that it was given: the caller's first state (memory.state) is changed, a second call starts elsewhere",
    "Do not change the inputs that your code is given.",
    "cache overwritten in place",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        with torch.no_grad():
            cache.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "squeezes the last state: (D,) for one sentence",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    "squeeze drops axes of length one",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last.squeeze()


@wrong(
    "keeps the state in the decoder and sets it back in remember: right as long as one source is written at a time, wrong when two memories are in use or a cache is used twice",
    "A step depends only on its arguments: the decoder may have remembered other sources in between.",
    "state kept inside the decoder",
)
class FinalStateDecoder(Given):
    kept = None

    def remember(self, encoded):
        self.kept = None
        return super().remember(encoded)

    def step(self, token, memory, cache):
        if self.kept is None or self.kept.shape != cache.shape:
            self.kept = cache
        states, last = self.rnn(self.embedding(token), self.kept[None])
        self.kept = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), self.kept


@wrong(
    "each of the T tokens is read from the same first state: right for T = 1, wrong for a whole target",
    r"h_t = \mathrm{GRU}(y_{t-1},\, h_{t-1}), \qquad \mathrm{logits}_t = \mathrm{head}(h_t)",
    "tokens do not follow one another",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        B, T = token.shape
        flat = self.embedding(token).reshape(B * T, 1, -1)
        first = cache.repeat_interleave(T, dim=0)[None].contiguous()
        states, _ = self.rnn(flat, first)
        states = states.view(B, T, -1)
        return self.head(states), states.new_ones(B, T, 1), states[:, -1]


@wrong(
    "a cache of zeros is taken for no cache and replaced by the memory's state: wrong for a cache that is really zero",
    "`step` takes the state before the first of its tokens as `cache`, and the last thing that it returns is the state after the last of its tokens.",
    "zero state taken for missing",
)
class FinalStateDecoder(Given):
    def step(self, token, memory, cache):
        if not cache.any():
            cache = memory.state
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
