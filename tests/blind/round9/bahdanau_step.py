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


@right("masked_softmax and einsum, gates of the GRUCell by hand")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token[:, 0])
        scores = self.score(cache.unsqueeze(1), memory.key)
        weights = masked_softmax(scores, memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        cell = self.rnn
        gx = F.linear(torch.cat([y, context], 1), cell.weight_ih, cell.bias_ih)
        gh = F.linear(cache, cell.weight_hh, cell.bias_hh)
        (rx, zx, nx), (rh, zh, nh) = gx.chunk(3, 1), gh.chunk(3, 1)
        r, z = (rx + rh).sigmoid(), (zx + zh).sigmoid()
        h = (1 - z) * torch.tanh(nx + r * nh) + z * cache
        logits = self.head(torch.cat([h, context, y], 1))
        return logits[:, None], weights, h


@right("softmax by hand with the row's maximum, context by bmm")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        query = cache.view(cache.size(0), 1, cache.size(1))
        scores = self.score(query, memory.key)
        scores = torch.where(memory.mask, scores, torch.finfo(scores.dtype).min)
        powers = (scores - scores.amax(dim=-1, keepdim=True)).exp() * memory.mask
        weights = powers / powers.sum(dim=-1, keepdim=True).clamp_min(0.5)
        context = torch.bmm(weights, memory.value)
        new = self.rnn(torch.cat([y, context], dim=2).squeeze(1), cache)
        return self.head(torch.cat([new.unsqueeze(1), context, y], dim=2)), weights, new


@right("the sentences one after the other, with only the allowed positions")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        weights, contexts = [], []
        for b in range(token.size(0)):
            allowed = memory.mask[b, 0].nonzero()[:, 0]
            alpha = scores[b, 0, allowed].softmax(0)
            weights.append(scores.new_zeros(scores.size(-1)).index_put((allowed,), alpha))
            contexts.append(alpha @ memory.value[b, allowed])
        weights, context = torch.stack(weights)[:, None], torch.stack(contexts)
        h = self.rnn(torch.cat([y[:, 0], context], dim=-1), cache)
        features = torch.cat([h, context, y[:, 0]], dim=-1)
        return self.head(features)[:, None], weights, h


@right("attend, then the head split into three products")
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache, split=True):
        y = self.embedding(token)
        context, weights = attend(
            self.score(cache[:, None], memory.key), memory.value, mask=memory.mask
        )
        h = self.rnn(torch.cat([y, context], dim=-1).flatten(1), cache)
        parts = [h[:, None], context, y]
        if split:
            pieces = self.head.weight.split([part.size(-1) for part in parts], dim=1)
            logits = self.head.bias
            for part, piece in zip(parts, pieces):
                logits = logits + part @ piece.T
        else:
            logits = self.head(torch.cat(parts, dim=-1))
        return logits, weights, h


@wrong(
    "The mask of the memory is not used: padding gets weight in every batch with sentences of different lengths.",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "forgets the mask",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        context, weights = attend(self.score(cache[:, None], memory.key), memory.value)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h


@wrong(
    "The head gets [y; c; h] instead of [h; c; y]; the widths add up, every logit differs.",
    "In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token.",
    "wrong order in the input of the head",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([y, context, h[:, None]], dim=-1))
        return logits, weights, h


@wrong(
    "log-probabilities are returned instead of logits; they differ by a constant in each row.",
    "Do not apply a softmax to the logits, because the loss does that.",
    "applies a log-softmax to the logits",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits.log_softmax(dim=-1), weights, h


@wrong(
    "The softmax is written without subtracting the maximum: scores above about 88 overflow to inf and give NaN.",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "softmax overflows for large scores",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        powers = self.score(cache[:, None], memory.key).exp() * memory.mask
        weights = powers / powers.sum(dim=-1, keepdim=True)
        context = weights @ memory.value
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h


@wrong(
    "Forbidden scores become -1000 instead of the lowest number: with allowed scores of -1000 and below, the padding gets weight.",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "masks with a number that is not low enough",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        weights = scores.masked_fill(~memory.mask, -1000.0).softmax(dim=-1)
        context = weights @ memory.value
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h


@wrong(
    "squeeze() without an axis: with one sentence the batch axis of the state is lost, GRUCell returns (D,).",
    "Logits (B, 1, V), weights (B, 1, S), and the state after this step (B, D).",
    "squeeze drops the batch axis of one sentence",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1).squeeze(), cache.squeeze())
        features = torch.cat([h.reshape(y.size(0), 1, -1), context, y], dim=-1)
        return self.head(features), weights, h


@wrong(
    "The softmax is computed in float32 and the weights stay float32, while everything else goes back to bfloat16.",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "weights keep a higher precision",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(cache[:, None], memory.key).float()
        context, weights = attend(scores, memory.value.float(), memory.mask)
        context = context.to(y.dtype)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h


@wrong(
    "The query is the first state of the memory instead of the cache: right in the first step, wrong in all later ones.",
    "The cache is the state $h_{t-1}$ (B, D).",
    "asks with the first state in every step",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        scores = self.score(memory.state[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h


@wrong(
    "The mask of the longest sentence is used for all sentences: right if all sentences are equally long or B = 1.",
    "`mask` (B, 1, S), where True means that a position is allowed",
    "one mask for the whole batch",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        y = self.embedding(token)
        mask = memory.mask.any(dim=0, keepdim=True)
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h


@wrong(
    "The embeddings of the tokens are looked up once and kept: after a training step, or a change of dtype or weights, old embeddings are used.",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "keeps old embeddings in a cache",
)
class BahdanauDecoder(Decoder):
    """Ask, then update: the state before the update is the query."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)
        self._table = {}

    def step(self, token, memory, cache):
        for i in token.flatten().tolist():
            if i not in self._table:
                self._table[i] = self.embedding.weight[i]
        y = torch.stack([self._table[i] for i in token[:, 0].tolist()])[:, None]
        scores = self.score(cache[:, None], memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        h = self.rnn(torch.cat([y, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([h[:, None], context, y], dim=-1))
        return logits, weights, h
