import torch
import torch.nn.functional as F
from typing import NamedTuple
from torch import nn
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
GRAD = "Gradients must be right, too."
ZEROS = "Before the first step, the attentional vector consists of zeros."
SAME = "Give it the same width, dtype and device as the state."
NOT_CHANGE = "So `step` must not change the cache that it gets, and must not store anything on `self` or on its parts."
CONCAT = "Input feeding solves this problem: concatenate the last attentional vector to the next input."
FORMULA = r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0."
SEVERAL = "A search may continue from the same cache with several different tokens."


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def remember(self, encoded):
        key = self.score.project_keys(encoded.states)
        return Memory(
            key,
            encoded.states,
            encoded.mask,
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


class Given(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)


class Plain(Given):
    """The solution that most students find; the wrong answers below change a line of it."""

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(x, state[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@right("the cache is one tensor (2, B, D)")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return torch.stack([memory.state, memory.state.new_zeros(memory.state.shape)])

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache[1].unsqueeze(1)], dim=-1)
        states, _ = self.rnn(x, cache[:1].contiguous())
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = self.attentional_proj(torch.cat([c, states], dim=-1)).tanh()
        return self.head(fed), weights, torch.stack([states[:, 0], fed[:, 0]])


@right("the cache is a dictionary; the GRU is written out with its parameters")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return {"state": memory.state, "fed": memory.state.detach() * 0}

    def step(self, token, memory, cache):
        h, rnn = cache["state"], self.rnn
        x = torch.cat([self.embedding(token)[:, 0], cache["fed"]], dim=-1)
        xr, xz, xn = F.linear(x, rnn.weight_ih_l0, rnn.bias_ih_l0).chunk(3, dim=-1)
        hr, hz, hn = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, dim=-1)
        z = torch.sigmoid(xz + hz)
        h = torch.lerp(torch.tanh(xn + torch.sigmoid(xr + hr) * hn), h, z)
        c, weights = attend(self.score(h[:, None], memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([c[:, 0], h], dim=-1)))
        return self.head(fed)[:, None], weights, {"state": h, "fed": fed}


class Cache(NamedTuple):
    layer: torch.Tensor
    logits_from: torch.Tensor


@right("a named tuple with the state in the GRU's own shape (1, B, D); masked_softmax and bmm instead of attend")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return Cache(memory.state[None], torch.full_like(memory.state, 0.0)[:, None])

    def step(self, token, memory, cache):
        states, layer = self.rnn(torch.cat((self.embedding(token), cache.logits_from), 2), cache.layer)
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        mixed = torch.cat((torch.bmm(weights, memory.value), states), 2)
        fed = torch.tanh(self.attentional_proj(mixed))
        return self.head(fed), weights, Cache(layer, fed)


@right("caches the context and the state instead of the attentional vector, which the next step computes again from them; before the first step there is no context")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return memory.state, None

    def attentional(self, state, context):
        return torch.tanh(self.attentional_proj(torch.cat([context, state[:, None]], dim=-1)))

    def step(self, token, memory, cache):
        state, context = cache
        fed = torch.zeros_like(state)[:, None] if context is None else self.attentional(state, context)
        states, last = self.rnn(torch.cat([self.embedding(token), fed], dim=-1), state[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        state = last.squeeze(0)
        return self.head(self.attentional(state, context)), weights, (state, context)


@wrong("starts with the memory's state as the attentional vector", breaks=ZEROS, name="state instead of zeros")
class InputFeedingDecoder(Plain):
    def start(self, memory):
        return memory.state, memory.state[:, None]


@wrong("concatenates the attentional vector before the embedding", breaks=FORMULA, name="attentional vector first")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        states, last = self.rnn(torch.cat([fed, self.embedding(token)], dim=-1), state[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong("feeds the state instead of the attentional vector: the first step is right", breaks=CONCAT, name="feeds the state")
class InputFeedingDecoder(Plain):
    def step(self, token, memory, cache):
        logits, weights, (state, _) = super().step(token, memory, cache)
        return logits, weights, (state, state[:, None])


@wrong("keeps the attentional vector on self: two branches of a search, or two sources, share it", breaks=NOT_CHANGE, name="attentional vector on self")
class InputFeedingDecoder(Given):
    def start(self, memory):
        self.fed = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        states, last = self.rnn(torch.cat([self.embedding(token), self.fed], dim=-1), cache[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        self.fed = torch.tanh(self.attentional_proj(torch.cat([c, states], dim=-1)))
        return self.head(self.fed), weights, last[0]


@wrong("keeps the cache in a list and replaces its items, so that the cache it got changes, too", breaks=SEVERAL, name="items of the cache replaced")
class InputFeedingDecoder(Plain):
    def start(self, memory):
        return list(super().start(memory))

    def step(self, token, memory, cache):
        logits, weights, new = super().step(token, memory, cache)
        cache[:] = new
        return logits, weights, cache


@wrong("detaches the attentional vector before it is fed: no gradient passes through input feeding", breaks=GRAD, name="fed vector detached")
class InputFeedingDecoder(Plain):
    def step(self, token, memory, cache):
        logits, weights, (state, fed) = super().step(token, memory, cache)
        return logits, weights, (state, fed.detach())


@wrong("feeds the vector before tanh", breaks=CONCAT, name="fed before tanh")
class InputFeedingDecoder(Given):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        states, last = self.rnn(torch.cat([self.embedding(token), fed], dim=-1), state[None])
        c, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        fed = self.attentional_proj(torch.cat([c, states], dim=-1))
        return self.head(torch.tanh(fed)), weights, (last[0], fed)


@wrong("takes the zeros from the memory's values: their width is E, so it works only if E = D", breaks=SAME, name="zeros of the width of a value")
class InputFeedingDecoder(Plain):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.value[:, :1])


@wrong("creates the zeros with torch.zeros: float32 on the CPU, an error in float64 and bfloat16", breaks=SAME, name="zeros in float32")
class InputFeedingDecoder(Plain):
    def start(self, memory):
        batch, width = memory.state.shape
        return memory.state, torch.zeros(batch, 1, width)


@wrong("under no_grad, copies the new state and the new attentional vector into the tensors of the old cache, which start with the memory's own state", breaks=INPUTS, name="cache tensors overwritten")
class InputFeedingDecoder(Plain):
    def step(self, token, memory, cache):
        logits, weights, new = super().step(token, memory, cache)
        if torch.is_grad_enabled():
            return logits, weights, new
        return logits, weights, tuple(old.copy_(fresh) for old, fresh in zip(cache, new))
