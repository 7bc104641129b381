import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
UPDATE = (
    r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1}), \qquad \tilde{h}_0 = 0."
)
FEED = (
    "Input feeding solves this problem: concatenate the last attentional vector to the"
    " next input."
)
SAME = "Give it the same width, dtype and device as the state."
SEARCH = (
    "So `step` must not change the cache that it gets, and must not store anything on"
    " `self` or on its parts."
)


class Decoder(nn.Module):
    """Given in the notebook."""

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


@right("the cache is one tensor (B, 2 D): the state and the attentional vector")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return F.pad(memory.state, (0, memory.state.shape[-1]))

    def step(self, token, memory, cache):
        state, fed = cache.chunk(2, dim=-1)
        x = torch.cat((self.embedding(token), fed.unsqueeze(1)), dim=-1)
        h, last = self.rnn(x, state.unsqueeze(0).contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        cache = torch.cat((last.squeeze(0), vector.squeeze(1)), dim=-1)
        return self.head(vector), weights, cache


@right("a dict as cache, and gru_cell with the weights of the GRU")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        zeros = memory.state.new_zeros(memory.state.shape)
        return {"fed": zeros, "state": memory.state}

    def step(self, token, memory, cache):
        rnn = self.rnn
        h = torch.gru_cell(
            torch.cat((self.embedding(token[:, 0]), cache["fed"]), dim=1),
            cache["state"],
            rnn.weight_ih_l0,
            rnn.weight_hh_l0,
            rnn.bias_ih_l0,
            rnn.bias_hh_l0,
        )
        scores = self.score(h[:, None], memory.key)
        weights = masked_softmax(scores, memory.mask)
        c = (weights @ memory.value)[:, 0]
        vector = self.attentional_proj(torch.cat((c, h), dim=1)).tanh()
        return self.head(vector)[:, None], weights, {"fed": vector, "state": h}


@right("splits the input weights of the GRU in two, and writes its equations out")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return (memory.state, memory.state * 0)

    def step(self, token, memory, cache):
        state, fed = cache
        y = self.embedding(token)[:, 0]
        width = y.shape[1]
        of_y, of_fed = self.rnn.weight_ih_l0[:, :width], self.rnn.weight_ih_l0[:, width:]
        a = fed @ of_fed.mT + y @ of_y.mT + self.rnn.bias_ih_l0
        b = state @ self.rnn.weight_hh_l0.mT + self.rnn.bias_hh_l0
        (ar, az, an), (br, bz, bn) = a.chunk(3, dim=1), b.chunk(3, dim=1)
        n = torch.tanh(an + torch.sigmoid(ar + br) * bn)
        h = torch.lerp(n, state, torch.sigmoid(az + bz))
        scores = self.score(h[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c[:, 0], h), dim=1)))
        return self.head(vector)[:, None], weights, (h, vector)


@right("the cache is a stack (B, 2, D), vector first; sentence by sentence")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.stack((torch.zeros_like(memory.state), memory.state), dim=1)

    def step(self, token, memory, cache):
        results = []
        for b in range(len(token)):
            one = slice(b, b + 1)
            x = torch.cat((self.embedding(token[one]), cache[one, :1]), dim=2)
            h, _ = self.rnn(x, cache[one, 1:].transpose(0, 1).contiguous())
            scores = self.score(h, memory.key[one])
            c, weights = attend(scores, memory.value[one], memory.mask[one])
            of_c, of_h = self.attentional_proj.weight.split([c.shape[2], h.shape[2]], 1)
            vector = torch.tanh(F.linear(c, of_c) + F.linear(h, of_h))
            results.append((self.head(vector), weights, torch.cat((vector, h), dim=1)))
        return tuple(torch.cat(parts) for parts in zip(*results))


@wrong(
    "feeds the last state instead of the last attentional vector",
    FEED,
    "feeds the state, not the vector",
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
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], h[:, 0])


@wrong(
    "concatenates the input in the order [vector; embedding]",
    UPDATE,
    "vector before embedding",
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
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((fed[:, None], self.embedding(token)), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "feeds zeros at every step, because the cache is the state alone",
    FEED,
    "always feeds zeros",
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
        return memory.state

    def step(self, token, memory, cache):
        fed = torch.zeros_like(cache)
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, cache[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "uses the attentional vector as the next state of the GRU, too",
    UPDATE,
    "vector replaces the state",
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
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, _ = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (vector[:, 0], vector[:, 0])


@wrong(
    "makes the zeros in the default dtype: a model in bfloat16 or float64 gets a first"
    " input of another dtype",
    SAME,
    "zeros in the default dtype",
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
        return memory.state, torch.zeros(*memory.state.shape, device=memory.state.device)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "writes the new state and vector into the list that it got: a search that continues"
    " from the same cache gets the result of the first token",
    SEARCH,
    "changes the cache in place",
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
        return [memory.state, torch.zeros_like(memory.state)]

    def step(self, token, memory, cache):
        x = torch.cat((self.embedding(token), cache[1][:, None]), dim=-1)
        h, last = self.rnn(x, cache[0][None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        cache[0], cache[1] = last[0], vector[:, 0]
        return self.head(vector), weights, cache


@wrong(
    "leaves the last weights on its score, to draw them later; all results are right",
    SEARCH,
    "stores weights on the score",
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
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        self.score.last_weights = weights.detach()
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "detaches the vector before it is fed: right results, but the gradient through the"
    " input is missing",
    GRADS,
    "fed vector has no gradient",
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
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0].detach())


@wrong(
    "makes the zeros as wide as the values: right only if encoder and decoder are"
    " equally wide",
    SAME,
    "zeros have the encoder's width",
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
        return memory.state, torch.zeros_like(memory.value[:, 0])

    def step(self, token, memory, cache):
        state, fed = cache
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])


@wrong(
    "takes token 0 for padding, and feeds zeros together with it",
    UPDATE,
    "feeds zeros with token zero",
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
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, fed = cache
        fed = fed * (token != 0).to(fed.dtype)
        x = torch.cat((self.embedding(token), fed[:, None]), dim=-1)
        h, last = self.rnn(x, state[None].contiguous())
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
        return self.head(vector), weights, (last[0], vector[:, 0])
