from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

GRU = r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0."
FEED = "Input feeding solves this problem: concatenate the last attentional vector to the next input."
ZEROS = "Before the first step, the attentional vector consists of zeros."
SAME = "Give it the same width, dtype and device as the state."
NEEDS = "`start` and `step` must put into it the two things that the next step needs."
SEARCH = "A search may continue from the same cache with several different tokens."
STORE = "So `step` must not change the cache that it gets, and must not store anything on `self` or on its parts."
GRADIENTS = "Gradients must be right, too."

Fed = namedtuple("Fed", ["state", "vector"])


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


@right("a dict as cache, new for each step, with both vectors in the shape of the GRU")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        state = memory.state.unsqueeze(0).contiguous()
        return {"state": state, "fed": torch.zeros_like(state)}

    def step(self, token, memory, cache):
        fed = cache["fed"].transpose(0, 1)
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, cache["state"])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        following = {"state": last, "fed": attentional.transpose(0, 1)}
        return self.head(attentional), weights, following


@right("both vectors side by side in one tensor")
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
        inputs = torch.cat([self.embedding(token)[:, 0], fed], dim=-1)
        output, last = self.rnn(inputs.unsqueeze(1), state.unsqueeze(0).contiguous())
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        following = torch.cat([last[0], attentional[:, 0]], dim=-1)
        return self.head(attentional), weights, following


@right("the functional GRU cell, and explicit products")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return Fed(memory.state, memory.state.new_zeros(memory.state.shape))

    def step(self, token, memory, cache):
        rnn = self.rnn
        state = torch.gru_cell(
            torch.hstack([self.embedding(token[:, 0]), cache.vector]),
            cache.state,
            rnn.weight_ih_l0,
            rnn.weight_hh_l0,
            rnn.bias_ih_l0,
            rnn.bias_hh_l0,
        )
        weights = masked_softmax(
            self.score(state.unsqueeze(1), memory.key), memory.mask
        )
        context = (weights.mT * memory.value).sum(dim=1)
        vector = self.attentional_proj(torch.hstack([context, state])).tanh()
        return self.head(vector).unsqueeze(1), weights, Fed(state, vector)


@right("the cache has the vector first, one pair for each sentence")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [(torch.zeros_like(one), one) for one in memory.state.unbind()]

    def step(self, token, memory, cache):
        fed = torch.stack([vector for vector, _ in cache])
        state = torch.stack([old for _, old in cache])
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        following = list(zip(attentional[:, 0].unbind(), last[0].unbind()))
        return self.head(attentional), weights, following


@wrong(
    "feeds the state to the next step",
    breaks=FEED,
    name="the state h instead of the attentional vector is fed",
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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], output)


@wrong(
    "puts the attentional vector before the embedding",
    breaks=GRU,
    name="the wrong order in the input of the GRU",
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
        inputs = torch.cat([fed, self.embedding(token)], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "hands the vector of zeros on to every next step",
    breaks=NEEDS,
    name="the attentional vector in the cache is never replaced",
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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], fed)


@wrong(
    "begins with the state as attentional vector",
    breaks=ZEROS,
    name="the first attentional vector is not zero",
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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "feeds the product with W_c before its tanh",
    breaks=FEED,
    name="the fed vector lacks the tanh",
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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        mapped = self.attentional_proj(torch.cat([context, output], dim=-1))
        return self.head(torch.tanh(mapped)), weights, (last[0], mapped)


@wrong(
    "writes the new vectors into the list that it got",
    breaks=SEARCH,
    name="the cache is a list that every step changes",
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
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        cache[0], cache[1] = last[0], attentional
        return self.head(attentional), weights, cache


@wrong(
    "passes only the state on and keeps the attentional vector on self",
    breaks=STORE,
    name="the attentional vector is stored on the decoder",
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
        state, fed = cache, self.fed
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        self.fed = attentional
        return self.head(attentional), weights, last[0]


@wrong(
    "leaves its weights on the score, for a heat map later",
    breaks=STORE,
    name="the weights are stored on a part of the decoder",
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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        self.score.last_weights = weights.detach()
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], attentional)


@wrong(
    "detaches the attentional vector that it passes on",
    breaks=GRADIENTS,
    name="no gradient from a step into the step before it through the fed vector",
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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], attentional.detach())


@wrong(
    "creates the zeros in float32 and converts them when they are used",
    breaks=SAME,
    name="the zeros have the default dtype, whatever the state has",
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
        inputs = torch.cat([self.embedding(token), fed.to(state.dtype)], dim=-1)
        output, last = self.rnn(inputs, state[None])
        context, weights = attend(
            self.score(output, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, output], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, (last[0], attentional)
