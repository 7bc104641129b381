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


@right("softmax by hand and einsum; the head's matrix is cut into three parts")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token).squeeze(1)  # (B, embedding)
        e = self.score(cache.unsqueeze(1), memory.key)
        e = e.masked_fill(memory.mask.logical_not(), torch.finfo(e.dtype).min)
        top = e.amax(dim=-1, keepdim=True).detach()
        raised = (e - top).exp() * memory.mask
        total = raised.sum(dim=-1, keepdim=True)
        weights = raised / (total + (total == 0))
        context = torch.einsum("bts,bse->be", weights, memory.value)
        state = self.rnn(torch.hstack([y, context]), cache)
        widths = [state.size(-1), context.size(-1), y.size(-1)]
        parts = self.head.weight.split(widths, dim=1)
        logits = self.head.bias
        for vector, matrix in zip((state, context, y), parts):
            logits = logits + vector @ matrix.T
        return logits.unsqueeze(1), weights, state


@right("computes the GRU cell by hand from its matrices")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def update(self, x, h):
        cell = self.rnn
        r_x, z_x, n_x = F.linear(x, cell.weight_ih, cell.bias_ih).chunk(3, dim=-1)
        r_h, z_h, n_h = F.linear(h, cell.weight_hh, cell.bias_hh).chunk(3, dim=-1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        n = torch.tanh(n_x + r * n_h)
        return n + z * (h - n)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        x = torch.cat([embedded, context], dim=2)
        state = self.update(x, cache[:, None])  # (B, 1, D)
        logits = self.head(torch.cat([state, context, embedded], dim=2))
        return logits, weights, state[:, 0]


@right("a loop over the sentences; picks the allowed positions instead of masking")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        scores = self.score(torch.stack([cache], dim=1), memory.key)
        contexts, rows = [], []
        for row, value, mask in zip(scores, memory.value, memory.mask):
            allowed = mask[0]
            share = row[0][allowed].softmax(dim=-1)
            contexts.append(share @ value[allowed])
            rows.append(torch.zeros_like(row[0]).masked_scatter(allowed, share))
        context, weights = torch.stack(contexts), torch.stack(rows)
        embedded = self.embedding(token[:, 0])
        state = self.rnn(torch.cat([embedded, context], dim=-1), cache)
        logits = self.head(torch.cat([state, context, embedded], dim=-1))
        return logits[:, None], weights[:, None], state


@right("attention in float64, transposed, with an extra attribute and a helper")
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
        self.sizes = (vocab_size, embedding_dim, hidden_dim, memory_dim)

    def look(self, state, memory):
        scores = self.score(state[:, None, :], memory.key)
        precise = masked_softmax(scores.double(), memory.mask)
        found = memory.value.double().transpose(1, 2) @ precise.transpose(1, 2)
        return found[:, :, 0].to(memory.value.dtype), precise.to(scores.dtype)

    def step(self, token, memory, cache):
        context, weights = self.look(cache, memory)
        y = self.embedding(token).flatten(1)
        new = self.rnn(torch.cat((y, context), 1), cache)
        logits = self.head(torch.cat((new, context, y), 1))
        return logits.view(-1, 1, self.sizes[0]), weights, new


@wrong(
    "updates the state first, with a context of zeros, and asks with the new state",
    "In Bahdanau's order, the decoder looks first.",
    "Luong's order",
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        nothing = torch.zeros_like(memory.value[:, :1])
        state = self.rnn(torch.cat([embedded, nothing], dim=-1)[:, 0], cache)
        context, weights = attend(
            self.score(state[:, None], memory.key), memory.value, memory.mask
        )
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "gives the GRU [context; embedding] instead of [embedding; context]",
    "In the equations, `[a; b]` means that a and b are concatenated in this order, and"
    " $y_{t-1}$ stands for the embedding of the token.",
    "wrong order of concatenation in the update",
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
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "the head reads the state before the update",
    r"\mathrm{logits}_t &= \mathrm{head}([h_t; c_t; y_{t-1}])",
    "old state in the head",
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
        features = torch.cat([cache[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "never looks at the memory's mask, so padding gets weights",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "mask forgotten",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "projects the keys of the memory once more: no harm with DotScore, which maps"
    " nothing, but wrong with a score that has a matrix for the keys",
    "Its fields are `key` (B, S, A), already projected by `project_keys`; `value` (B,"
    " S, E); `mask` (B, 1, S), where True means that a position is allowed; and `state`"
    " (B, D), the first state.",
    "keys projected twice",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        key = self.score.project_keys(memory.key)
        context, weights = attend(
            self.score(cache[:, None], key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "the query is always the memory's first state, which is right in the first step"
    " only",
    "The cache is the state $h_{t-1}$ (B, D).",
    "memory.state instead of the cache as the query",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        context, weights = attend(
            self.score(memory.state[:, None], memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "squeeze() without an axis also removes the batch axis of a single sentence; then"
    " the concatenation for the head fails",
    "So a batch of tokens has the shape (B, 1), and their weights have the shape (B, 1,"
    " S).",
    "squeeze() without dim, batch of one",
    subtle=True,
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
        x = torch.cat([embedded.squeeze(), context.squeeze()], dim=-1)
        state = self.rnn(x, cache.squeeze())
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "fills masked scores with -100: if the allowed scores lie far below (a dot product"
    " of large vectors), the padding gets the weights",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "masked with a number that is not low enough",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        weights = scores.masked_fill(~memory.mask, -100.0).softmax(dim=-1)
        context = weights @ memory.value
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights * memory.mask, state


@wrong(
    "takes the softmax in float32 and returns these weights, so bfloat16 vectors give"
    " float32 weights (logits and state are right)",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "weights of another dtype",
    subtle=True,
)
class BahdanauDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        weights = masked_softmax(scores.float(), memory.mask)
        context = weights.to(memory.value.dtype) @ memory.value
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state


@wrong(
    "detaches the state that it passes on, so no gradient flows from one step to the"
    " step before it; all numbers are right",
    "Gradients must be right, too.",
    "cache detached",
    subtle=True,
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
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(features), weights, state.detach()
