import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong

FORMULA = (
    "h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1}), \\qquad \\mathrm{logits}_t ="
    " \\mathrm{head}(h_t)"
)
ONE = "When the model generates a target by itself, T is 1."
CACHE = "The state before the first token comes in as `cache`."
RETURN = "Return the logits, the weights, and the state after the last token."
ARGUMENTS = (
    "Take the source and the state from the arguments of `step`, not from anything that"
    " an earlier call has stored: the decoder may have remembered other sources in the"
    " meantime."
)
DTYPE = "Give the weights the dtype and the device of the states."
SHAPES = (
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D)."
)
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."


class Base(nn.Module):
    """The decoder of section 3."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

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


class WithGRU(Base):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)


@right("reads token by token in a loop")
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        logits = []
        for column in token.split(1, dim=1):
            states, last = self.rnn(self.embedding(column), cache.unsqueeze(0))
            cache = last.squeeze(0)
            logits.append(self.head(states))
        logits = torch.cat(logits, dim=1)
        ones = torch.ones_like(cache[:, :1]).detach()
        return logits, ones[:, None].repeat(1, token.size(1), 1), cache


@right("gets its weights from a softmax over the one slot")
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = states @ cache[:, :, None]
        return self.head(states), scores.softmax(dim=-1), states[:, -1]


@right("computes the equations of the GRU from its weights")
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        gru, h, states = self.rnn, cache, []
        for ids in token.unbind(1):
            x = F.linear(self.embedding(ids), gru.weight_ih_l0, gru.bias_ih_l0)
            y = F.linear(h, gru.weight_hh_l0, gru.bias_hh_l0)
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), y.chunk(3, -1)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1)
        weights = torch.full_like(states[..., :1], 1.0).detach()
        return self.head(states), weights, h


@right("decodes each sentence alone, without an axis for the batch")
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        logits, lasts = [], []
        for ids, state in zip(token, cache):
            states, last = self.rnn(self.embedding(ids), state[None])
            logits.append(self.head(states))
            lasts.append(last[0])
        weights = cache.new_ones(1, 1, 1).expand(*token.shape, 1)
        return torch.stack(logits), weights, torch.stack(lasts)


@wrong(
    "always begins with the first state from the memory",
    breaks=CACHE,
    name="memory.state instead of cache",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0]


@wrong(
    "returns the last state with the axis of the layers, and accepts it like this",
    breaks=SHAPES,
    name="the state keeps the axis of the layers",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        first = cache if cache.dim() == 3 else cache[None]
        states, last = self.rnn(self.embedding(token), first)
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last


@wrong(
    "returns the state after the first token, which is the last one only if T is 1",
    breaks=RETURN,
    name="the state after the first token",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, states[:, 0]


@wrong(
    "returns the log probabilities, which train equally well",
    breaks=FORMULA,
    name="log_softmax instead of logits",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states).log_softmax(-1), weights, last[0]


@wrong(
    "takes a call with several tokens for the beginning of a target",
    breaks=CACHE,
    name="cache is ignored if T is above 1",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        first = cache if token.size(1) == 1 else memory.state
        states, last = self.rnn(self.embedding(token), first[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0]


@wrong(
    "makes the weights from the mask with float(), so they are always float32",
    breaks=DTYPE,
    name="weights in float32",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = memory.mask.float().expand(-1, token.size(1), -1)
        return self.head(states), weights, last[0]


@wrong(
    "detaches the state that it returns",
    breaks=GRADIENTS,
    name="no gradient from one step to the step before",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0].detach()


@wrong(
    "writes the new state into cache if no gradients are needed, to save memory",
    breaks=INPUTS,
    name="cache is overwritten while generating",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        last = last[0]
        if not torch.is_grad_enabled():
            last = cache.copy_(last)
        return self.head(states), weights, last


@wrong(
    "squeezes the axis of the tokens away before the head if it has length one",
    breaks=ONE,
    name="logits (B, V) if T is 1",
)
class FinalStateDecoder(WithGRU):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_ones(*token.shape, 1)
        return self.head(states.squeeze(1)), weights, last[0]


@wrong(
    "keeps the last state in the decoder, and prefers it if the batch has its size",
    breaks=ARGUMENTS,
    name="the state is kept in the decoder",
)
class FinalStateDecoder(WithGRU):
    last = None

    def start(self, memory):
        self.last = None
        return memory.state

    def step(self, token, memory, cache):
        first = cache
        if self.last is not None and self.last.shape == cache.shape:
            first = self.last
        states, last = self.rnn(self.embedding(token), first[None])
        self.last = last[0]
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, last[0]
