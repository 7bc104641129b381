import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend
from attention_course.seq2seq import Memory
from blind import right, wrong


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


@right("all queries at once, as the hints suggest")
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
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@right("a loop over the tokens, with the GRU's gates by hand")
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

    def update(self, x, h):
        rnn = self.rnn
        a = F.linear(x, rnn.weight_ih_l0, rnn.bias_ih_l0)
        b = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
        (ar, az, an), (br, bz, bn) = a.chunk(3, dim=-1), b.chunk(3, dim=-1)
        z = (az + bz).sigmoid()
        n = (an + (ar + br).sigmoid() * bn).tanh()
        return n + z * (h - n)

    def step(self, token, memory, cache):
        logits, rows, state = [], [], cache
        for column in token.unbind(dim=1):
            state = self.update(self.embedding(column), state)
            scores = self.score(state[:, None], memory.key)
            context, weights = attend(scores, memory.value, memory.mask)
            both = torch.cat([context[:, 0], state], dim=1)
            logits.append(self.head(self.attentional_proj(both).tanh()))
            rows.append(weights[:, 0])
        return torch.stack(logits, dim=1), torch.stack(rows, dim=1), state


@right("time first, W_c cut into two, and its own softmax in float64")
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

    @staticmethod
    def normalize(scores, mask):
        scores = scores.double().masked_fill(~mask, -torch.inf)
        anything = mask.any(dim=-1, keepdim=True)
        scores = torch.where(anything, scores, torch.zeros_like(scores))
        return torch.where(anything, scores.softmax(dim=-1), torch.zeros_like(scores))

    def step(self, token, memory, cache):
        state, states = cache.unsqueeze(0).contiguous(), []
        for t in range(token.size(1)):
            out, state = self.rnn(self.embedding(token[:, t : t + 1]), state)
            states.append(out)
        h = torch.cat(states, dim=1)
        alpha = self.normalize(self.score(h, memory.key), memory.mask)
        c = torch.einsum("bts,bse->bte", alpha, memory.value.double()).to(h.dtype)
        of_context, of_state = self.attentional_proj.weight.tensor_split(
            [c.size(-1)], dim=1
        )
        attentional = torch.einsum("bte,de->btd", c, of_context)
        attentional = attentional + torch.einsum("bth,dh->btd", h, of_state)
        return self.head(attentional.tanh()), alpha.to(h.dtype), state.squeeze(0)


@right("every target position becomes a sentence of its own, with a copy of the memory")
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
        B, T = token.shape
        states, _ = self.rnn(self.embedding(token), cache.clone()[None].contiguous())
        key, value, mask = (
            x.repeat_interleave(T, dim=0)
            for x in (memory.key, memory.value, memory.mask)
        )
        query = states.reshape(B * T, 1, -1)
        context, weights = attend(self.score(query, key), value, mask)
        attentional = self.attentional_proj(torch.cat([context, query], dim=2)).tanh()
        logits = self.head(attentional).reshape(B, T, -1)
        return logits, weights.reshape(B, T, -1), states[:, -1]


# ---------------------------------------------------------------- wrong answers


@wrong(
    "asks with the states before the updates, as Bahdanau does",
    breaks="In Luong's order, the decoder updates its state first and asks with the new"
    " one.",
    name="queries with the old states",
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
        context, weights = attend(
            self.score(queries, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "applies tanh to the concatenation, before W_c",
    breaks=r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t ="
    r" \mathrm{head}(\tilde{h}_t)",
    name="tanh before the projection",
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
        attentional = self.attentional_proj(
            torch.tanh(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "normalizes the scores over the queries instead of the source positions",
    breaks=r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_t, k_s) \\",
    name="softmax over the target positions",
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
        weights = scores.softmax(dim=1) * memory.mask
        context = weights @ memory.value
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "returns the attentional vector of the last token as the cache",
    breaks="The cache is again a state (B, D), the one before the first token.",
    name="attentional vector as state",
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
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, attentional[:, -1]


@wrong(
    "uses the first sentence's mask for all sentences",
    breaks="Its fields are `key` (B, S, A), already projected by `project_keys`;"
    " `value` (B, S, E); `mask` (B, 1, S), where True means that a position is"
    " allowed; and `state` (B, D), the first state.",
    name="one mask for all sentences",
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
        context, weights = attend(scores, memory.value, memory.mask[0])
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "returns the state after the first of the tokens, which is right for one token",
    breaks="Logits (B, T, V), weights (B, T, S), and the state after the last token (B,"
    "\n            D).",
    name="state after the first token",
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
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, states[:, 0]


@wrong(
    "starts from the memory's state if it gets several tokens, and ignores the cache",
    breaks="cache: (B, D), the state before the first of the tokens.",
    name="cache ignored for several tokens",
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
        first = self.start(memory) if token.size(1) > 1 else cache
        states, last = self.rnn(self.embedding(token), first[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "asks with detached states, so no gradient comes back through the scores",
    breaks="Gradients must be right, too.",
    name="detached queries",
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
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "writes tanh with exponentials, which overflow for large numbers",
    breaks="An exponential, however, may overflow.",
    name="tanh overflows",
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
        x = self.attentional_proj(torch.cat([context, states], dim=-1))
        attentional = (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())
        return self.head(attentional), weights, last[0]


@wrong(
    "returns float32 logits whatever the dtype of the parameters",
    breaks="The result must have the dtype of the vectors or parameters that it is"
    " computed from (float64, float32 or bfloat16), and must be on their device.",
    name="logits always in float32",
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
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional).float(), weights, last[0]
