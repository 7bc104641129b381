import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

GRU = r"h_t &= \mathrm{GRU}([y_{t-1}; c_t],\, h_{t-1}) \\"
HEAD = r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])"
WEIGHTS = r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_{t-1}, k_s) \\"
ORDER = "In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token."
LOGITS = "Do not apply a softmax to the logits, because the loss does that."
MASK = "`mask` (B, 1, S), where True means that a position is allowed"
RETURNS = "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D)."
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
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


@right("the equations of the GRU written out by hand")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache.unsqueeze(1), memory.key), memory.value, memory.mask
        )
        x = torch.cat([embedded, context], dim=-1)[:, 0]
        ours = F.linear(x, self.rnn.weight_ih, self.rnn.bias_ih).chunk(3, dim=-1)
        old = F.linear(cache, self.rnn.weight_hh, self.rnn.bias_hh).chunk(3, dim=-1)
        reset, keep = torch.sigmoid(ours[0] + old[0]), torch.sigmoid(ours[1] + old[1])
        state = keep * cache + (1 - keep) * torch.tanh(ours[2] + reset * old[2])
        features = torch.cat([state, context[:, 0], embedded[:, 0]], dim=-1)
        return self.head(features)[:, None], weights, state


@right("one sentence after the other, joined at the end")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        logits, weights, states = [], [], []
        for b in range(token.size(0)):
            one = slice(b, b + 1)
            embedded = self.embedding(token[one, 0])
            scores = self.score(cache[one][None], memory.key[one])
            share = masked_softmax(scores, memory.mask[one])
            context = (share @ memory.value[one]).squeeze(1)
            state = self.rnn(torch.cat([embedded, context], dim=1), cache[one])
            logits.append(self.head(torch.cat([state, context, embedded], dim=1)))
            weights.append(share)
            states.append(state)
        return torch.stack(logits), torch.cat(weights), torch.cat(states)


@right("the head is cut into three matrices, and the products are added")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        asks = cache.reshape(cache.size(0), 1, -1)
        weights = masked_softmax(self.score(asks, memory.key), memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        embedded = F.embedding(token[:, -1], self.embedding.weight)
        state = self.rnn(torch.hstack([embedded, context]), cache)
        parts = [state, context, embedded]
        pieces = self.head.weight.split([part.size(1) for part in parts], dim=1)
        logits = self.head.bias
        for part, piece in zip(parts, pieces):
            logits = logits + part @ piece.mT
        return logits.unsqueeze(1), weights, state


@right("a one-hot product instead of a look-up, and the functional GRU cell")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        table = self.embedding.weight
        chosen = F.one_hot(token, table.size(0)).to(table.dtype) @ table
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, mask=memory.mask
        )
        pair = torch.cat([chosen, context], dim=2)
        rnn = self.rnn
        state = torch.gru_cell(
            pair.flatten(1),
            cache,
            rnn.weight_ih,
            rnn.weight_hh,
            rnn.bias_ih,
            rnn.bias_hh,
        )
        logits = self.head(torch.cat([state[:, None], context, chosen], dim=2))
        return logits, weights, state


@wrong(
    "gives [context; embedding] to the GRU",
    breaks=ORDER,
    name="the wrong order in the input of the GRU",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([context, embedded], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "computes the logits from the state before the update",
    breaks=HEAD,
    name="the old state goes into the head",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([cache[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "asks a second time, with the new state, and uses that context for the head",
    breaks=WEIGHTS,
    name="the state after the update is the query of the head's context",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        context, weights = attend(
            self.score(state[:, None], memory.key), memory.value, memory.mask
        )
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "returns the weights without the axis of the target position",
    breaks=RETURNS,
    name="weights (B, S) instead of (B, 1, S)",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights[:, 0], state


@wrong(
    "applies log_softmax to the logits, which the loss would not even notice",
    breaks=LOGITS,
    name="log probabilities instead of logits",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits.log_softmax(dim=-1), weights, state


@wrong(
    "looks the token up with padding_idx=0",
    breaks=GRADIENTS,
    name="the embedding of token 0 gets no gradient",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = F.embedding(token, self.embedding.weight, padding_idx=0)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "attends without the mask of the memory",
    breaks=MASK,
    name="padding gets weight",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "writes the new state into the tensor of the old one",
    breaks=INPUTS,
    name="the caller's cache is overwritten",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        cache.data.copy_(state.data)
        return logits, weights, state


@wrong(
    "keeps the mask of the first source and uses it for every memory of the same shape",
    breaks=CALLS,
    name="the mask of an earlier source",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
        self.mask = None

    def step(self, token, memory, cache):
        if self.mask is None or self.mask.shape != memory.mask.shape:
            self.mask = memory.mask
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, self.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


@wrong(
    "writes the GRU by hand and multiplies the reset gate with the state, before the matrix",
    breaks=GRU,
    name="not the GRU of torch: the reset gate is applied too early",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        rnn, x = self.rnn, torch.cat([embedded, context], dim=-1)[:, 0]
        r_in, z_in, n_in = F.linear(x, rnn.weight_ih, rnn.bias_ih).chunk(3, dim=-1)
        r_w, z_w, n_w = rnn.weight_hh.chunk(3)
        r_b, z_b, n_b = rnn.bias_hh.chunk(3)
        reset = torch.sigmoid(r_in + F.linear(cache, r_w, r_b))
        keep = torch.sigmoid(z_in + F.linear(cache, z_w, z_b))
        new = torch.tanh(n_in + F.linear(reset * cache, n_w, n_b))
        state = (1 - keep) * new + keep * cache
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state
