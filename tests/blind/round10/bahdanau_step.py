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


@right("the equations of the GRU written out with the cell's own parameters")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def _gru(self, x, h):
        gi = F.linear(x, self.rnn.weight_ih, self.rnn.bias_ih)
        gh = F.linear(h, self.rnn.weight_hh, self.rnn.bias_hh)
        i_r, i_z, i_n = gi.chunk(3, dim=-1)
        h_r, h_z, h_n = gh.chunk(3, dim=-1)
        r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
        n = torch.tanh(i_n + r * h_n)
        return n + z * (h - n)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        c, w = attend(self.score(cache.unsqueeze(1), memory.key), memory.value, memory.mask)
        h = self._gru(torch.cat((y, c), dim=-1).squeeze(1), cache)
        return self.head(torch.cat((h.unsqueeze(1), c, y), dim=-1)), w, h


@right("one sentence of the batch after the other, glued together at the end")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        if token.size(0) == 0:
            return self._one(token, memory.key, memory.value, memory.mask, cache)
        parts = [
            self._one(
                token[i : i + 1],
                memory.key[i : i + 1],
                memory.value[i : i + 1],
                memory.mask[i : i + 1],
                cache[i : i + 1],
            )
            for i in range(token.size(0))
        ]
        logits, weights, states = zip(*parts)
        return torch.cat(logits), torch.cat(weights), torch.cat(states)

    def _one(self, token, key, value, mask, state):
        y = self.embedding(token)
        c, w = attend(self.score(state[:, None], key), value, mask)
        new = self.rnn(torch.cat([y, c], dim=2)[:, 0], state)
        return self.head(torch.cat([new[:, None], c, y], dim=2)), w, new


@right("head split into three matrices that are applied to its three inputs; no concatenation")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        word = self.embedding(token).flatten(0, 1)  # (B, width)
        weights = masked_softmax(self.score(cache.unsqueeze(-2), memory.key), memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        state = self.rnn(torch.hstack((word, context)), cache)
        of_state, of_context, of_word = self.head.weight.split(
            (state.shape[-1], context.shape[-1], word.shape[-1]), dim=1
        )
        logits = state @ of_state.T + context @ of_context.T + word @ of_word.T
        return (logits + self.head.bias).unsqueeze(1), weights, state


@right("a function outside the class does the work, with the sum over s as a product and a sum")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache, *, axis=1):
        return _ask_then_update(self, token[:, 0], memory, cache, axis)


def _ask_then_update(model, ids, memory, state, axis):
    word = F.embedding(ids, model.embedding.weight)
    energies = model.score(torch.stack([state], dim=axis), memory.key)
    weights = masked_softmax(energies, memory.mask)
    context = (weights.transpose(1, 2) * memory.value).sum(dim=1)
    new = model.rnn(torch.cat([word, context], dim=-1), state)
    logits = model.head(torch.cat([new, context, word], dim=-1))
    return torch.stack([logits], dim=axis), weights, new


@wrong(
    "feeds the head with the state before the update; the logits are wrong for every input",
    r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])",
    "head reads the old state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([cache[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "concatenates the head's input as [h; y; c]; the logits are wrong for every input",
    "In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token.",
    "wrong order of concatenation before the head",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], y, context], dim=-1))
        return logits, weights, state


@wrong(
    "returns log-probabilities instead of logits, whenever the logits are not normalised",
    "Do not apply a softmax to the logits, because the loss does that.",
    "log-softmax on the logits",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return torch.log_softmax(logits, dim=-1), weights, state


@wrong(
    "squeeze() without an axis removes the batch as well: with one sentence in the batch GRUCell raises",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze without a dimension loses a batch of one",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1).squeeze(), cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "exp without subtracting the largest score: scores above about 88 (float32) give nan weights",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "softmax by hand overflows for large scores",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        e = torch.exp(self.score(cache[:, None], memory.key)) * memory.mask
        weights = e / e.sum(dim=-1, keepdim=True)
        context = weights @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "computes the weights in float32 and returns them so: a bfloat16 or float64 model gets float32 weights",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "weights always come back in float32",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key).float()
        weights = masked_softmax(scores, memory.mask)
        context = weights.to(memory.value.dtype) @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "hides padding with -10000: where the scores of the real tokens are below that (large vectors), the padding gets the weight",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "padding filled with a number that is not small enough",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key).masked_fill(~memory.mask, -1e4)
        weights = torch.softmax(scores, dim=-1)
        context = weights @ memory.value
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "asks with memory.state, which equals the cache in the first step only; every later step asks with the first state",
    r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_{t-1}, k_s) \\",
    "query is the first state at every step",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        query = memory.state[:, None]
        context, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "averages the keys instead of the values: right for a score that leaves the keys unchanged, "
    "wrong for a score with a projection of the same width, an error for one of another width",
    r"c_t &= \sum_s \alpha_{ts} v_s \\",
    "context from the keys instead of the values",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.key, memory.mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state


@wrong(
    "keeps the mask of the first batch and reuses it as long as the shape is the same: a second "
    "source of the same shape with other padding is read with the wrong mask",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "mask of an earlier source kept on self",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
    def step(self, token, memory, cache):
        kept = getattr(self, "_mask", None)
        if kept is None or kept.shape != memory.mask.shape:
            self._mask = memory.mask
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, self._mask)
        state = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, y], dim=-1))
        return logits, weights, state
