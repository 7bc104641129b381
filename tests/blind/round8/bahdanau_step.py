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
    """The lines of BahdanauDecoder that the lab gives."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)


@right("writes the GRU cell out with its weights")
class BahdanauDecoder(Given):
    def gru(self, x, h):
        from_x = nn.functional.linear(x, self.rnn.weight_ih, self.rnn.bias_ih).chunk(3, dim=-1)
        from_h = nn.functional.linear(h, self.rnn.weight_hh, self.rnn.bias_hh).chunk(3, dim=-1)
        reset = torch.sigmoid(from_x[0] + from_h[0])
        update = torch.sigmoid(from_x[1] + from_h[1])
        new = torch.tanh(from_x[2] + reset * from_h[2])
        return new + update * (h - new)

    def step(self, token, memory, cache):
        y = self.embedding(token.squeeze(1))
        context, weights = attend(self.score(cache.unsqueeze(1), memory.key), memory.value, memory.mask)
        h = self.gru(torch.cat([y, context.squeeze(1)], dim=-1), cache)
        return self.head(torch.cat([h, context.squeeze(1), y], dim=-1)).unsqueeze(1), weights, h


@right("a loop over the sentences of the batch")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        rows = []
        for b in range(token.size(0)):
            one = slice(b, b + 1)
            y = self.embedding(token[one])
            context, weights = attend(
                self.score(cache[one, None], memory.key[one]), memory.value[one], memory.mask[one]
            )
            h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache[one])
            rows.append((self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h))
        logits, weights, states = zip(*rows)
        return torch.cat(logits), torch.cat(weights), torch.cat(states)


@right("masked_softmax and einsum, the head split into its three blocks")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        weights = masked_softmax(self.score(cache[:, None], memory.key), memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        y = self.embedding(token).flatten(1)
        h = self.rnn(torch.hstack((y, context)), cache)
        parts = self.head.weight.split([h.size(1), context.size(1), y.size(1)], dim=1)
        logits = sum(x @ w.mT for x, w in zip((h, context, y), parts)) + self.head.bias
        return logits[:, None], weights, h


@right("picks the rows of the table itself, and answers with views of longer tensors")
class BahdanauDecoder(Given):
    def step(self, token, memory, cache, verbose=False):
        y = self.embedding.weight[token]
        scores = self.score(cache.view(len(cache), 1, -1), memory.key)
        context, weights = attend(scores, memory.value, mask=memory.mask)
        read = torch.cat((y, context), dim=2).select(1, 0)
        state = self.rnn(read, cache)
        if verbose:
            print(weights)
        return self.head(torch.cat((state[:, None], context, y), 2)), weights, state


@wrong(
    "updates with the context of zeros first and asks with the new state: Luong's order",
    "Ask, then update: the state before the update looks for what the update will need.",
    "asks with the state after the update",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        nothing = torch.zeros_like(memory.value[:, :1])
        h = self.rnn(torch.cat([y, nothing], dim=-1)[:, 0], cache)
        context, weights = attend(self.score(h[:, None], memory.key), memory.value, memory.mask)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h


@wrong(
    "concatenates context and embedding in the wrong order before the GRU; all widths fit",
    "`[a; b]` means that a and b are concatenated, in this order; $y_{t-1}$ stands for the embedding of the token.",
    "order of concatenation at the GRU",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat([context, y], dim=-1)[:, 0], cache)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h


@wrong(
    "returns log-probabilities",
    "Logits leave the step as they are: the loss takes their softmax.",
    "softmax applied to the logits",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits.log_softmax(dim=-1), weights, h


@wrong(
    "squeeze without an axis: with one sentence (or width one) the axis of the batch is lost",
    "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).",
    "squeeze also removes a batch of one",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1).squeeze(), cache.squeeze())
        logits = self.head(torch.cat([h, context.squeeze(), y.squeeze()], dim=-1))
        return logits.unsqueeze(-2), weights, h


@wrong(
    "writes the new state into the tensor of the old one: memory.state or a cache that a search still needs is changed",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "overwrites the cache",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        cache.data.copy_(h.data)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h


@wrong(
    "masks after the softmax and does not divide again: in padded sentences the weights do not sum to one",
    r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_{t-1}, k_s) \\",
    "mask after the softmax",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        weights = self.score(cache[:, None], memory.key).softmax(dim=-1) * memory.mask
        context = weights @ memory.value
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h


@wrong(
    "forbidden scores become -1e9 and then softmax: a sentence without a token gets equal weights, and scores below -1e9 lose to the padding",
    "`mask` (B, 1, S), where True = may attend, and `state` (B, D), the first state.",
    "large negative number instead of a mask",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        weights = self.score(cache[:, None], memory.key).masked_fill(~memory.mask, -1e9).softmax(dim=-1)
        context = weights @ memory.value
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h


@wrong(
    "keeps the keys, values and mask of the first memory on self: a second batch of the same shape is read from the first one's memory",
    "Write one step.",
    "memory of the first call is kept",
)
class BahdanauDecoder(Given):
    seen = None

    def step(self, token, memory, cache):
        if self.seen is None or self.seen.key.shape != memory.key.shape:
            self.seen = memory
        key, value, mask = self.seen[:3]
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], key), value, mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h


@wrong(
    "the head reads the state before the update: same shapes, and hardly different while states move slowly",
    r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])",
    "old state in the head",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        return self.head(torch.cat([cache[:, None], context, y], dim=-1)), weights, h


@wrong(
    "always begins from memory.state: right at the first step, where the cache is memory.state, wrong at all later steps",
    "The cache is the state $h_{t-1}$ (B, D).",
    "ignores the cache after the first step",
)
class BahdanauDecoder(Given):
    def step(self, token, memory, cache):
        y, before = self.embedding(token), memory.state
        context, weights = attend(self.score(before[:, None], memory.key), memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], before)
        return self.head(torch.cat([h[:, None], context, y], dim=-1)), weights, h
