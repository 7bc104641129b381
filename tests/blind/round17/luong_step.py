import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

GRU = r"h_t &= \mathrm{GRU}(y_{t-1},\, h_{t-1}) \\"
WEIGHTS = r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_t, k_s) \\"
HEAD = r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)"
CACHE = "The cache is again a state (B, D), the one before the first token."
AFTER = "Logits (B, T, V), weights (B, T, S), and the state after the last token (B,"
TOKENS = "Write `step` so that it takes T tokens (B, T)."
FIRST = "cache: (B, D), the state before the first of the tokens."
GRADIENTS = "Gradients must be right, too."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
MODES = "in train mode and in eval mode"
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


class Decoder(nn.Module):
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


@right("one token after the other, each with its own attention")
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
        state, logits, weights = cache.unsqueeze(0), [], []
        for t in range(token.size(1)):
            output, state = self.rnn(self.embedding(token[:, t : t + 1]), state)
            context, share = attend(
                self.score(output, memory.key), memory.value, memory.mask
            )
            pair = torch.cat((context, output), dim=2)
            logits.append(self.head(self.attentional_proj(pair).tanh()))
            weights.append(share)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), state.squeeze(0)


@right("the functional GRU cell with the parameters of the layer")
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
        for one in self.embedding(token).unbind(dim=1):
            state = torch.gru_cell(
                one,
                state,
                rnn.weight_ih_l0,
                rnn.weight_hh_l0,
                rnn.bias_ih_l0,
                rnn.bias_hh_l0,
            )
            states.append(state)
        queries = torch.stack(states, dim=1)
        weights = masked_softmax(self.score(queries, memory.key), memory.mask)
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        attentional = self.attentional_proj(torch.cat([context, queries], dim=-1))
        return self.head(attentional.tanh()), weights, state


@right("W_c is cut in two, and the last of all states is the new cache")
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
        states = self.rnn(self.embedding(token), cache[None].contiguous())[0]
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        width = memory.value.size(-1)
        left = self.attentional_proj.weight[:, :width]
        right_hand = self.attentional_proj.weight[:, width:]
        mapped = weights @ (memory.value @ left.mT) + states @ right_hand.mT
        return self.head(torch.tanh(mapped)), weights, states[:, -1]


@right("all states first, then one query after the other, one sentence after the other")
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
        tables, vectors = [], []
        for b in range(token.shape[0]):
            rows = [
                attend(
                    self.score(one[None, None], memory.key[b : b + 1]),
                    memory.value[b : b + 1],
                    memory.mask[b : b + 1],
                )
                for one in states[b]
            ]
            context = torch.cat([row[0][0] for row in rows])
            tables.append(torch.cat([row[1][0] for row in rows]))
            vectors.append(self.attentional_proj(torch.hstack([context, states[b]])))
        logits = self.head(torch.stack(vectors).tanh())
        return logits, torch.stack(tables), last.sum(dim=0)


@wrong(
    "gives [state; context] to W_c",
    breaks=HEAD,
    name="the wrong order in the attentional vector",
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
        pair = torch.cat([states, context], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, last[0]


@wrong(
    "leaves out the tanh around W_c",
    breaks=HEAD,
    name="the attentional vector is linear",
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
    "runs the GRU without its first state",
    breaks=FIRST,
    name="every call begins with a state of zeros",
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
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, last[0]


@wrong(
    "asks with the states before the updates",
    breaks=WEIGHTS,
    name="the queries of Bahdanau's order",
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
        before = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        context, weights = attend(
            self.score(before, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, last[0]


@wrong(
    "returns the last attentional vector as the new cache",
    breaks=AFTER,
    name="the cache is the attentional vector instead of the state",
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
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, attentional[:, -1]


@wrong(
    "takes id 0 for padding and returns the state after the last other token",
    breaks=AFTER,
    name="the state does not include a last token whose id is 0",
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
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        place = torch.arange(1, token.size(1) + 1, device=token.device)
        end = ((token != 0) * place).amax(dim=1)  # 0: there are only zeros
        all_states = torch.cat([cache[:, None], states], dim=1)
        rows = torch.arange(token.size(0), device=token.device)
        return self.head(attentional), weights, all_states[rows, end]


@wrong(
    "detaches the cache before the update",
    breaks=GRADIENTS,
    name="no gradient flows into the state before the first token",
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
        states, last = self.rnn(self.embedding(token), cache.detach()[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, last[0]


@wrong(
    "takes long targets in pieces of 32 tokens, which all begin with the cache",
    breaks=TOKENS,
    name="the state is not carried from one piece to the next",
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
        pieces = []
        for piece in token.split(32, dim=1):
            output, last = self.rnn(self.embedding(piece), cache[None])
            pieces.append(output)
        states = torch.cat(pieces, dim=1)
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, last[0]


@wrong(
    "returns only the logits of the last token in eval mode",
    breaks=MODES,
    name="in eval mode, the logits have one position instead of T",
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
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        if not self.training:  # a search needs the next token only
            attentional = attentional[:, -1:]
        return self.head(attentional), weights, last[0]


@wrong(
    "remembers its last state and continues from it when it gets a single token",
    breaks=CALLS,
    name="the cache is ignored after the first call",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)
        self.last = None

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        if token.size(1) == 1 and self.last is not None:
            if self.last.shape == cache.shape and self.last.dtype == cache.dtype:
                cache = self.last
        states, last = self.rnn(self.embedding(token), cache[None])
        self.last = last[0].detach()
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        pair = torch.cat([context, states], dim=-1)
        attentional = torch.tanh(self.attentional_proj(pair))
        return self.head(attentional), weights, last[0]
