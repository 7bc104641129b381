import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory

from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share (given by the notebook)."""

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
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right("the cache is a dict, a new one after each step")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return {"state": memory.state, "fed": torch.zeros_like(memory.state)}

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache["fed"].unsqueeze(1)], dim=2)
        h, last = self.rnn(x, cache["state"].unsqueeze(0))
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = self.attentional_proj(torch.cat([c, h], dim=2)).tanh()
        return self.head(tilde), weights, {"state": last[0], "fed": tilde[:, 0]}


@right("the cache is one tensor (B, 2 D): the state and the attentional vector side by side")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return F.pad(memory.state, (0, memory.state.size(-1)))

    def step(self, token, memory, cache):
        state, fed = cache.chunk(2, dim=-1)
        x = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, _ = self.rnn(x, state[None].contiguous())
        scores = self.score(h, memory.key)
        weights = scores.masked_fill(~memory.mask, -math.inf).softmax(dim=-1)
        both = torch.cat([weights @ memory.value, h], dim=-1)
        tilde = torch.tanh(self.attentional_proj(both))
        return self.head(tilde), weights, torch.cat([h, tilde], dim=-1)[:, 0]


@right("the cache has the attentional vector first and the state in the GRU's own shape (1, B, D); zeros by multiplication")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return (0 * memory.state)[:, None], memory.state[None]

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache[0]], dim=-1)
        h, state = self.rnn(x, cache[1])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        matrix, width = self.attentional_proj.weight, context.size(-1)
        tilde = torch.tanh(
            F.linear(context, matrix[:, :width]) + F.linear(h, matrix[:, width:])
        )
        return self.head(tilde), weights, (tilde, state)


@right("the GRU as torch.gru_cell, most of it in float64, and cast back")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, memory.state.new_zeros(memory.state.shape)

    def _wide(self, *tensors):
        return [x.to(torch.float64) for x in tensors]

    def step(self, token, memory, cache):
        kind = cache[0].dtype
        state, fed, embedded = self._wide(*cache, self.embedding(token)[:, 0])
        parameters = self._wide(
            self.rnn.weight_ih_l0,
            self.rnn.weight_hh_l0,
            self.rnn.bias_ih_l0,
            self.rnn.bias_hh_l0,
        )
        state = torch.gru_cell(torch.cat([embedded, fed], dim=1), state, *parameters)
        scores, value = self._wide(
            self.score(state.to(kind)[:, None], memory.key), memory.value
        )
        weights = masked_softmax(scores, memory.mask)
        context = torch.einsum("bts,bse->be", weights, value)
        matrix, head, bias = self._wide(
            self.attentional_proj.weight, self.head.weight, self.head.bias
        )
        tilde = torch.tanh(torch.cat([context, state], dim=1) @ matrix.T)
        logits = (tilde @ head.T + bias)[:, None]
        return logits.to(kind), weights.to(kind), (state.to(kind), tilde.to(kind))


@wrong(
    "feeds the last state h instead of the last attentional vector",
    "Input feeding solves this problem: concatenate the last attentional vector to the next input.",
    "the state is fed instead of the attentional vector",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], h)


@wrong(
    "concatenates the attentional vector before the embedding",
    r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0.",
    "the two inputs of the GRU are swapped",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([fed, self.embedding(token)], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], tilde)


@wrong(
    "starts with the first state in place of the attentional vector",
    "Before the first step, the attentional vector consists of zeros.",
    "the first attentional vector is not zero",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, memory.state[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], tilde)


@wrong(
    "passes on the old attentional vector, so that zeros are fed at every step",
    "`start` and `step` must put into it the two things that the next step needs.",
    "the attentional vector is never updated",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], fed)


@wrong(
    "makes the first attentional vector in torch's default dtype, on the right device: a bfloat16 model raises an error in the GRU",
    "Give it the same width, dtype and device as the state.",
    "zeros of the default dtype",
    subtle=True,
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        number, width = memory.state.shape
        return memory.state, torch.zeros(number, 1, width, device=memory.state.device)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], tilde)


@wrong(
    "makes the first attentional vector of the right dtype, but always on the CPU",
    "Give it the same width, dtype and device as the state.",
    "zeros on the CPU",
    subtle=True,
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        number, width = memory.state.shape
        return memory.state, torch.zeros(number, 1, width, dtype=memory.state.dtype)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], tilde)


@wrong(
    "keeps the attentional vector on self and only the state in the cache: right as long as the steps come in order, wrong when a search goes on from an earlier cache",
    "So `step` must not change the cache that it gets, and must not store anything on `self`.",
    "the attentional vector is kept on self",
    subtle=True,
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        self.fed = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), self.fed], dim=-1)
        h, last = self.rnn(x, cache[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        self.fed = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(self.fed), weights, last[0]


@wrong(
    "the cache is a dict that step overwrites and returns: a second step from the same cache starts from the state after the first",
    "A search may continue from the same cache with several different tokens.",
    "overwrites the cache",
    subtle=True,
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return {"state": memory.state, "fed": torch.zeros_like(memory.state)[:, None]}

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache["fed"]], dim=-1)
        h, last = self.rnn(x, cache["state"][None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        cache["state"], cache["fed"] = last[0], tilde
        return self.head(tilde), weights, cache


@wrong(
    "detaches the attentional vector in the cache: values are right, but no gradient flows back through the fed vector",
    "Gradients must be right, too.",
    "the fed vector is detached",
    subtle=True,
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last[0], tilde.detach())


@wrong(
    "squeeze() without an axis on the state: with a batch of one sentence, the second step raises an error",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes the batch axis of length one",
    subtle=True,
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        h, last = self.rnn(x, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(tilde), weights, (last.squeeze(), tilde)
