import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share."""

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
        # the weights cost nothing here: they come asked for or not
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right("the cache is one tensor, state and attentional vector side by side")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.cat([memory.state, torch.zeros_like(memory.state)], dim=-1)

    def step(self, token, memory, cache):
        state, fed = cache.chunk(2, dim=-1)
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        vector = self.attentional_proj(torch.cat([context, states], -1)).tanh()
        return self.head(vector), weights, torch.cat([last[0], vector[:, 0]], -1)


@right("the cache is a dictionary, made new in each step")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return {"state": memory.state, "fed": memory.state.new_zeros(memory.state.shape)}

    def step(self, token, memory, cache):
        x = self.embedding(token).squeeze(1)
        inputs = torch.cat([x, cache["fed"]], dim=1).unsqueeze(1)
        _, last = self.rnn(inputs, cache["state"].unsqueeze(0))
        ask = last.transpose(0, 1)
        weights = masked_softmax(self.score(ask, memory.key), memory.mask)
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, ask], dim=2)))
        return self.head(fed), weights, dict(cache, state=last[0], fed=fed[:, 0])


@right("the GRU's step by torch.gru_cell, the cache a tuple in the other order")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.zeros_like(memory.state), memory.state

    def step(self, token, memory, cache):
        fed, state = cache
        state = torch.gru_cell(
            torch.cat([self.embedding(token)[:, 0], fed], dim=-1),
            state,
            self.rnn.weight_ih_l0,
            self.rnn.weight_hh_l0,
            self.rnn.bias_ih_l0,
            self.rnn.bias_hh_l0,
        )
        scores = self.score(state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context[:, 0], state], -1)))
        return self.head(fed)[:, None], weights, (fed, state)


@right("the cache keeps the whole history of both, newest at the end")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return ((memory.state, memory.state.detach().mul(0).nan_to_num(0)),)

    def step(self, token, memory, cache):
        state, fed = cache[-1]
        inputs = torch.cat([self.embedding(token), fed.unsqueeze(1)], dim=-1)
        states, last = self.rnn(inputs, state.unsqueeze(0))
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        fed = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(fed), weights, cache + ((last.squeeze(0), fed.squeeze(1)),)


@wrong(
    "the first attentional vector is the first state instead of zeros: every number is wrong from the first step on",
    "Before the first step, the attentional vector consists of zeros.",
    "first attentional vector is not zero",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "concatenates [h~; y]: no shape complains, but the GRU reads both with the wrong weights",
    "h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0.",
    "attentional vector before the embedding",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "hands on the attentional vector that it was given: the zeros stay zeros, and no step knows what was looked at; the first step is right",
    "The remedy: concatenate the last attentional vector to the next input,",
    "old attentional vector goes into the cache",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], fed)


@wrong(
    "the zeros are float32 on the processor: a model in half precision (float16, bfloat16), or on another device, raises in the first step; in a double model the vector in the first cache is float32",
    "It has the same width, dtype and device as the state.",
    "zeros of the default dtype and device",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last[0], fed)


@wrong(
    "the cache is a list whose entries are replaced: a second token that goes on from the same cache finds the state after the first",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "changes the cache in place",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        inputs = torch.cat([self.embedding(token), cache[1]], dim=-1)
        states, last = self.rnn(inputs, cache[0][None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        cache[0] = last[0]
        cache[1] = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(cache[1]), weights, cache


@wrong(
    "squeezes the last state: for a single sentence the next step gets a state (D,) and raises",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "squeeze removes the axis of one sentence",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        states, last = self.rnn(inputs, state.unsqueeze(0))
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(fed), weights, (last.squeeze(), fed)


@wrong(
    "the attentional vector stays on self, and only the state is in the cache: right if the steps follow one another, wrong if a search goes back to an earlier cache or two memories take turns",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "attentional vector kept on self",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        inputs = torch.cat([self.embedding(token), self.fed], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        joined = torch.cat([context, states], dim=-1)
        self.fed = torch.tanh(self.attentional_proj(joined))
        return self.head(self.fed), weights, last[0]


@wrong(
    "hands on the vector before its tanh and applies tanh for the head only: the first step is right, all later ones are not",
    "The remedy: concatenate the last attentional vector to the next input,",
    "feeds the vector before its tanh",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(vector.tanh()), weights, (last[0], vector)


@wrong(
    "writes the new attentional vector into the tensor of the old one: the returned cache is a new tuple, but the vector in the cache that came in has changed, so a second token from it is wrong (and backward raises)",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "overwrites the tensor inside the cache",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

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
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, (last[0], fed.copy_(vector.detach()))


@wrong(
    "collects the weights of all steps on self, to draw them later: the numbers are right, but the decoder keeps every step ever made, with its graph, and after a step in training copy.deepcopy(model) raises",
    "A search may continue from the same cache with several different tokens, so `step` does not change the cache that it gets, and keeps nothing on `self`.",
    "keeps the weights of all steps on self",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as a part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        self.drawn = []
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed], dim=-1)
        states, last = self.rnn(inputs, state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        fed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        self.drawn.append(weights)
        return self.head(fed), weights, (last[0], fed)
