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


@right("one token after the other: GRU, attention, head, then everything concatenated")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        state, logits, weights = cache[None].contiguous(), [], []
        for column in token.split(1, dim=1):
            h, state = self.rnn(self.embedding(column), state)
            context, alpha = attend(self.score(h, memory.key), memory.value, memory.mask)
            joined = torch.cat([context, h], dim=-1)
            logits.append(self.head(self.attentional_proj(joined).tanh()))
            weights.append(alpha)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), state[0]


@right("the projection is split into a part for the values and a part for the states")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states = self.rnn(self.embedding(token), torch.stack([cache]))[0]
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        width = memory.value.size(-1)
        for_context = self.attentional_proj.weight[:, :width]
        for_state = self.attentional_proj.weight[:, width:]
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        vector = torch.tanh(context @ for_context.mT + F.linear(states, for_state))
        return self.head(vector), weights, states[:, -1]


@right("torch.gru_cell in a generator, weights as exp of log_softmax")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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

    def _states(self, y, h):
        w = self.rnn
        weights = w.weight_ih_l0, w.weight_hh_l0, w.bias_ih_l0, w.bias_hh_l0
        for x in y.unbind(dim=1):
            h = torch.gru_cell(x, h, *weights)
            yield h

    def step(self, token, memory, cache):
        states = torch.stack(list(self._states(self.embedding(token), cache)), dim=1)
        scores = self.score(states, memory.key)
        scores = scores.masked_fill(~memory.mask, torch.finfo(scores.dtype).min)
        weights = F.log_softmax(scores, dim=-1).exp()
        weights = weights * memory.mask
        context = weights.bmm(memory.value)
        vector = self.attentional_proj(torch.cat([context, states], 2)).tanh()
        return self.head(vector), weights, states[:, -1]


@right("sentence by sentence, with only the allowed positions; names and default arguments of its own")
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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

    def step(self, token, memory, cache, combine=torch.tanh):
        hs, last = self.rnn(self.embedding(token), cache.unsqueeze(0))
        energies = self.score(hs, memory.key)
        alphas, cs = [], []
        for e, ok, v in zip(energies, memory.mask[:, 0], memory.value):
            alpha = torch.zeros_like(e)
            alpha[:, ok] = F.softmax(e[:, ok], dim=1)
            alphas.append(alpha)
            cs.append(alpha[:, ok] @ v[ok])
        tilde = combine(self.attentional_proj(torch.cat([torch.stack(cs), hs], dim=2)))
        return self.head(tilde), torch.stack(alphas), last.squeeze(0)


@wrong(
    "W_c gets [h; c] instead of [c; h]; the widths add up, every logit differs.",
    '\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)',
    "concatenates state and context in the wrong order",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        vector = torch.tanh(self.attentional_proj(torch.cat([states, context], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "The states before the update are the queries, as in Bahdanau's order.",
    '\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_t, k_s)',
    "asks with the state before the update",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        queries = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        scores = self.score(queries, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "The tanh of the attentional vector is missing.",
    '\\tilde{h}_t &= \\tanh(W_c [c_t; h_t]), \\qquad \\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)',
    "forgot the tanh",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
    "The mask is multiplied with the scores: a forbidden position has score 0 and still gets weight.",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "multiplies scores by the mask",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        scores = self.score(states, memory.key) * memory.mask
        context, weights = attend(scores, memory.value)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "The state is that after the first token, states[:, 0]: right for T = 1 and whenever nobody goes on after a whole target.",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D).",
    "returns the state after the first token",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, states[:, 0]


@wrong(
    "squeeze() removes the layer axis and, for a single sentence, the batch axis as well.",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze drops the batch axis of one sentence",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last.squeeze()


@wrong(
    "The weights are the softmax in float32 and are returned so: float32 weights from a bfloat16 model.",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "returns the weights in float32",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        weights = masked_softmax(scores.float(), memory.mask)
        context = weights.to(states.dtype) @ memory.value
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "The new state is written into the cache (the caller's tensor, in the first step even memory.state) to save memory.",
    "Do not change the inputs.",
    "overwrites the cache in place",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        cache.data.copy_(last[0])
        return self.head(vector), weights, last[0]


@wrong(
    "For several tokens the GRU starts from the memory's state, because whole targets begin there; a step of two or more tokens in the middle of a target is wrong.",
    "The cache is again a state (B, D), the one before the first token.",
    "assumes that several tokens start a target",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        first = cache if token.size(1) == 1 else self.start(memory)
        states, last = self.rnn(self.embedding(token), first[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "A causal mask is added if there are as many target as source positions: a query then misses the later source positions; right whenever T and S differ and for T = S = 1.",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "hides later source positions when T equals S",
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        mask = memory.mask
        if scores.size(-1) == scores.size(-2):
            mask = mask & torch.ones_like(scores[0], dtype=torch.bool).tril()
        context, weights = attend(scores, memory.value, mask)
        vector = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(vector), weights, last[0]
