import math

import torch
from torch import nn
from torch.nn import functional as F

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
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."


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


def gates(x, h, w_ih, w_hh, b_ih, b_hh):
    """One GRU update written out: x (B, width), h (B, D)."""
    from_x = F.linear(x, w_ih, b_ih).chunk(3, dim=-1)
    from_h = F.linear(h, w_hh, b_hh).chunk(3, dim=-1)
    reset = torch.sigmoid(from_x[0] + from_h[0])
    keep = torch.sigmoid(from_x[1] + from_h[1])
    new = torch.tanh(from_x[2] + reset * from_h[2])
    return (1 - keep) * new + keep * h


ORDER = (
    "In the equations, `[a; b]` means that a and b are concatenated in this order, and"
    " $y_{t-1}$ stands for the embedding of the token."
)
OLD = (
    "Its old state decides where to look, and what it finds there becomes part of the"
    " update:"
)
ALLOWED = "`mask` (B, 1, S), where True means that a position is allowed;"
CACHE = "The cache is the state $h_{t-1}$ (B, D)."
LOGITS = r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])"
UPDATE = r"h_t &= \mathrm{GRU}([y_{t-1}; c_t],\, h_{t-1})"
RETURNS = "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D)."
TOKEN = "token: (B, 1), ids."


@wrong(
    "asks again with the new state, for the logits and the returned weights",
    breaks=OLD,
    name="looks with the new state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, _ = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        scores = self.score(state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        return logits, weights, state


@wrong(
    "puts the context before the embedding in the input of the GRU",
    breaks=ORDER,
    name="parts of the input exchanged",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([context, word], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        return logits, weights, state


@wrong(
    "predicts from the state before the update",
    breaks=LOGITS,
    name="old state in the head",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        query = cache[:, None]
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([query, context, word], dim=-1))
        return logits, weights, state


@wrong(
    "leaves the mask out, so the padding of shorter sentences gets weight",
    breaks=ALLOWED,
    name="forgets the mask",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value)
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        return logits, weights, state


@wrong(
    "makes the states of the batch the queries of a single sentence: cache[None]",
    breaks=RETURNS,
    name="the axis of the query in the wrong place",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        scores = self.score(cache[None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        context, weights = context[:, :1], weights[:, :1]
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        return logits, weights, state


@wrong(
    "cuts the old state out of the graph, so the loss of a step stays in this step",
    breaks=GRADIENTS,
    name="no gradient through time",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        cache = cache.detach()
        word = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        return logits, weights, state


@wrong(
    "continues from the state of its own last call unless the cache is the first one",
    breaks=CALLS,
    name="the state lives on self",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        kept = getattr(self, "state", None)
        if cache is memory.state or kept is None or kept.shape != cache.shape:
            kept = cache
        word = self.embedding(token)
        scores = self.score(kept[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], kept)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        self.state = state
        return logits, weights, state


@wrong(
    "token.squeeze() also removes the axis of a batch of one sentence",
    breaks=TOKEN,
    name="fails for a batch of one",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token.squeeze())
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([word, context[:, 0]], dim=-1), cache)
        logits = self.head(torch.cat([state, context[:, 0], word], dim=-1))
        return logits[:, None], weights, state


@wrong(
    "takes the id 0 for padding, after which the state must not change",
    breaks=UPDATE,
    name="the token 0 does not update the state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        state = torch.where(token == 0, cache, state)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        return logits, weights, state


@wrong(
    "writes the new state into the cache, at the first step into the memory's state",
    breaks=INPUTS,
    name="overwrites the cache",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([word, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, word], dim=-1))
        cache.data.copy_(state)
        return logits, weights, state


@right("the GRU written out, einsum for the context")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = self.embedding(token)[:, 0]
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        rnn = self.rnn
        state = gates(
            torch.cat([word, context], dim=-1),
            cache,
            rnn.weight_ih,
            rnn.weight_hh,
            rnn.bias_ih,
            rnn.bias_hh,
        )
        logits = self.head(torch.cat([state, context, word], dim=-1))
        return logits.unsqueeze(1), weights, state


@right("sentence by sentence")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        results = []
        for b in range(token.shape[0]):
            here = slice(b, b + 1)
            word = self.embedding(token[here])
            context, weights = attend(
                self.score(cache[here, None], memory.key[here]),
                memory.value[here],
                memory.mask[here],
            )
            state = self.rnn(torch.cat([word, context], dim=2).squeeze(1), cache[here])
            seen = torch.cat([state.unsqueeze(1), context, word], dim=2)
            results.append((self.head(seen), weights, state))
        return tuple(torch.cat(parts, dim=0) for parts in zip(*results))


@right("the head in three pieces, one for each part")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        word = F.embedding(token, self.embedding.weight)
        context, weights = attend(
            self.score(cache[:, None, :], memory.key), memory.value, memory.mask
        )
        both = torch.cat((word, context), dim=-1).flatten(1)
        state = self.rnn(both, cache)
        sizes = [state.shape[-1], context.shape[-1], word.shape[-1]]
        from_state, from_context, from_word = self.head.weight.split(sizes, dim=1)
        logits = F.linear(state[:, None], from_state, self.head.bias)
        logits = logits + F.linear(context, from_context) + F.linear(word, from_word)
        return logits, weights, state


@right("torch.gru_cell, and the context by bmm")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        parameters = dict(self.rnn.named_parameters())
        scores = self.score(torch.stack([cache], dim=1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        context = torch.bmm(weights, memory.value).squeeze(1)
        word = self.embedding(token).squeeze(1)
        state = torch.gru_cell(
            torch.hstack([word, context]),
            cache,
            parameters["weight_ih"],
            parameters["weight_hh"],
            parameters["bias_ih"],
            parameters["bias_hh"],
        )
        logits = self.head(torch.hstack([state, context, word]))
        return logits[:, None], weights, state
