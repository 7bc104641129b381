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
    """The __init__ of the notebook."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)


@right("softmax of its own over scores of minus infinity, the context by einsum")
class OwnSoftmax(Given):
    def step(self, token, memory, cache):
        scores = self.score(cache.unsqueeze(1), memory.key)
        scores = scores.masked_fill(~memory.mask, -torch.inf)
        weights = torch.softmax(scores, dim=2)
        c = torch.einsum("bts,bse->be", weights, memory.value)
        y = self.embedding(token).flatten(1)
        h = self.rnn(torch.hstack([y, c]), cache)
        return self.head(torch.hstack([h, c, y])).unsqueeze(1), weights, h


@right("the head in three pieces that are added, as W[h; c; y] allows")
class HeadInPieces(Given):
    def step(self, token, memory, cache):
        c, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        y = self.embedding(token)
        h = self.rnn(torch.cat([y, c], 2).squeeze(1), cache)
        pieces = (h[:, None], c, y)
        columns = self.head.weight.split([p.size(-1) for p in pieces], dim=1)
        logits = sum(p @ w.mT for p, w in zip(pieces, columns)) + self.head.bias
        return logits, weights, h


@right("the cell's equations by hand, on tensors that keep the axis for the position")
class CellByHand(Given):
    def step(self, token, memory, cache):
        h = cache.view(cache.size(0), 1, -1)
        weights = masked_softmax(self.score(h, memory.key), memory.mask)
        c = weights.matmul(memory.value)
        y = self.embedding(token)
        cell = self.rnn
        a = F.linear(torch.cat((y, c), -1), cell.weight_ih, cell.bias_ih).chunk(3, -1)
        b = F.linear(h, cell.weight_hh, cell.bias_hh).chunk(3, -1)
        r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
        n = torch.tanh(a[2] + r * b[2])
        h = n + z * (h - n)
        return self.head(torch.cat((h, c, y), dim=-1)), weights, h[:, 0]


@right("sentence by sentence, without the padded positions")
class SentenceBySentence(Given):
    def step(self, token, memory, cache):
        logits, states, everywhere = [], [], torch.zeros_like(memory.mask).to(cache)
        for b in range(token.size(0)):
            seen = memory.mask[b, 0]
            key, value = memory.key[b : b + 1, seen], memory.value[b : b + 1, seen]
            weights = self.score(cache[b : b + 1, None], key).softmax(-1)
            c = (weights.transpose(1, 2) * value).sum(1)
            y = self.embedding(token[b])
            h = self.rnn(torch.cat([y, c], 1), cache[b : b + 1])
            logits.append(self.head(torch.cat([h, c, y], 1)))
            states.append(h)
            everywhere[b, 0, seen] = weights[0, 0]
        return torch.stack(logits), everywhere, torch.cat(states)


@wrong(
    "the head reads the state before the update",
    breaks="\\mathrm{logits}_t &= \\mathrm{head}([h_t; c_t; y_{t-1}])",
    name="head([h_{t-1}; c; y])",
)
class OldHead(Given):
    def step(self, token, memory, cache):
        query = cache[:, None]
        c, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        return self.head(torch.cat([query, c, y], dim=-1)), weights, state


@wrong(
    "the head reads state, embedding and context: the order that the GRU's input has",
    breaks="`[a; b]` means: attached one behind the other, in this order, with the"
    " embedding of the token for $y_{t-1}$.",
    name="[h; y; c] for [h; c; y]",
)
class HeadOrder(Given):
    def step(self, token, memory, cache):
        c, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        x = torch.cat([self.embedding(token), c], dim=-1)
        state = self.rnn(x[:, 0], cache)
        return self.head(torch.cat([state[:, None], x], dim=-1)), weights, state


@wrong(
    "asks the whole rectangle",
    breaks="`mask` (B, 1, S), where True = may attend",
    name="mask left out",
    subtle=True,
)
class NoMask(Given):
    def step(self, token, memory, cache):
        c, weights = attend(self.score(cache[:, None], memory.key), memory.value)
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state


@wrong(
    "fills masked scores with -100",
    breaks="Your code works for every length from one on, for large numbers as for small"
    " ones, in train mode and in eval mode.",
    name="a number that is not small enough for a mask",
    subtle=True,
)
class MinusHundred(Given):
    def step(self, token, memory, cache):
        scores = self.score(cache[:, None], memory.key)
        weights = scores.masked_fill(~memory.mask, -100.0).softmax(dim=-1)
        c = weights @ memory.value
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state


@wrong(
    "takes the softmax over all positions, and then zeroes those that are masked",
    breaks="\\alpha_{ts} &= \\mathrm{softmax}_s\\, \\mathrm{score}(h_{t-1}, k_s)",
    name="masked after the softmax",
    subtle=True,
)
class MaskAfter(Given):
    def step(self, token, memory, cache):
        scores = self.score(cache[:, None], memory.key)
        weights = scores.softmax(dim=-1) * memory.mask
        c = torch.bmm(weights, memory.value)
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state


@wrong(
    "takes the softmax in float32 and returns these weights",
    breaks="What comes in stays as it is, and what goes out has its dtype and its"
    " device.",
    name="weights in float32",
    subtle=True,
)
class Float32(Given):
    def step(self, token, memory, cache):
        scores = self.score(cache[:, None], memory.key)
        weights = masked_softmax(scores.float(), memory.mask)
        c = weights.to(memory.value.dtype) @ memory.value
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state


@wrong(
    "writes the new state over the old one",
    breaks="What comes in stays as it is",
    name="cache overwritten in place",
    subtle=True,
)
class CacheInPlace(Given):
    def step(self, token, memory, cache):
        c, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        cache.data[:] = state.data
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state


@wrong(
    "cuts the gradient at the state of the step before",
    breaks="All of them are trained on dates, with your own code inside.",
    name="cache detached",
    subtle=True,
)
class Detached(Given):
    def step(self, token, memory, cache):
        cache = cache.detach()
        c, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state


@wrong(
    "squeezes the position off, and the batch with it if it is one sentence",
    breaks="Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).",
    name="squeeze without an axis",
    subtle=True,
)
class Squeeze(Given):
    def step(self, token, memory, cache):
        c, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, c], dim=-1).squeeze(), cache.squeeze())
        c, y = c.squeeze(), y.squeeze()
        logits = self.head(torch.cat([state, c, y], dim=-1)).unsqueeze(-2)
        return logits, weights, state


@wrong(
    "updates with the context of the step before, which it keeps on self",
    breaks="h_t &= \\mathrm{GRU}([y_{t-1}; c_t],\\, h_{t-1})",
    name="last step's context in the update",
    subtle=True,
)
class LateContext(Given):
    context = None

    def step(self, token, memory, cache):
        c, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, memory.mask
        )
        before = self.context
        if cache is memory.state or before is None or before.shape != c.shape:
            before = c
        self.context = c.detach()
        y = self.embedding(token)
        state = self.rnn(torch.cat([y, before], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], c, y], dim=-1))
        return logits, weights, state
