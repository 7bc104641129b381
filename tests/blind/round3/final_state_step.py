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
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)


@right("the equations of the GRU by hand, token by token; a softmax over one slot")
class ByHand(Given):
    def step(self, token, memory, cache):
        r = self.rnn
        h, states = cache, []
        x = F.linear(self.embedding(token), r.weight_ih_l0, r.bias_ih_l0)
        for x_t in x.unbind(1):
            a, b, c = x_t.chunk(3, dim=-1)
            p, q, s = F.linear(h, r.weight_hh_l0, r.bias_hh_l0).chunk(3, dim=-1)
            update = torch.sigmoid(b + q)
            h = (1 - update) * torch.tanh(c + torch.sigmoid(a + p) * s) + update * h
            states.append(h)
        states = torch.stack(states, 1)
        weights = torch.zeros_like(states[..., :1]).softmax(-1)
        return self.head(states), weights, h


@right("one token after the other through nn.GRU, and the head once at the end")
class OneByOne(Given):
    def step(self, token, memory, cache):
        state = cache.unsqueeze(0)
        outs = []
        for t in range(token.shape[1]):
            out, state = self.rnn(self.embedding(token[:, t : t + 1]), state)
            outs.append(out)
        states = torch.hstack(outs)
        return (
            self.head(states),
            states.new_full((*token.shape, 1), 1.0),
            state.squeeze(0),
        )


@right("sentence by sentence, without a batch axis")
class Unbatched(Given):
    def step(self, token, memory, cache):
        pairs = [
            self.rnn(self.embedding(ids), state[None].contiguous())
            for ids, state in zip(token, cache)
        ]
        states = torch.stack([s for s, _ in pairs])
        last = torch.cat([end for _, end in pairs])
        logits = torch.einsum("btd,vd->btv", states, self.head.weight)
        return (
            logits + self.head.bias,
            torch.ones_like(states.narrow(-1, 0, 1)),
            last,
        )


@right("weights from the memory's mask, spread over the tokens; the last state is cut"
       " out of all states")
class FromMask(Given):
    def step(self, token, memory, cache):
        states = self.rnn(self.embedding(token), cache[None].contiguous())[0]
        ones = memory.mask.expand(-1, token.size(1), -1).to(states)
        return self.head(states), ones, states[:, -1].clone()


@wrong(
    "starts every call from the memory's state",
    breaks="What `step` is handed as `cache` is the state before the first of its"
    " tokens",
    name="starts from the first state every time",
    subtle=True,
)
class FromMemory(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "keeps the running state on self and begins anew only when the memory is another",
    breaks="A step depends only on what it is handed: the decoder may have remembered"
    " other sources in between.",
    name="state kept on self",
    subtle=True,
)
class OnSelf(Given):
    def remember(self, encoded):
        memory = super().remember(encoded)
        self.state = memory.state
        return memory

    def step(self, token, memory, cache):
        state = getattr(self, "state", cache)
        if state.shape != cache.shape:
            state = cache
        states, last = self.rnn(self.embedding(token), state[None])
        self.state = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "runs the tokens in a loop, each from the state that was handed in",
    breaks="h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1})",
    name="the state does not move on within a call",
    subtle=True,
)
class SameState(Given):
    def step(self, token, memory, cache):
        pieces = [
            self.rnn(self.embedding(one), cache[None]) for one in token.split(1, dim=1)
        ]
        states = torch.cat([s for s, _ in pieces], dim=1)
        return self.head(states), states.new_ones(*token.shape, 1), pieces[-1][1][0]


@wrong(
    "hands on the state after the first of the tokens",
    breaks="the last that it returns is the state after the last of them",
    name="states[:, 0] for the last state",
    subtle=True,
)
class FirstState(Given):
    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]


@wrong(
    "the weights are shared out over the tokens, and sum to one over them",
    breaks="Here there is one slot and nothing to choose. Its weight is one",
    name="softmax over the tokens, not over the slots",
    subtle=True,
)
class WeightsOverTokens(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = torch.zeros_like(states[..., :1]).softmax(dim=1)
        return self.head(states), weights, last[0]


@wrong(
    "torch.ones on the right device, in the dtype that is the default",
    breaks="Its weight is one, in the dtype and on the device of the states.",
    name="torch.ones in float32",
    subtle=True,
)
class WeightsFloat32(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = torch.ones(*token.shape, 1, device=token.device)
        return self.head(states), weights, last[0]


@wrong(
    "writes the new state into the cache and returns that",
    breaks="Leave what you are handed unchanged.",
    name="cache overwritten in place",
    subtle=True,
)
class CacheInPlace(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        with torch.no_grad():
            cache.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), cache


@wrong(
    "squeezes the layer's axis off, and every other axis of length one",
    breaks="Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,"
    " D).",
    name="squeeze without an axis",
    subtle=True,
)
class Squeeze(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last.squeeze()


@wrong(
    "returns probabilities",
    breaks="\\mathrm{logits}_t = \\mathrm{head}(h_t)",
    name="softmax on the logits",
)
class Probabilities(Given):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        probabilities = self.head(states).softmax(dim=-1)
        return probabilities, states.new_ones(*token.shape, 1), last[0]


@wrong(
    "predicts from the last state only: one position of logits for T tokens",
    breaks="It takes T tokens at once; when the model answers by itself, T is 1.",
    name="one position of logits",
    subtle=True,
)
class LastOnly(Given):
    def step(self, token, memory, cache):
        _, last = self.rnn(self.embedding(token), cache[None])
        logits = self.head(last[0])[:, None]
        return logits, logits.new_ones(token.size(0), 1, 1), last[0]
