import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=value, value=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("the weights of the input are split, so that c is multiplied only once")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, width = self.rnn, self.embedding.embedding_dim
        for_words, for_c = rnn.weight_ih_l0.tensor_split([width], dim=1)
        fixed = memory.value @ for_c.T + rnn.bias_ih_l0
        given = self.embedding(token) @ for_words.T + fixed
        h, states = cache, []
        for x in given.unbind(1):
            own = rnn.weight_hh_l0 @ h.T + rnn.bias_hh_l0[:, None]
            (rx, zx, nx), (rh, zh, nh) = x.chunk(3, 1), own.T.chunk(3, 1)
            z = (zx + zh).sigmoid()
            h = (1 - z) * (nx + (rx + rh).sigmoid() * nh).tanh() + z * h
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), torch.ones_like(states[:, :, :1]), h


@right("one call of the GRU for each token, with an input that is filled by slices")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        width = self.embedding.embedding_dim
        state, columns = cache[None].contiguous(), []
        for t in range(token.size(1)):
            inputs = cache.new_empty(len(token), 1, self.rnn.input_size)
            inputs[:, 0, :width] = self.embedding(token[:, t])
            inputs[:, :, width:] = memory.value
            read, state = self.rnn(inputs, state)
            columns.append(read)
        states = torch.cat(columns, dim=1)
        weights = torch.softmax(states[..., :1], dim=-1).detach()
        return self.head(states), weights, state[0]


@right("every sentence alone, as an unbatched sequence")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        logits, lasts = [], []
        for ids, c, state in zip(token, memory.value, cache):
            inputs = torch.cat([self.embedding(ids), c.repeat(len(ids), 1)], dim=1)
            read, last = self.rnn(inputs, state[None].contiguous())
            logits.append(self.head(read))
            lasts.append(last[0])
        weights = memory.mask.expand(-1, token.size(1), -1).to(cache.dtype)
        return torch.stack(logits), weights, torch.stack(lasts)


@right(
    "a table of one-hot rows for the embedding, time first, with torch.gru in float64"
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        wide = [p.double() for p in self.rnn.parameters()]
        hot = F.one_hot(token.T, self.embedding.num_embeddings).double()
        words = torch.einsum("tbv,vw->tbw", hot, self.embedding.weight.double())
        context = torch.stack([memory.value[:, 0].double()] * token.size(1))
        states, last = torch.gru(
            torch.cat([words, context], dim=2),
            cache.double()[None].contiguous(),
            wide,
            True,
            1,
            0.0,
            self.training,
            False,
            False,
        )
        states = states.transpose(0, 1).to(cache.dtype)
        weights = cache.new_full((*token.shape, 1), 1)
        return self.head(states), weights, last[0].to(cache.dtype)


@wrong(
    "puts c before the embedding",
    breaks="Concatenate the embedding of each token and $c$, in this order.",
    name="concatenates in the wrong order",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([context, words], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "shifts the tokens by one more position, as if they were y_t and not y_{t-1}",
    breaks="Predict the token after each of T tokens.",
    name="shifts the tokens twice",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        words = F.pad(words, (0, 0, 1, -1))
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeats c along the batch and reshapes, so the sentences get each other's c",
    breaks="$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).",
    name="repeat along the wrong axis",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value.repeat(token.size(1), 1, 1).reshape(*token.shape, -1)
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "feeds its own best guess after the first token instead of the given tokens",
    breaks="In training, the whole target is known, so `decode` passes all of its tokens to `step` in one call.",
    name="ignores the given tokens after the first",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, logits, y = cache[None].contiguous(), [], token[:, :1]
        for _ in range(token.size(1)):
            inputs = torch.cat([self.embedding(y), memory.value], dim=-1)
            read, state = self.rnn(inputs, state)
            logits.append(self.head(read))
            y = logits[-1].argmax(dim=-1)
        logits = torch.cat(logits, dim=1)
        return logits, logits.new_ones(*token.shape, 1), state[0]


@wrong(
    "returns the state before the tokens",
    breaks="Return the logits, the weights, and the state after the last token.",
    name="returns the old state",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), cache


@wrong(
    "gives c to the first token of a call only, and zeros to the others",
    breaks="$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E).",
    name="c only for the first token",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = F.pad(memory.value, (0, 0, 0, token.size(1) - 1))
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "the weights have one row for each sentence, not one for each token",
    breaks="The weights (B, T, slots) say how much of each slot went into each step.",
    name="weights without the axis T",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(len(token), 1, 1), last[0]


@wrong(
    "transposes the tokens in place to loop over them",
    breaks="Do not change the inputs.",
    name="transposes the tokens in place",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, logits = cache[None].contiguous(), []
        for y in token.t_():
            inputs = torch.cat([self.embedding(y)[:, None], memory.value], dim=-1)
            read, state = self.rnn(inputs, state)
            logits.append(self.head(read))
        logits = torch.cat(logits, dim=1)
        return logits, torch.ones_like(logits[..., :1]), state[0]


@wrong(
    "returns the logits in float32, for a stable loss",
    breaks="The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    name="logits always in float32",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        words = self.embedding(token)
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states).float(), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "keeps c of the first source in the decoder, as long as the shape is the same",
    breaks="Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime.",
    name="c of an earlier source",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    context = None

    def step(self, token, memory, cache):
        words = self.embedding(token)
        if self.context is None or self.context.shape != memory.value.shape:
            self.context = memory.value
        context = self.context.expand(-1, token.size(1), -1)
        inputs = torch.cat([words, context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
