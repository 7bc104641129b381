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


FIRST = (
    "In Luong's order, the decoder updates its state first and asks with the new one."
)
ATTENTIONAL = (
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t ="
    r" \mathrm{head}(\tilde{h}_t)"
)
CACHE = "The cache is again a state (B, D), the one before the first token."
RETURNS = (
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D)."
)
ALL = "Write `step` so that it takes T tokens (B, T)."
QUERIES = "All of the states are queries."


@wrong(
    "asks with the state before each update",
    breaks=FIRST,
    name="Bahdanau's order",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        queries = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        scores = self.score(queries, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, last[0]


@wrong(
    "puts the state before the context",
    breaks=ATTENTIONAL,
    name="state and context exchanged",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([states, context], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, last[0]


@wrong(
    "forgets the tanh of the attentional vector",
    breaks=ATTENTIONAL,
    name="no tanh",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(attentional), weights, last[0]


@wrong(
    "returns the last attentional vector as the next state",
    breaks=RETURNS,
    name="attentional vector in the cache",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, attentional[:, -1]


@wrong(
    "returns the state after the first token, which is the last one only for T = 1",
    breaks=RETURNS,
    name="the first state instead of the last",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, states[:, 0]


@wrong(
    "squeeze() removes the axis of a batch of one from the returned state as well",
    breaks=RETURNS,
    name="the state of a single sentence loses an axis",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, last.squeeze()


@wrong(
    "detaches the states where they are queries",
    breaks=GRADIENTS,
    name="no gradient through the query",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states.detach(), memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, last[0]


@wrong(
    "returns the logits of the last token only when the model generates",
    breaks=LENGTHS,
    name="in eval mode only the last logits",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        if not self.training:
            attentional = attentional[:, -1:]
        return self.head(attentional), weights, last[0]


@wrong(
    "always begins with the memory's first state, whatever the cache is",
    breaks=CACHE,
    name="ignores the cache",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        first = memory.state[None].contiguous()
        states, last = self.rnn(self.embedding(token), first)
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, last[0]


@wrong(
    "asks once, with the last state, and uses this context for all T tokens",
    breaks=QUERIES,
    name="one query for all tokens",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(last[0][:, None], memory.key).expand(-1, token.shape[1], -1)
        context, weights = attend(scores, memory.value, memory.mask)
        both = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(both))
        return self.head(attentional), weights, last[0]


@right("a loop over the tokens with the GRU written out")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        rnn, state = self.rnn, cache
        logits, weights = [], []
        for word in self.embedding(token).unbind(dim=1):
            state = gates(
                word,
                state,
                rnn.weight_ih_l0,
                rnn.weight_hh_l0,
                rnn.bias_ih_l0,
                rnn.bias_hh_l0,
            )
            scores = self.score(state[:, None], memory.key)
            context, row = attend(scores, memory.value, memory.mask)
            both = torch.cat([context[:, 0], state], dim=-1)
            logits.append(self.head(torch.tanh(self.attentional_proj(both))))
            weights.append(row)
        return torch.stack(logits, dim=1), torch.cat(weights, dim=1), state


@right("W_c in two pieces, einsum for the context, last state by slicing")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        words = F.embedding(token, self.embedding.weight)
        states = self.rnn(words, cache.unsqueeze(0).contiguous())[0]
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        width = context.shape[-1]
        matrix = self.attentional_proj.weight
        summed = F.linear(context, matrix[:, :width])
        summed = summed + F.linear(states, matrix[:, width:])
        return self.head(summed.tanh()), weights, states[:, -1, :]


@right("states from torch.gru_cell, then all queries at once")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        parameters = [p for _, p in sorted(self.rnn.named_parameters(), reverse=True)]
        ih, hh, bias_ih, bias_hh = parameters
        states = [cache]
        for t in range(token.shape[1]):
            word = self.embedding(token[:, t])
            states.append(torch.gru_cell(word, states[-1], ih, hh, bias_ih, bias_hh))
        queries = torch.stack(states[1:], dim=1)
        context, weights = attend(
            self.score(queries, memory.key), memory.value, memory.mask
        )
        attentional = self.attentional_proj(torch.cat((context, queries), dim=2)).tanh()
        return self.head(attentional), weights, states[-1]


@right("sentence by sentence")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        results = []
        for b in range(token.shape[0]):
            here = slice(b, b + 1)
            first = cache[here].reshape(1, 1, -1).contiguous()
            states, last = self.rnn(self.embedding(token[here]), first)
            context, weights = attend(
                self.score(states, memory.key[here]),
                memory.value[here],
                memory.mask[here],
            )
            both = torch.concatenate([context, states], dim=-1)
            logits = self.head(torch.tanh(self.attentional_proj(both)))
            results.append((logits, weights, last.squeeze(0)))
        logits, weights, last = zip(*results)
        return torch.cat(logits), torch.cat(weights), torch.cat(last)
