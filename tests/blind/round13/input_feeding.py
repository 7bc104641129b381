from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.rnn import RNNEncoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder, Memory

from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share (given in the notebook)."""

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


class History(NamedTuple):
    """The cache of one of the right answers: all steps so far, the last one last."""

    states: torch.Tensor  # (B, 1 + steps, D)
    attentionals: torch.Tensor  # (B, 1 + steps, D)
    steps: int


@right("the cache is a dictionary; attention in float64")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        state = memory.state
        return {"h": state, "h~": state.new_zeros(state.shape)}

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache["h~"].unsqueeze(1)], dim=2)
        query, last = self.rnn(x, cache["h"].unsqueeze(0))
        scores = self.score(query, memory.key)
        precise = masked_softmax(scores.double(), memory.mask)
        context = (precise @ memory.value.double()).to(query.dtype)
        read = torch.cat([context, query], dim=2)
        attentional = self.attentional_proj(read).tanh()
        new = {"h": last.squeeze(0), "h~": attentional.squeeze(1)}
        return self.head(attentional), precise.to(scores.dtype), new


@right("the cache is one tensor (B, 2 D)")
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
        x = torch.cat([self.embedding(token[:, 0]), fed], dim=-1)
        states, last = self.rnn(x[:, None], state[None].contiguous())
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        state = last[0]
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context[:, 0], state], dim=-1))
        )
        logits = self.head(attentional)[:, None]
        return logits, weights, torch.cat([state, attentional], dim=-1)


@right("the cache is the whole history in a named tuple, with a counter")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        first = memory.state.unsqueeze(1)
        return History(first, torch.zeros_like(first), 0)

    def step(self, token, memory, cache):
        fed = cache.attentionals[:, -1:]
        x = torch.cat([self.embedding(token), fed], dim=-1)
        query, _ = self.rnn(x, cache.states[:, -1].contiguous()[None])
        scores = self.score(query, memory.key)
        lowest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~memory.mask, lowest).softmax(-1) * memory.mask
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        history = History(
            torch.cat([cache.states, query], dim=1),
            torch.cat([cache.attentionals, attentional], dim=1),
            cache.steps + 1,
        )
        return self.head(attentional), weights, history


@right("the GRU by hand, its input matrix in two parts; the cache is a new list")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [memory.state, torch.full_like(memory.state, 0)]

    def update(self, embedded, fed, h):
        of_token, of_fed = self.rnn.weight_ih_l0.split(
            [embedded.size(-1), fed.size(-1)], dim=1
        )
        x = embedded @ of_token.T + fed @ of_fed.T + self.rnn.bias_ih_l0
        r_x, z_x, n_x = x.chunk(3, dim=-1)
        r_h, z_h, n_h = F.linear(h, self.rnn.weight_hh_l0, self.rnn.bias_hh_l0).chunk(
            3, dim=-1
        )
        z = torch.sigmoid(z_x + z_h)
        return (1 - z) * torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h) + z * h

    def step(self, token, memory, cache):
        state, attentional = cache
        state = self.update(self.embedding(token)[:, 0], attentional, state)
        context, weights = attend(
            self.score(state[:, None], memory.key), memory.value, memory.mask
        )
        both = torch.cat([context.squeeze(1), state], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional).unsqueeze(1), weights, [state, attentional]


@wrong(
    "feeds the state into the next input instead of the attentional vector",
    "Input feeding solves this problem: concatenate the last attentional vector to the"
    " next input.",
    "state fed instead of attentional vector",
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
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], query)


@wrong(
    "puts the attentional vector before the embedding",
    r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad"
    r" \tilde{h}_0 = 0.",
    "wrong order of concatenation",
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
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "the first attentional vector is the first state",
    "Before the first step, the attentional vector consists of zeros.",
    "first attentional vector not zero",
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
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "feeds W_c [c; h] as it is before the tanh; the logits get the tanh",
    "Input feeding solves this problem: concatenate the last attentional vector to the"
    " next input.",
    "fed vector without tanh",
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
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        combined = self.attentional_proj(torch.cat([context, query], dim=-1))
        return self.head(torch.tanh(combined)), weights, (last[0], combined)


@wrong(
    "makes the first zeros with torch.zeros, so they are float32 on the CPU: for"
    " bfloat16 parameters the concatenation is float32, which the GRU refuses",
    "Give it the same width, dtype and device as the state.",
    "default dtype and device of torch.zeros",
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
        batch, width = memory.state.shape
        return memory.state, torch.zeros(batch, 1, width)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "keeps the attentional vector on self and only the state in the cache: right as"
    " long as the steps of one target follow one another",
    "So `step` must not change the cache that it gets, and must not store anything on"
    " `self` or on its parts.",
    "attentional vector on self",
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
        self.attentional = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), self.attentional], dim=-1)
        query, last = self.rnn(x, cache[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        self.attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(self.attentional), weights, last[0]


@wrong(
    "the cache is a list, and the step writes the new state and vector into it: a"
    " second token from the same cache starts from the first token's results",
    "A search may continue from the same cache with several different tokens.",
    "list changed in place",
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
        return [memory.state, torch.zeros_like(memory.state)[:, None]]

    def step(self, token, memory, cache):
        x = torch.cat([self.embedding(token), cache[1]], dim=-1)
        query, last = self.rnn(x, cache[0][None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        cache[0] = last[0]
        cache[1] = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(cache[1]), weights, cache


@wrong(
    "detaches the attentional vector that it feeds: all numbers are right, but later"
    " steps send no gradient through it",
    "Gradients must be right, too.",
    "fed vector detached",
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
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional.detach())


@wrong(
    "records the last weights on the score, to plot them later; all results are right",
    "So `step` must not change the cache that it gets, and must not store anything on"
    " `self` or on its parts.",
    "stores something on a part",
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
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        self.score.last_weights = weights.detach()  # for the heat map
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "start keeps the zeros of its first call: a later batch of another size (or dtype)"
    " gets zeros that do not fit",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "zeros kept from the first call",
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
        if not hasattr(self, "zeros"):
            self.zeros = torch.zeros_like(memory.state)[:, None]
        return memory.state, self.zeros

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat([self.embedding(token), fed], dim=-1)
        query, last = self.rnn(x, state[None])
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, query], dim=-1))
        )
        return self.head(attentional), weights, (last[0], attentional)
