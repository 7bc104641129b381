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


@right("one token after the other with the GRU, then all questions at once")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        state, states = cache.unsqueeze(0), []
        for one in self.embedding(token).split(1, dim=1):
            output, state = self.rnn(one, state)
            states.append(output)
        states = torch.cat(states, dim=1)
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        joined = torch.cat([context, states], dim=-1)
        logits = self.head(self.attentional_proj(joined).tanh())
        return logits, weights, state.squeeze(0)


@right("the GRU written out from its weights")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        rnn, state, states = self.rnn, cache, []
        inputs = F.linear(self.embedding(token), rnn.weight_ih_l0, rnn.bias_ih_l0)
        for x in inputs.unbind(dim=1):
            h = F.linear(state, rnn.weight_hh_l0, rnn.bias_hh_l0)
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), h.chunk(3, -1)
            z = (xz + hz).sigmoid()
            state = (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * state
            states.append(state)
        asks = torch.stack(states, 1)
        weights = masked_softmax(self.score(asks, memory.key), memory.mask)
        context = torch.bmm(weights, memory.value)
        vector = torch.tanh(self.attentional_proj(torch.cat((context, asks), 2)))
        return self.head(vector), weights, state


@right("the attentional map is cut into a part for the context and one for the state")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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

    def attentional(self, context, states):
        weight = self.attentional_proj.weight
        width = context.size(-1)
        return torch.tanh(
            F.linear(context, weight[:, :width]) + F.linear(states, weight[:, width:])
        )

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        logits = self.head(self.attentional(context, states))
        return logits, weights, states[:, -1].clone()


@right("asks query by query and collects the answers")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), torch.stack([cache]))
        logits, weights = [], []
        for t in range(token.size(1)):
            ask = states[:, t : t + 1]
            scores = self.score(ask, memory.key)
            context, row = attend(scores, memory.value, memory.mask)
            vector = self.attentional_proj(torch.cat([context, ask], dim=-1))
            logits.append(self.head(torch.tanh(vector)))
            weights.append(row)
        return torch.cat(logits, 1), torch.cat(weights, 1), last[0]


@wrong(
    "no tanh before the head: the logits are wrong, weights and state right",
    "\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)",
    "tanh is missing",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(vector), weights, last[0]


@wrong(
    "concatenates [h; c]: no shape complains, but the logits are wrong",
    "\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)",
    "state before context in the attentional vector",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([states, context], dim=-1)).tanh()
        return self.head(vector), weights, last[0]


@wrong(
    "asks with the states before the update, as Bahdanau's decoder does: all weights belong to the position before",
    "\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_t, k_s)",
    "the state before the update asks",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        asks = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        scores = self.score(asks, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last[0]


@wrong(
    "gives the GRU its first state as (B, 1, D), as batch_first seems to ask: right for B = 1, raises for more sentences",
    "The cache is again the state, (B, D), before the first of the tokens.",
    "layer axis in the wrong place",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[:, None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last[:, 0]


@wrong(
    "squeeze() removes the axis of one sentence as well as that of the layers: the state of a single sentence is (D,)",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B,\n            D).",
    "squeeze removes the axis of one sentence",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last.squeeze()


@wrong(
    "reads long targets in pieces of 64 tokens, each piece from the first state: right up to 64 tokens, wrong after them",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "state is not handed on between pieces",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        pieces = []
        for piece in self.embedding(token).split(64, dim=1):
            output, last = self.rnn(piece, cache[None])
            pieces.append(output)
        states = torch.cat(pieces, dim=1)
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last[0]


@wrong(
    "limits the scores to ±30 before the softmax: larger scores become equal, and the weights with them",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "clamps large scores",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key).clamp(-30, 30)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last[0]


@wrong(
    "starts from the memory's first state and not from the cache: right in `decode`, which reads the whole target at once, wrong for every later step of a search",
    "The cache is again the state, (B, D), before the first of the tokens.",
    "ignores the cache, starts from memory.state",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), memory.state[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last[0]


@wrong(
    "returns the last attentional vector in the place of the state: same shape, and `decode` never looks at it, but the next step goes on from a wrong state",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B,\n            D).",
    "returns the attentional vector as the state",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, _ = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        states = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(states), weights, states[:, -1]


@wrong(
    "only the last state asks, and its context serves all T tokens: right for one token per call",
    "No state depends on a context, so no step has to wait for a context: `step` takes T tokens at once, (B, T), and asks T queries at once.",
    "one query for all tokens",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update looks for what the prediction
    needs."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(last[0][:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        context = context.expand(-1, states.size(1), -1)
        weights = weights.expand(-1, states.size(1), -1)
        vector = self.attentional_proj(torch.cat([context, states], dim=-1)).tanh()
        return self.head(vector), weights, last[0]
