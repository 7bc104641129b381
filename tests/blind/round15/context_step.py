import torch
import torch.nn.functional as F
from attention_course.seq2seq import Memory
from blind import right, wrong
from torch import nn

LENGTHS = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."

ORDER = "Concatenate the embedding of each token and $c$, in this order."
SAME = "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value` (B, 1, E)."
STORED = "Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime."
WEIGHTS = "Give the weights the dtype and the device of the states."
CACHE = "cache: (B, D), the state before the first of the tokens."
SHAPES = "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D)."


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        value = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=value, key=value, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('torch.gru_cell, with the context put on at every token')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, context, states = self.rnn, memory.value.select(1, 0), []
        for one in token.unbind(1):
            x = torch.hstack([self.embedding(one), context])
            cache = torch.gru_cell(
                x, cache, rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0
            )
            states.append(cache)
        states = torch.stack(states, 1)
        return self.head(states), torch.ones_like(states[..., :1]), cache


@right("splits the input weights: the context's part is computed once for all tokens")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, width = self.rnn, self.embedding.embedding_dim
        of_token, of_context = rnn.weight_ih_l0[:, :width], rnn.weight_ih_l0[:, width:]
        gates = self.embedding(token) @ of_token.T + memory.value @ of_context.T + rnn.bias_ih_l0
        h, states = cache, []
        for gate in gates.unbind(1):
            own = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
            (xr, xz, xn), (hr, hz, hn) = gate.chunk(3, dim=1), own.chunk(3, dim=1)
            z = torch.sigmoid(xz + hz)
            h = z * h + (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(states.shape[:2]).unsqueeze(-1), h


@right('repeat_interleave for the context, state from the last column')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.repeat_interleave(token.size(1), dim=1)
        inputs = torch.concatenate((self.embedding(token), context), dim=2)
        states, _ = self.rnn(inputs, cache.unsqueeze(0).contiguous())
        logits = F.linear(states, self.head.weight, self.head.bias)
        weights = torch.ones(*token.shape, 1, dtype=states.dtype, device=states.device)
        return logits, weights, states[:, -1, :]


@right('fills an empty input tensor, then the GRU one token at a time')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        width = embedded.size(-1)
        inputs = embedded.new_empty(*token.shape, width + memory.value.size(-1))
        inputs[..., :width] = embedded
        inputs[..., width:] = memory.value
        hidden, states = cache[None].contiguous(), []
        for t in range(token.size(1)):
            out, hidden = self.rnn(inputs[:, t, None], hidden)
            states.append(out)
        states = torch.cat(states, 1)
        return self.head(states), states.new_full((*token.shape, 1), 1), hidden[0]


@wrong('context first, embedding second',
       breaks=ORDER,
       name='concatenated in the wrong order')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([context, self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('only the first token of a call gets the context, the others get zeros',
       breaks=SAME,
       name='context only at the first token')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        later = memory.value.new_zeros(token.size(0), token.size(1) - 1, memory.value.size(-1))
        inputs = torch.cat([self.embedding(token), torch.cat([memory.value, later], 1)], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('repeats along the batch and reshapes: the tokens of one sentence get the vectors of others',
       breaks=SAME,
       name='contexts of other sentences')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        batch, steps = token.shape
        context = memory.value.repeat(steps, 1, 1).reshape(batch, steps, -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('starts from zeros, because the context tells everything',
       breaks=CACHE,
       name='ignores cache')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs)
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('squeeze without an axis: fails for a batch of one sentence, or for vectors of width one',
       breaks=LENGTHS,
       name='squeeze removes too many axes')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.squeeze().unsqueeze(1).expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('detaches the context: the encoder learns only through the first state',
       breaks=GRADIENTS,
       name='gradient of the context cut off')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.detach().expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('the weights are the expanded mask, which is boolean',
       breaks=WEIGHTS,
       name='boolean weights')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), memory.mask.expand(-1, token.size(1), -1), last[0]


@wrong('logits of the last token only',
       breaks=SHAPES,
       name='logits of the last token only')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states[:, -1:]), states.new_ones(*token.shape, 1), last[0]


@wrong('keeps the context of the first call as long as the shape stays the same',
       breaks=STORED,
       name='context stored in the decoder')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = getattr(self, "context", None)
        if context is None or context.shape != memory.value.shape:
            context = self.context = memory.value
        context = context.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('returns the state after the first token of the call',
       breaks=SHAPES,
       name='state after the first token')
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, _ = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]
