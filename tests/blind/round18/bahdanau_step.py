import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend
from attention_course.seq2seq import Memory
from blind import right, wrong

ALL_SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)


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


# ---------------------------------------------------------------- right answers


@right("one line per equation, as the hints suggest")
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
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


def softmax_allowed(scores, mask):
    """A softmax over the allowed positions; zeros where nothing is allowed."""
    scores = scores.masked_fill(~mask, float("-inf"))
    top = scores.detach().amax(dim=-1, keepdim=True)
    top = top.clamp_min(torch.finfo(scores.dtype).min)
    powers = (scores - top).exp()
    total = powers.sum(dim=-1, keepdim=True)
    return powers / (total + (total == 0))


@right("its own masked softmax and an einsum, all in 2-d tensors")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        previous = self.embedding(token.squeeze(1))
        scores = self.score(cache.unsqueeze(1), memory.key).squeeze(1)
        alpha = softmax_allowed(scores, memory.mask.squeeze(1))
        context = torch.einsum("bs,bse->be", alpha, memory.value)
        state = self.rnn(torch.hstack([previous, context]), cache)
        logits = self.head(torch.hstack([state, context, previous]))
        return logits.unsqueeze(1), alpha.unsqueeze(1), state


class GatesByHand:
    """One step of a GRU, written out with the parameters of an `nn.GRUCell`."""

    def __init__(self, cell):
        self.cell = cell

    def __call__(self, x, h):
        from_input = F.linear(x, self.cell.weight_ih, self.cell.bias_ih).chunk(3, -1)
        from_state = F.linear(h, self.cell.weight_hh, self.cell.bias_hh).chunk(3, -1)
        reset = torch.sigmoid(from_input[0] + from_state[0])
        update = torch.sigmoid(from_input[1] + from_state[1])
        new = torch.tanh(from_input[2] + reset * from_state[2])
        return (1 - update) * new + update * h


@right("the GRU's gates by hand, and the head as a sum of three products")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None, :], memory.key), memory.value, memory.mask
        )
        h = GatesByHand(self.rnn)(torch.cat((y, context), -1).flatten(1), cache)
        sizes = [h.size(-1), context.size(-1), y.size(-1)]
        parts = zip((h[:, None], context, y), self.head.weight.split(sizes, dim=1))
        logits = self.head.bias + sum(part @ weight.T for part, weight in parts)
        return logits, weights, h


@right("one sentence after the other, without its padding, and sums in float64")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def look(self, state, key, value, allowed):
        scores = self.score(state[None, None], key[None])[0, 0]
        at = allowed.nonzero().flatten()
        alpha = scores[at].double().softmax(dim=0)
        context = (alpha[:, None] * value[at].double()).sum(dim=0)
        row = torch.zeros_like(scores).index_put((at,), alpha.to(scores.dtype))
        return context.to(value.dtype), row

    def step(self, token, memory, cache):
        logits, rows, states = [], [], []
        for b, y in enumerate(self.embedding(token[:, 0])):
            context, row = self.look(
                cache[b], memory.key[b], memory.value[b], memory.mask[b, 0]
            )
            state = self.rnn(torch.cat([y, context])[None], cache[b][None])[0]
            logits.append(self.head(torch.cat([state, context, y])))
            rows.append(row)
            states.append(state)
        return torch.stack(logits)[:, None], torch.stack(rows)[:, None], torch.stack(states)


# ---------------------------------------------------------------- wrong answers


@wrong(
    "looks a second time, with the new state, and returns what it finds then",
    breaks="Its old state decides where to look, and what it finds there becomes part"
    " of the update:",
    name="queries again with the new state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, _ = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        scores = self.score(state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "concatenates the embedding before the context for the head",
    breaks="In the equations, `[a; b]` means that a and b are concatenated in this"
    " order, and $y_{t-1}$ stands for the embedding of the token.",
    name="wrong order in the head",
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
        inputs = torch.cat([embedded, context], dim=-1)
        state = self.rnn(inputs[:, 0], cache)
        features = torch.cat([state[:, None], inputs], dim=-1)
        return self.head(features), weights, state


@wrong(
    "gives the head the state before the update",
    breaks=r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])",
    name="head reads the old state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        query = cache[:, None]
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        return self.head(torch.cat([query, context, embedded], dim=-1)), weights, state


@wrong(
    "returns log-probabilities",
    breaks="Do not apply a softmax to the logits, because the loss does that.",
    name="log-softmax on the logits",
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
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return torch.log_softmax(self.head(features), dim=-1), weights, state


@wrong(
    "attends to the padding as well",
    breaks="Its fields are `key` (B, S, A), already projected by `project_keys`;"
    " `value` (B, S, E); `mask` (B, 1, S), where True means that a position is"
    " allowed; and `state` (B, D), the first state.",
    name="mask forgotten",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        weights = self.score(cache[:, None], memory.key).softmax(dim=-1)
        context = weights @ memory.value
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "queries with the memory's state at every step, which is right in the first only",
    breaks="The cache is the state $h_{t-1}$ (B, D).",
    name="always queries with the first state",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(memory.state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "removes all axes of length one, so a single sentence loses its batch axis",
    breaks=ALL_SIZES,
    name="squeeze without an axis",
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
        inputs = torch.cat([embedded, context], dim=-1).squeeze()
        state = self.rnn(inputs, cache.squeeze())
        features = torch.cat(
            [state, context.squeeze(), embedded.squeeze()], dim=-1
        )
        return self.head(features).unsqueeze(-2), weights, state


@wrong(
    "divides exp(scores) by their sum without subtracting the maximum first",
    breaks="An exponential, however, may overflow.",
    name="softmax overflows",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        powers = self.score(cache[:, None], memory.key).exp() * memory.mask
        weights = powers / powers.sum(dim=-1, keepdim=True)
        context = weights @ memory.value
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "takes id 0 for padding and replaces its embedding by zeros",
    breaks="In the equations, `[a; b]` means that a and b are concatenated in this"
    " order, and $y_{t-1}$ stands for the embedding of the token.",
    name="token 0 treated as padding",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token).masked_fill((token == 0)[..., None], 0)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "overwrites the memory's values at the padding with zeros, which changes neither the"
    " weights nor the logits",
    breaks="Do not change the inputs.",
    name="changes the memory",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        with torch.no_grad():
            memory.value.masked_fill_(~memory.mask.transpose(1, 2), 0)
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state
