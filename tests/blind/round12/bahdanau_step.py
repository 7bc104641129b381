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


@right("the gates of the GRU by hand, its own softmax with minus infinity, bmm")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)[:, 0]
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = scores.masked_fill(~memory.mask, -math.inf).softmax(dim=-1)
        c = torch.bmm(weights, memory.value)[:, 0]
        from_input = F.linear(
            torch.cat((y, c), dim=1), self.rnn.weight_ih, self.rnn.bias_ih
        )
        from_state = F.linear(cache, self.rnn.weight_hh, self.rnn.bias_hh)
        r_in, z_in, n_in = from_input.chunk(3, dim=1)
        r_st, z_st, n_st = from_state.chunk(3, dim=1)
        r = torch.sigmoid(r_in + r_st)
        z = torch.sigmoid(z_in + z_st)
        n = torch.tanh(n_in + r * n_st)
        h = (1 - z) * n + z * cache
        logits = self.head(torch.cat((h, c, y), dim=1))
        return logits.unsqueeze(1), weights, h


@right("float64 inside from the scores on, and cast back at the end")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        kind = cache.dtype
        wide = lambda x: x.to(torch.float64)
        y = wide(self.embedding(token))
        scores = wide(self.score(cache[:, None, :], memory.key))
        c, weights = attend(scores, wide(memory.value), memory.mask)
        h = torch.gru_cell(
            torch.cat([y, c], dim=-1).squeeze(1),
            wide(cache),
            wide(self.rnn.weight_ih),
            wide(self.rnn.weight_hh),
            wide(self.rnn.bias_ih),
            wide(self.rnn.bias_hh),
        )
        read = torch.cat([h.unsqueeze(1), c, y], dim=-1)
        logits = F.linear(read, wide(self.head.weight), wide(self.head.bias))
        return logits.to(kind), weights.to(kind), h.to(kind)


@right("einsum, and the head taken apart into three matrices")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def _look(self, query, memory):
        scores = self.score(torch.stack([query], dim=1), memory.key)
        return masked_softmax(scores, memory.mask)

    def _write(self, state, context, embedded):
        widths = [state.size(-1), context.size(-1), embedded.size(-1)]
        of_state, of_context, of_token = self.head.weight.split(widths, dim=1)
        return (
            torch.einsum("bd,vd->bv", state, of_state)
            + torch.einsum("be,ve->bv", context, of_context)
            + torch.einsum("bm,vm->bv", embedded, of_token)
            + self.head.bias
        )

    def step(self, token, memory, cache):
        weights = self._look(cache, memory)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        embedded = self.embedding.weight[token[:, 0]]
        state = self.rnn(torch.hstack((embedded, context)), cache)
        return self._write(state, context, embedded)[:, None, :], weights, state


@right("a loop over the sentences; the softmax is taken over the allowed scores only")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        all_logits, all_weights, states = [], [], []
        for b in range(token.size(0)):
            allowed = memory.mask[b, 0]
            scores = self.score(cache[b : b + 1, None], memory.key[b : b + 1])[0, 0]
            weights = torch.zeros_like(scores).masked_scatter(
                allowed, scores[allowed].softmax(dim=0)
            )
            context = weights @ memory.value[b]
            y = self.embedding(token[b, 0])
            state = self.rnn(torch.cat([y, context])[None], cache[b : b + 1])[0]
            all_logits.append(self.head(torch.cat([state, context, y])))
            all_weights.append(weights)
            states.append(state)
        return (
            torch.stack(all_logits)[:, None],
            torch.stack(all_weights)[:, None],
            torch.stack(states),
        )


@wrong(
    "asks again with the new state after the update, so the weights that it returns and the context of the head come from the new state",
    "Its old state decides where to look, and what it finds there becomes part of the update:",
    "the query is the state after the update",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        scores = self.score(state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "returns probabilities: a softmax over the vocabulary",
    "Do not apply a softmax to the logits, because the loss does that.",
    "softmax of the logits",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits.softmax(dim=-1), weights, state


@wrong(
    "concatenates the context before the embedding in the input of the GRU",
    "In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token.",
    "the two inputs of the GRU are swapped",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([context, embedded], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "the head reads the old state instead of the new one",
    r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])",
    "the logits come from the state before the update",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([cache[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "squeeze() without an axis: a batch of one sentence loses its batch axis too, and the GRU cell raises an error",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes the batch axis of length one",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1).squeeze(), cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "when no gradients are recorded, writes the new state into the cache that it was given (at the first step this is memory.state), to save memory",
    "Do not change the inputs.",
    "overwrites the cache",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        if not torch.is_grad_enabled():
            state = cache.copy_(state)
        return logits, weights, state


@wrong(
    "computes the attention in float32 and casts the context back, but not the weights that it returns: they are float32 for a bfloat16 or float64 model",
    "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    "weights have the wrong dtype",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores.float(), memory.value.float(), memory.mask)
        context = context.to(embedded.dtype)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "clamps the scores to -20 ... 20 before the softmax, so that two keys with the scores 30 and 40 get equal weights",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "large scores are cut off",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key).clamp(-20, 20)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "detaches the state before it becomes the query: all values are right, but no gradient flows from the weights to the earlier state",
    "Gradients must be right, too.",
    "the query is detached",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache.detach()[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "keeps the keys of the first call on self and takes them again whenever a memory has the same shape: a second source is compared with the keys of the first",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "stale keys of an earlier source",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        kept = getattr(self, "kept_keys", None)
        if kept is None or kept.shape != memory.key.shape or kept.dtype != cache.dtype:
            self.kept_keys = kept = memory.key
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], kept)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state
