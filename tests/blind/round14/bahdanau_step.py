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
QUERY = r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_{t-1}, k_s) \\"
UPDATE = r"h_t &= \mathrm{GRU}([y_{t-1}; c_t],\, h_{t-1}) \\"
HEAD = r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])"
MASK = "`mask` (B, 1, S), where True means that a position is allowed"


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


@right("the equations of the GRU written out, from the weights of the cell")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token).squeeze(1)
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        c = torch.einsum("bts,bse->be", weights, memory.value)
        cell = self.rnn
        a = F.linear(torch.cat((y, c), dim=1), cell.weight_ih, cell.bias_ih)
        b = F.linear(cache, cell.weight_hh, cell.bias_hh)
        (ar, az, an), (br, bz, bn) = a.chunk(3, dim=1), b.chunk(3, dim=1)
        z = torch.sigmoid(az + bz)
        n = torch.tanh(an + torch.sigmoid(ar + br) * bn)
        h = n + z * (cache - n)
        return self.head(torch.cat((h, c, y), dim=1)).unsqueeze(1), weights, h


@right("splits the head into three matrices and adds up three products")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = F.embedding(token[:, 0], self.embedding.weight)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        c = context.flatten(1)
        h = self.rnn(torch.hstack((y, c)), cache)
        sizes = [h.shape[1], c.shape[1], y.shape[1]]
        of_h, of_c, of_y = self.head.weight.split(sizes, dim=1)
        logits = self.head.bias + y @ of_y.mT + c @ of_c.mT + h @ of_h.mT
        return logits[:, None], weights, h


@right("sentence by sentence, each as a batch of one")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        results = []
        for b in range(token.shape[0]):
            one = slice(b, b + 1)
            y = self.embedding(token[one])
            scores = self.score(cache[one].unsqueeze(1), memory.key[one])
            c, weights = attend(scores, memory.value[one], memory.mask[one])
            h = self.rnn(torch.cat((y, c), dim=2)[:, 0], cache[one])
            logits = self.head(torch.cat((h.unsqueeze(1), c, y), dim=2))
            results.append((logits, weights, h))
        return tuple(torch.cat(parts) for parts in zip(*results))


@right("one-hot vectors times the embedding, torch.gru_cell, and a loop over the source")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        table = self.embedding.weight
        y = F.one_hot(token[:, 0], table.shape[0]).to(table.dtype) @ table
        scores = self.score(cache[:, None, :], memory.key)
        weights = masked_softmax(scores, memory.mask)
        c = torch.zeros_like(memory.value[:, 0])
        for s in range(memory.value.shape[1]):
            c = c + weights[:, 0, s, None] * memory.value[:, s]
        h = torch.gru_cell(
            torch.cat((y, c), dim=-1),
            cache,
            self.rnn.weight_ih,
            self.rnn.weight_hh,
            self.rnn.bias_ih,
            self.rnn.bias_hh,
        )
        return self.head(torch.cat((h, c, y), dim=-1))[:, None], weights, h


@wrong(
    "asks again with the new state: the weights that it returns and the context of the"
    " head come from h_t",
    QUERY,
    "query is the new state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        c, _ = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        scores = self.score(h[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h


@wrong(
    "concatenates the input of the GRU in the order [c; y]",
    UPDATE,
    "context before embedding in GRU input",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((c, y), dim=-1)[:, 0], cache)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h


@wrong(
    "gives the old state to the head",
    HEAD,
    "logits from the old state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        return self.head(torch.cat((cache[:, None], c, y), dim=-1)), weights, h


@wrong("forgets the mask, so that padding gets weights", MASK, "mask is not used")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h


@wrong(
    "asks with the memory's first state at every step: right at the first step only",
    QUERY,
    "always asks with the first state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(memory.state[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h


@wrong(
    "squeezes the context and the embedding, which lose their batch axis if there is"
    " one sentence",
    LENGTHS,
    "squeeze fails for one sentence",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token).squeeze()
        scores = self.score(cache[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        c = c.squeeze()
        h = self.rnn(torch.cat((y, c), dim=-1), cache)
        return self.head(torch.cat((h, c, y), dim=-1))[:, None], weights, h


@wrong(
    "looks the token up with padding_idx=0: the embedding of token 0 gets no gradient",
    GRADS,
    "no gradient for token zero",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = F.embedding(token, self.embedding.weight, padding_idx=0)
        scores = self.score(cache[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h


@wrong(
    "takes token 0 for padding and then keeps the old state",
    UPDATE,
    "no update for token zero",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        h = torch.where(token == 0, cache, h)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h


@wrong(
    "keeps the state on self and uses the cache only if it is the memory's first state:"
    " a search that continues from an older cache gets the latest state",
    CALLS,
    "state stored on self",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        if cache is memory.state or not hasattr(self, "state"):
            self.state = cache
        if self.state.shape != cache.shape or self.state.dtype != cache.dtype:
            self.state = cache
        y = self.embedding(token)
        scores = self.score(self.state[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        self.state = self.rnn(torch.cat((y, c), dim=-1)[:, 0], self.state)
        logits = self.head(torch.cat((self.state[:, None], c, y), dim=-1))
        return logits, weights, self.state


@wrong(
    "detaches the cache, as in truncated training: no gradient reaches earlier steps or"
    " the encoder's final state",
    GRADS,
    "cache is detached",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        cache = cache.detach()
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat((y, c), dim=-1)[:, 0], cache)
        return self.head(torch.cat((h[:, None], c, y), dim=-1)), weights, h
