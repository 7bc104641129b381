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


@right("one token and one query at a time, results collected in lists")
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
        logits, weights, state = [], [], cache.unsqueeze(0)
        for t in range(token.shape[1]):
            y = self.embedding(token[:, t : t + 1])
            query, state = self.rnn(y, state.contiguous())
            context, row = attend(self.score(query, memory.key), memory.value, memory.mask)
            attentional = self.attentional_proj(torch.cat((context, query), dim=2)).tanh()
            logits.append(self.head(attentional))
            weights.append(row)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), state.squeeze(0)


@right("W_c split into its part for the context and its part for the state; masked_softmax and bmm")
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
        states, _ = self.rnn(self.embedding(token), cache[None])
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        context = torch.matmul(weights, memory.value)
        width = context.shape[-1]
        w_c, w_h = self.attentional_proj.weight[:, :width], self.attentional_proj.weight[:, width:]
        attentional = torch.tanh(F.linear(context, w_c) + F.linear(states, w_h))
        # the last of the states is the state after the last token
        return self.head(attentional), weights, states.select(1, -1)


@right("the GRU as a loop over its own gates, with a function for one update")
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
    def _update(self, y, h):
        r = self.rnn
        xr, xz, xn = F.linear(y, r.weight_ih_l0, r.bias_ih_l0).chunk(3, -1)
        hr, hz, hn = F.linear(h, r.weight_hh_l0, r.bias_hh_l0).chunk(3, -1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        return (1 - z) * n + z * h

    def step(self, token, memory, cache):
        states = [cache]
        for y in self.embedding(token).unbind(1):
            states.append(self._update(y, states[-1]))
        queries = torch.stack(states[1:], dim=1)
        context, weights = attend(self.score(queries, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, queries], -1)))
        return self.head(attentional), weights, states[-1]


class _Attention(nn.Module):
    """Has no parameters: combines a score with a memory."""

    def forward(self, score, queries, memory):
        scores = score(queries, memory.key)
        hidden = ~memory.mask
        largest = scores.masked_fill(hidden, float("-inf")).amax(dim=-1, keepdim=True)
        largest = largest.detach().nan_to_num(neginf=0.0)
        e = (scores - largest).masked_fill(hidden, float("-inf")).exp()
        weights = e / e.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(e.dtype).tiny)
        return torch.einsum("bts,bse->bte", weights, memory.value), weights


@right("a module without parameters for the attention, softmax by hand with the largest score subtracted")
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
    def step(self, token, memory, cache, attention=_Attention()):
        y = self.embedding(token)
        queries, last = self.rnn(y, torch.stack([cache]))
        context, weights = attention(self.score, queries, memory)
        both = torch.cat([context, queries], dim=-1)
        return self.head(self.attentional_proj(both).tanh()), weights, last[0]


@wrong(
    "concatenates [h; c] before W_c: the widths fit, so nothing raises, "
    "but the logits are wrong for every input",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "state before context in the concatenation",
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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([states, context], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "does not give the cache to the GRU, which then starts from zeros: wrong for every cache that is not zero",
    "The cache is again a state (B, D), the one before the first token.",
    "GRU starts from zeros",
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
        states, last = self.rnn(self.embedding(token))
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "the queries are the states before each update, as in Bahdanau's order",
    r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_t, k_s) \\",
    "asks with the state before the update",
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
        states, last = self.rnn(self.embedding(token), cache[None])
        queries = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        context, weights = attend(self.score(queries, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "squeeze(1) removes the axis of the target positions when there is one token: logits (B, V) instead of (B, 1, V)",
    "A single target position still has an axis of its own, of length one: a token is (B, 1), and its weights are (B, 1, S).",
    "axis of length one is lost for a single token",
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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h).squeeze(1), weights, last.squeeze(0)


@wrong(
    "softmax over all positions, padding set to zero afterwards: for a source with padding the weights do not sum to one",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "mask applied after the softmax, not renormalised",
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
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = self.score(states, memory.key).softmax(dim=-1) * memory.mask
        context = weights @ memory.value
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "writes the results into float32 tensors on the CPU: a float64 or bfloat16 model gets float32 logits and weights",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "results in torch.zeros of the default dtype",
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
        batch, length = token.shape
        logits = torch.zeros(batch, length, self.head.out_features)
        weights = torch.zeros(batch, length, memory.key.shape[1])
        states, last = self.rnn(self.embedding(token), cache[None])
        for t in range(length):
            query = states[:, t : t + 1]
            context, weight = attend(self.score(query, memory.key), memory.value, memory.mask)
            h = torch.tanh(self.attentional_proj(torch.cat([context, query], dim=-1)))
            logits[:, t] = self.head(h)[:, 0]
            weights[:, t] = weight[:, 0]
        return logits, weights, last[0]


@wrong(
    "clamps the scores to [-30, 30] 'for stability': two scores of 50 and 40 become equal",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "scores are clamped before the softmax",
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
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key).clamp(-30, 30)
        context, weights = attend(scores, memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "takes the cache only for a single token; several tokens start from memory.state, which is right in decode "
    "and wrong when a prefix has been read before",
    "The cache is again a state (B, D), the one before the first token.",
    "several tokens always start from the first state",
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
        first = cache if token.size(1) == 1 else memory.state
        states, last = self.rnn(self.embedding(token), first[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "sets the embedding of the id 0 to zero because it takes it for padding: wrong as soon as the token 0 occurs",
    r"h_t &= \mathrm{GRU}(y_{t-1},\, h_{t-1}) \\",
    "token 0 is taken for padding",
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
        y = self.embedding(token) * (token != 0)[..., None]
        states, last = self.rnn(y, cache[None])
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, last[0]


@wrong(
    "reads long targets in blocks of 16 tokens, and every block starts from the cache: wrong from the 17th token on",
    "Write `step` so that it takes T tokens (B, T).",
    "state is not passed on between blocks",
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
        blocks = [self.rnn(self.embedding(part), cache[None])[0] for part in token.split(16, dim=1)]
        states = torch.cat(blocks, dim=1)
        context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
        h = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(h), weights, states[:, -1]
