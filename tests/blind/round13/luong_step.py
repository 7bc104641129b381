import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.rnn import RNNEncoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder, Memory

from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share (given in the notebook)."""

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


@right("divides the tokens into two halves and calls itself for each")
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
        if token.shape[1] > 1:
            logits, weights = [], []
            for half in token.tensor_split(2, dim=1):
                half_logits, half_weights, cache = self.step(half, memory, cache)
                logits.append(half_logits)
                weights.append(half_weights)
            return torch.hstack(logits), torch.hstack(weights), cache
        state = self.rnn(self.embedding(token), cache[None])[1][0]
        context, weights = attend(
            self.score(state[:, None], memory.key), memory.value, memory.mask
        )
        both = torch.cat([context[:, 0], state], dim=1)
        logits = self.head(torch.tanh(self.attentional_proj(both)))
        return logits[:, None], weights, state


@right("the GRU by hand in a loop, time as the first axis")
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
        rnn, state, states = self.rnn, cache, []
        inputs = F.linear(
            self.embedding(token.T), rnn.weight_ih_l0, rnn.bias_ih_l0
        )  # (T, B, 3 D)
        for x in inputs:
            r_x, z_x, n_x = x.chunk(3, dim=-1)
            r_h, z_h, n_h = F.linear(state, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(
                3, dim=-1
            )
            z = torch.sigmoid(z_x + z_h)
            n = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
            state = (1 - z) * n + z * state
            states.append(state)
        query = torch.stack(states).transpose(0, 1)  # (B, T, D)
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = self.attentional_proj(torch.cat([context, query], dim=-1)).tanh()
        return self.head(attentional), weights, state


@right("W_c is cut into two matrices; attention by einsum in float64")
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
        states, last = self.rnn(self.embedding(token), cache.unsqueeze(0))
        scores = self.score(states, memory.key)
        precise = masked_softmax(scores.to(torch.float64), memory.mask)
        context = torch.einsum("bts,bse->bte", precise, memory.value.double())
        context = context.to(states.dtype)
        of_context = self.attentional_proj.weight[:, : context.size(2)]
        of_state = self.attentional_proj.weight[:, context.size(2) :]
        attentional = torch.tanh(context @ of_context.T + states @ of_state.T)
        return self.head(attentional), precise.to(scores.dtype), last.squeeze(0)


@right("one query at a time, later queries first, with a helper and an attribute")
class LuongDecoder(Decoder):
    layers = 1

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        return self.step(target, memory, self.start(memory))[:2]

    def ask(self, query, memory):
        scores = self.score(query, memory.key).transpose(1, 2)  # (B, S, 1)
        allowed = memory.mask.transpose(1, 2)
        scores = torch.where(allowed, scores, torch.finfo(scores.dtype).min)
        weights = (scores.softmax(dim=1) * allowed).transpose(1, 2)
        context = torch.bmm(weights, memory.value)
        features = torch.cat([context, query], dim=-1)
        return self.head(torch.tanh(self.attentional_proj(features))), weights

    def step(self, token, memory, cache):
        first = cache.expand(self.layers, -1, -1).contiguous()
        states, _ = self.rnn(self.embedding(token), first)
        answers = [self.ask(query, memory) for query in states.split(1, dim=1)[::-1]]
        logits, weights = zip(*reversed(answers))
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), states[:, -1]


@wrong(
    "asks with the state before each update",
    "In Luong's order, the decoder updates its state first and asks with the new one.",
    "Bahdanau's query",
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
        query = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "concatenates [state; context] before W_c",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad"
    r" \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "wrong order of concatenation",
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
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([states, context], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "forgets the tanh of the attentional vector",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad"
    r" \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "tanh missing",
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
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(attentional), weights, last[0]


@wrong(
    "returns the state after the first token: right for one token, and `decode` does"
    " not use it",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B, D).",
    "cache of the first token instead of the last",
    subtle=True,
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
        states, _ = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, states[:, 0]


@wrong(
    "always begins with the memory's state: right in `decode` and in the first step,"
    " wrong in every step that continues",
    "The cache is again a state (B, D), the one before the first token.",
    "memory.state instead of the cache",
    subtle=True,
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
        states, last = self.rnn(self.embedding(token), memory.state[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "adds dropout to the attentional vector in train mode, which is not in the formula"
    " and gives other logits at each call",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad"
    r" \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "dropout that nobody asked for (train mode only)",
    subtle=True,
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
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        attentional = F.dropout(attentional, 0.1, self.training)
        return self.head(attentional), weights, last[0]


@wrong(
    "collects the weights of all queries in torch.zeros(B, T, S), so they are float32"
    " on the CPU, whatever the inputs are",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "default dtype and device of torch.zeros",
    subtle=True,
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
        all_weights = torch.zeros(token.size(0), token.size(1), memory.key.size(1))
        contexts = []
        for t in range(token.size(1)):
            scores = self.score(states[:, t : t + 1], memory.key)
            context, weights = attend(scores, memory.value, memory.mask)
            contexts.append(context)
            all_weights[:, t : t + 1] = weights
        context = torch.cat(contexts, dim=1)
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), all_weights, last[0]


@wrong(
    "removes the axis of the target positions if there is a single token: logits (B, V)"
    " instead of (B, 1, V)",
    "Even a single target position has an axis of its own, of length one.",
    "squeeze(1) where T may be 1",
    subtle=True,
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
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional).squeeze(1), weights, last[0]


@wrong(
    "keeps the mask of the first call on the object and uses it for all later memories",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "mask kept from the first call",
    subtle=True,
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
        if getattr(self, "mask", None) is None:
            self.mask = memory.mask
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, self.mask
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]


@wrong(
    "uses the mask of the first sentence for all sentences: right as long as all"
    " sources are equally long",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "mask[0] for the whole batch",
    subtle=True,
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
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask[0]
        )
        attentional = torch.tanh(
            self.attentional_proj(torch.cat([context, states], dim=-1))
        )
        return self.head(attentional), weights, last[0]
