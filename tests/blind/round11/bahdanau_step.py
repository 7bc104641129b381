from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


# given in the notebook
class Decoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state, and so of a query.
        memory_dim: width E of the encoder's states, and so of the values.
        score: compares queries of width D with keys.
    """

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


@right('the GRU cell written out by hand, gate by gate')
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token).flatten(1)
        scores = self.score(cache.unsqueeze(1), memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        c = context.flatten(1)
        cell = self.rnn
        from_input = F.linear(torch.hstack((y, c)), cell.weight_ih, cell.bias_ih)
        from_state = F.linear(cache, cell.weight_hh, cell.bias_hh)
        xr, xz, xn = from_input.chunk(3, dim=1)
        hr, hz, hn = from_state.chunk(3, dim=1)
        r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
        n = (xn + r * hn).tanh()
        h = n + z * (cache - n)
        return self.head(torch.hstack((h, c, y))).unsqueeze(1), weights, h


@right('one sentence of the batch after the other, results concatenated')
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        results = []
        for b in range(token.shape[0]):
            one = slice(b, b + 1)
            old = cache[one]
            scores = self.score(old[:, None, :], memory.key[one])
            context, weights = attend(scores, memory.value[one], memory.mask[one])
            y = self.embedding(token[one])
            new = self.rnn(torch.cat((y, context), dim=2).squeeze(1), old)
            logits = self.head(torch.cat((new.unsqueeze(1), context, y), dim=2))
            results.append((logits, weights, new))
        return tuple(torch.cat(parts) for parts in zip(*results))


@right('own masked softmax by way of log_softmax, einsum, and a head in three parts')
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)[:, 0]
        scores = self.score(cache[:, None], memory.key)
        scores = torch.where(memory.mask, scores, float("-inf"))
        weights = scores.log_softmax(dim=-1).exp()
        c = torch.einsum("bs,bse->be", weights[:, 0], memory.value)
        state = self.rnn(torch.cat([y, c], dim=1), cache)
        widths = [state.shape[1], c.shape[1], y.shape[1]]
        for_state, for_context, for_token = self.head.weight.split(widths, dim=1)
        logits = (
            F.linear(state, for_state, self.head.bias)
            + F.linear(c, for_context)
            + F.linear(y, for_token)
        )
        return logits[:, None], weights, state


@right('softmax in double precision, weighted sum by broadcasting, torch.gru_cell')
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding.weight[token.squeeze(1)]
        scores = self.score(torch.stack([cache], dim=1), memory.key)
        exact = scores.double().masked_fill(memory.mask.logical_not(), -torch.inf)
        weights = nn.Softmax(dim=2)(exact).to(scores.dtype)
        context = (weights.transpose(1, 2) * memory.value).sum(dim=1)
        state = torch.gru_cell(
            torch.column_stack((embedded, context)),
            cache,
            self.rnn.weight_ih,
            self.rnn.weight_hh,
            self.rnn.bias_ih,
            self.rnn.bias_hh,
        )
        logits = self.head(torch.column_stack((state, context, embedded)))
        return logits[:, None, :], weights, state


@wrong(
    'the head gets [y; c; h] instead of [h; c; y]',
    'In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token.',
    "wrong order in the head's input",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([y, context, state[:, None]], dim=-1))
        return logits, weights, state


@wrong(
    'returns log-probabilities',
    'Do not apply a softmax to the logits, because the loss does that.',
    'softmax on the logits',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits.log_softmax(dim=-1), weights, state


@wrong(
    'the head reads the state before the update',
    '\\mathrm{logits}_t &= \\mathrm{head}([h_t; c_t; y_{t-1}])',
    'old state in the head',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        query = cache[:, None]
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([query, context, y], dim=-1))
        return logits, weights, state


@wrong(
    'squeezes every axis of length one, so a batch of one sentence gets a state of shape (D,)',
    'Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).',
    'squeeze() removes the batch axis when B is 1',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache.unsqueeze(1), memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1).squeeze(), cache.squeeze())
        logits = self.head(
            torch.cat([state.reshape(len(token), 1, -1), context, y], dim=-1)
        )
        return logits, weights, state


@wrong(
    'masks with -1e4 instead of minus infinity: the padding wins when the scores are below that',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'finite number for masked scores',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        weights = scores.masked_fill(~memory.mask, -1e4).softmax(dim=-1)
        context = weights @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    'writes the new state into the cache that it was given',
    'Do not change the inputs.',
    'changes the cache in place',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        cache.data.copy_(state.data)
        return logits, weights, state


@wrong(
    'softmax in float32, and the returned weights stay in float32',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'weights in float32 whatever the dtype of the model',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        scores = scores.masked_fill(~memory.mask, float("-inf"))
        weights = scores.softmax(dim=-1, dtype=torch.float32)
        context = weights.to(y.dtype) @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "asks with the memory's first state at every step: right at the first step only",
    'Its old state decides where to look, and what it finds there becomes part of the update:',
    'query is the first state instead of the cache',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(memory.state[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "drops a tenth of the head's input in train mode",
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'dropout that the equations do not have',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, y], dim=-1)
        logits = self.head(F.dropout(features, 0.1, self.training))
        return logits, weights, state


@wrong(
    'keeps the mask of the first memory of each shape, and uses it for later memories of that shape',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'mask of an earlier batch',
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        bias = getattr(self, "bias", None)
        if bias is None or bias.shape != memory.mask.shape:
            # the mask is the same at every step, so build its bias only once
            bias = torch.zeros_like(memory.mask, dtype=memory.value.dtype)
            self.bias = bias = bias.masked_fill(~memory.mask, float("-inf"))
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key) + bias.to(cache)
        weights = scores.softmax(dim=-1)
        context = weights @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state
