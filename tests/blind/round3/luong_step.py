import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share, as the notebook gives it."""

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
    """The __init__ and the decode of the notebook."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("token by token, one query at a time")
class OneByOne(Given):
    def step(self, token, memory, cache):
        h, logits, weights = cache[None], [], []
        for one in self.embedding(token).split(1, dim=1):
            out, h = self.rnn(one, h)
            c, w = attend(self.score(out, memory.key), memory.value, memory.mask)
            out = torch.tanh(self.attentional_proj(torch.cat([c, out], dim=-1)))
            logits.append(self.head(out))
            weights.append(w)
        return torch.cat(logits, 1), torch.cat(weights, 1), h[0]


@right("W_c in two pieces, softmax by logsumexp, everything by einsum")
class Einsum(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        e = self.score(h, memory.key).masked_fill(~memory.mask, -torch.inf)
        alpha = (e - e.logsumexp(dim=-1, keepdim=True)).exp()
        c = torch.einsum("bts,bse->bte", alpha, memory.value)
        w = self.attentional_proj.weight
        w_c, w_h = w[:, : c.size(-1)], w[:, c.size(-1) :]
        mixed = torch.einsum("bte,de->btd", c, w_c)
        mixed = mixed + torch.einsum("bth,dh->btd", h, w_h)
        return self.head(mixed.tanh()), alpha, last.squeeze(0)


@right("the cell of the GRU by hand, and queries asked afterwards, all at once")
class CellByHand(Given):
    def step(self, token, memory, cache):
        r = self.rnn
        h, states = cache, []
        for y in self.embedding(token).unbind(1):
            i = F.linear(y, r.weight_ih_l0, r.bias_ih_l0).chunk(3, 1)
            g = F.linear(h, r.weight_hh_l0, r.bias_hh_l0).chunk(3, 1)
            keep = torch.sigmoid(i[1] + g[1])
            new = torch.tanh(i[2] + torch.sigmoid(i[0] + g[0]) * g[2])
            h = keep * h + (1 - keep) * new
            states.append(h)
        query = torch.stack(states, dim=1)
        weights = masked_softmax(self.score(query, memory.key), memory.mask)
        context = torch.bmm(weights, memory.value)
        query = self.attentional_proj(torch.cat([context, query], 2)).tanh()
        return self.head(query), weights, h


@right("the memory is repeated for each token, and every query is a sentence of its own")
class QueriesAsBatch(Given):
    def step(self, token, memory, cache):
        b, t = token.shape
        h, last = self.rnn(self.embedding(token), cache[None])
        key, value, mask = (
            m.repeat_interleave(t, dim=0)
            for m in (memory.key, memory.value, memory.mask)
        )
        query = h.reshape(b * t, 1, -1)
        c, weights = attend(self.score(query, key), value, mask)
        both = torch.cat([c, query], dim=-1)
        logits = self.head(torch.tanh(self.attentional_proj(both)))
        return logits.view(b, t, -1), weights.view(b, t, -1), last[0]


@wrong(
    "the states before the update ask",
    breaks="\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_t, k_s)",
    name="Bahdanau's query",
)
class OldQueries(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        query = torch.cat([cache[:, None], h[:, :-1]], dim=1)
        c, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "only the last state asks, and all tokens share what it finds",
    breaks="`step` takes T tokens at once, (B, T), and asks T queries at once.",
    name="one query for T tokens",
    subtle=True,
)
class LastQuery(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        query = last.transpose(0, 1)
        c, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        c, weights = c.expand_as(h[..., :1] * c), weights.expand(-1, h.size(1), -1)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "attaches the context behind the state",
    breaks="\\tilde{h}_t &= \\tanh(W_c [c_t; h_t])",
    name="[h; c] for [c; h]",
)
class Order(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([h, c], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "hands on the attentional vector for the state",
    breaks="The cache is again the state, (B, D), before the first of the tokens.",
    name="attentional vector as cache",
    subtle=True,
)
class AttentionalCache(Given):
    def step(self, token, memory, cache):
        h, _ = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, out[:, -1]


@wrong(
    "starts from the memory's state whatever the cache is",
    breaks="cache: (B, D), the state before the first of the tokens.",
    name="starts from the first state every time",
    subtle=True,
)
class FromMemory(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), self.start(memory)[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "exponentials without taking the largest score off first",
    breaks="Your code works for every length from one on, for large numbers as for small"
    " ones",
    name="exp overflows",
    subtle=True,
)
class PlainExp(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        e = self.score(h, memory.key).exp() * memory.mask
        weights = e / e.sum(dim=-1, keepdim=True)
        c = weights @ memory.value
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "divides the scores by the root of the width, as in the Transformer",
    breaks="\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_t, k_s)",
    name="scaled twice",
)
class Scaled(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(h, memory.key) / h.size(-1) ** 0.5
        c, weights = attend(scores, memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "drops out some of the attentional vector in train mode",
    breaks="\\mathrm{logits}_t = \\mathrm{head}(\\tilde{h}_t)",
    name="dropout that nobody asked for",
    subtle=True,
)
class Dropout(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(F.dropout(out, 0.1, self.training)), weights, last[0]


@wrong(
    "clears the masked positions of the memory's values in place, to be sure",
    breaks="What comes in stays as it is",
    name="memory changed in place",
    subtle=True,
)
class ClearsMemory(Given):
    def step(self, token, memory, cache):
        with torch.no_grad():
            memory.value.masked_fill_(~memory.mask.transpose(1, 2), 0.0)
        h, last = self.rnn(self.embedding(token), cache[None])
        c, weights = attend(self.score(h, memory.key), memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]


@wrong(
    "attends without keeping the gradient of the queries: the weights are constants",
    breaks="All of them are trained on dates, with your own code inside.",
    name="scores under no_grad",
    subtle=True,
)
class NoGradScores(Given):
    def step(self, token, memory, cache):
        h, last = self.rnn(self.embedding(token), cache[None])
        with torch.no_grad():
            scores = self.score(h, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        out = torch.tanh(self.attentional_proj(torch.cat([c, h], dim=-1)))
        return self.head(out), weights, last[0]
