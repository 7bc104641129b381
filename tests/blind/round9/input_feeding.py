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
        # the weights cost nothing here, so they are always returned
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right("the cache is one tensor (B, 2, D)")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.stack([memory.state, torch.zeros_like(memory.state)], dim=1)

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), cache[:, 1:]], dim=-1)
        states, last = self.rnn(inputs, cache[:, 0][None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, torch.cat([last.transpose(0, 1), tilde], dim=1)


@right("the cache is a dictionary, made anew in every step")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        h = memory.state
        return {"state": h, "tilde": h.new_zeros(h.shape)}

    def step(self, token, memory, cache):
        y = self.embedding(token)[:, 0]
        inputs = torch.cat([y, cache["tilde"]], dim=1).unsqueeze(1)
        out, _ = self.rnn(inputs, cache["state"].unsqueeze(0))
        alpha = masked_softmax(self.score(out, memory.key), memory.mask)
        c = torch.bmm(alpha, memory.value)
        tilde = self.attentional_proj(torch.cat([c, out], dim=2)).tanh()
        new = dict(cache, state=out[:, 0], tilde=tilde[:, 0])
        return self.head(tilde), alpha, new


@right("torch.gru_cell instead of the GRU module, the cache has the attentional vector first")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        zeros = memory.state.new_zeros(memory.state.shape)
        return zeros, memory.state

    def step(self, token, memory, cache):
        fed, h = cache
        rnn = self.rnn
        h = torch.gru_cell(
            torch.hstack([self.embedding(token[:, 0]), fed]),
            h,
            rnn.weight_ih_l0,
            rnn.weight_hh_l0,
            rnn.bias_ih_l0,
            rnn.bias_hh_l0,
        )
        scores = self.score(h[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        joined = torch.cat([context[:, 0], h], dim=-1)
        fed = torch.tanh(self.attentional_proj(joined))
        return self.head(fed)[:, None], weights, (fed, h)


@right("a small class as the cache, layers first as the GRU wants it")
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    class State:
        def __init__(self, hidden, fed):
            self.hidden, self.fed = hidden, fed

    def start(self, memory):
        hidden = memory.state[None].clone()
        return self.State(hidden, torch.full_like(hidden, 0.0).transpose(0, 1))

    def step(self, token, memory, cache):
        y = self.embedding(token)
        h, hidden = self.rnn(torch.cat((y, cache.fed), 2), cache.hidden)
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        fed = F.linear(torch.cat((context, h), 2), self.attentional_proj.weight).tanh()
        return self.head(fed), weights, self.State(hidden, fed)


@wrong(
    "The new state h_t is fed back instead of the attentional vector (same width); wrong from the second step on.",
    "concatenate the last attentional vector to the next input.",
    "feeds the state instead of the attentional vector",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(vector), weights, (last[0], h[:, 0])


@wrong(
    "The input is [h~; y] instead of [y; h~]; the widths add up, every number differs.",
    'h_t = \\mathrm{GRU}([y_{t-1}; \\tilde{h}_{t-1}],\\, h_{t-1}), \\qquad \\tilde{h}_0 = 0.',
    "concatenates the input in the wrong order",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([fed[:, None], self.embedding(token)], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "The first attentional vector is the first state instead of zeros.",
    "Before the first step, the attentional vector consists of zeros.",
    "starts the attentional vector with the state",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, memory.state

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "The zeros are float32 on the CPU: a bfloat16 model gets a float32 input in the first step (dtype error), a model on a GPU a tensor on the CPU.",
    "Give it the same width, dtype and device as the state.",
    "zeros with the default dtype and device",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros(memory.state.shape)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "The cache is a list whose entries are replaced in every step: a second step from the same cache starts from the wrong state; a plain loop over a target is right.",
    "So `step` must not change the cache that it gets, and must not store anything on `self`.",
    "replaces the entries of the cache",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [memory.state, torch.zeros_like(memory.state)]

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), cache[1][:, None]], dim=-1)
        h, last = self.rnn(inputs, cache[0][None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        cache[:] = last[0], vector[:, 0]
        return self.head(vector), weights, cache


@wrong(
    "squeeze() on the attentional vector: for one sentence the batch axis is lost and the second step fails (and for D = 1 the last axis).",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze drops the batch axis of one sentence",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(vector), weights, (last.squeeze(), vector.squeeze())


@wrong(
    "The zeros and the state of the cache are overwritten in place when no gradient is needed; as start hands out memory.state itself, the memory changes too: start after a finished search returns the last state. With gradients all is right.",
    "Do not change the inputs.",
    "overwrites the memory's state in place",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        new = last[0], vector[:, 0]
        if not torch.is_grad_enabled():
            new = state.copy_(new[0]), fed.copy_(new[1])
        return self.head(vector), weights, new


@wrong(
    "The attentional vector is left on self and the cache holds only the state: right in a plain loop, wrong when a search goes back to an earlier cache or when two sources take turns.",
    "So `step` must not change the cache that it gets, and must not store anything on `self`.",
    "keeps the attentional vector on self",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

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
        h, last = self.rnn(inputs, cache[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        self.fed = vector
        return self.head(vector), weights, last[0]


@wrong(
    "What is fed is the attentional vector before its tanh: in the first step and for small numbers hardly to be seen, wrong from the second step on.",
    '\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)',
    "feeds the vector before its tanh",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, h], dim=-1))
        return self.head(vector.tanh()), weights, (last[0], vector[:, 0])


@wrong(
    "The attentional vector is accumulated: the sum of all earlier ones is fed. Equal to the last one in the first and the second step, wrong from the third on.",
    "concatenate the last attentional vector to the next input.",
    "feeds the sum of all attentional vectors",
)
class InputFeedingDecoder(Decoder):
    """Luong's order, with the last attentional vector as part of the next input."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        inputs = torch.cat([self.embedding(token), fed[:, None]], dim=-1)
        h, last = self.rnn(inputs, state[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
        return self.head(vector), weights, (last[0], fed + vector[:, 0])
