import torch
from torch import nn

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
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


class Given(Decoder):
    """The lines of LuongDecoder that the lab gives."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(memory_dim + hidden_dim, hidden_dim, bias=False)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("one token at a time through the GRU, then one attention for all")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        state, states = cache.unsqueeze(0).contiguous(), []
        for y in self.embedding(token).split(1, dim=1):
            out, state = self.rnn(y, state)
            states.append(out)
        h = torch.cat(states, dim=1)
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(self.attentional_proj(torch.cat([context, h], dim=-1)).tanh()), weights, state.squeeze(0)


@right("splits W_c into two matrices and adds the products; last state is cut from the states")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        weights = masked_softmax(self.score(h, memory.key), memory.mask)
        context = torch.bmm(weights, memory.value)
        for_context, for_state = self.attentional_proj.weight.split([context.size(-1), h.size(-1)], dim=1)
        attentional = torch.tanh(context @ for_context.T + h @ for_state.T)
        return self.head(attentional), weights, h[:, -1]


@right("asks with one query after the other")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), torch.stack([cache]))
        logits, weights = [], []
        for query in h.unbind(dim=1):
            c, a = attend(self.score(query[:, None], memory.key), memory.value, memory.mask)
            mixed = torch.tanh(self.attentional_proj(torch.cat([c[:, 0], query], dim=-1)))
            logits.append(self.head(mixed))
            weights.append(a[:, 0])
        return torch.stack(logits, dim=1), torch.stack(weights, dim=1), last[0]


@right("the recurrence by hand with gru_cell and the GRU's own parameters")
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        parameters = (self.rnn.weight_ih_l0, self.rnn.weight_hh_l0, self.rnn.bias_ih_l0, self.rnn.bias_hh_l0)
        h, state = [], cache
        for t in range(token.size(1)):
            state = torch.gru_cell(self.embedding(token[:, t]), state, *parameters)
            h.append(state)
        h = torch.stack(h, dim=1)
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat((context, h), 2)))), weights, state


@wrong(
    "concatenates [h; c] instead of [c; h]; widths fit",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "context and state in the wrong order",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([h, context], dim=-1)))), weights, last[0]


@wrong(
    "asks with the states before the update: Bahdanau's queries",
    r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_t, k_s) \\",
    "queries are the old states",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        before = torch.cat([cache[:, None], h[:, :-1]], dim=1)
        context, weights = attend(self.score(before, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, last[0]


@wrong(
    "leaves the tanh out: nearly the same as long as the attentional vectors are small",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "no tanh",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(self.attentional_proj(torch.cat([context, h], dim=-1))), weights, last[0]


@wrong(
    "does not hand the cache to the GRU but starts from zeros: wrong whenever the first state is not zero",
    "The cache is again the state, (B, D), before the first of the tokens.",
    "GRU starts from zeros",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token))
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, last[0]


@wrong(
    "returns the state after the first of the tokens: right for one token only",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D).",
    "cache is the state after the first token",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, _ = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, h[:, 0]


@wrong(
    "uses only the last state as the query and repeats its context for all T: right for T = 1",
    "No state depends on a context, so no step has to wait for one: `step` takes T tokens at once, (B, T), and computes the attention of T queries at once.",
    "one query for all target positions",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(h[:, -1:], memory.key), memory.value, memory.mask)
        context, weights = context.expand(-1, h.size(1), -1), weights.expand(-1, h.size(1), -1)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, last[0]


@wrong(
    "returns the last state with the axis of the layers, and accepts it so: decode and a loop over step work, but the cache is (1, B, D)",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D).",
    "cache keeps the axis of the layers",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        state = cache if cache.dim() == 3 else cache[None]
        h, last = self.rnn(self.embedding(token), state)
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, last


@wrong(
    "squeezes the mask to (B, S): it is broadcast over the queries, which fails unless B is 1 or T, and then masks the wrong things",
    "`mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.",
    "mask without its axis for the queries",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(h, memory.key).masked_fill(~memory.mask.squeeze(), -torch.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ memory.value
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, last[0]


@wrong(
    "masks with the first sentence's mask for all: right if all sources are of equal length, or the first is padded the most",
    "`mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.",
    "mask of the first sentence for all sentences",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(h, memory.key), memory.value, memory.mask[:1])
        return self.head(torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))), weights, last[0]


@wrong(
    "remembers the answer for a sequence of tokens on self: a second memory or cache with the same tokens gets the first answer",
    "`remember` is called once per source: it keeps one slot per source token, projects the keys, and makes the first state.",
    "looks up earlier answers by the tokens alone",
)
class LuongDecoder(Given):
    def step(self, token, memory, cache):
        known = self.__dict__.setdefault("known", {})
        name = (tuple(token.flatten().tolist()), tuple(memory.key.shape), self.training)
        if name not in known:
            h, last = self.rnn(self.embedding(token), cache[None])
            context, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
            mixed = torch.tanh(self.attentional_proj(torch.cat([context, h], dim=-1)))
            known[name] = self.head(mixed), weights, last[0]
        return known[name]
