import torch
from torch import nn

from attention_course.seq2seq import Memory

from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """The right answer to section 3, on which this question builds."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


# ---------------------------------------------------------------- wrong answers


@wrong(
    "puts c before the embedding",
    "Concatenate the embedding of each token and $c$, in this order.",
    "concatenated in the wrong order",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([context, self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "gives c to the first token of the call only, and zeros to the others",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "c for the first token only",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        nothing = torch.zeros_like(memory.value).expand(-1, token.size(1) - 1, -1)
        context = torch.cat([memory.value, nothing], dim=1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "concatenates the decoder's first state instead of c (needs D = E)",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "memory.state instead of memory.value",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.state[:, None].expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "starts every call from memory.state: right for the first token only",
    "The other arguments and results of `step` are as in section 5.",
    "memory.state instead of cache",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "keeps the c of the first call (until the size of the batch changes)",
    "Take the source and the state from the arguments of `step`, not from anything that"
    " an earlier call has stored: the decoder may have remembered other sources in the"
    " meantime.",
    "c of an earlier call",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)
        self.context = None

    def step(self, token, memory, cache):
        if self.context is None or self.context.size(0) != token.size(0):
            self.context = memory.value
        context = self.context.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "repeats along the batch and reshapes: sentences get one another's c (right for T = 1"
    " and for B = 1)",
    "$c$ is the same for all T tokens: it is the one slot of the memory, `memory.value`"
    " (B, 1, E).",
    "c mixed up between sentences",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        size, steps = token.shape
        context = memory.value.repeat(steps, 1, 1).view(size, steps, -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "squeeze() without an axis: a single sentence loses the axis of the batch",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze of all axes",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.squeeze()[:, None].expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "detaches c: the encoder learns from the first state only",
    "Gradients must be right, too.",
    "c detached",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.detach().expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "one weight for the whole call instead of one for each token (right for T = 1)",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).",
    "weights for one token only",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        context = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), context], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong(
    "collects the inputs in torch.zeros, which is float32, and the GRU refuses them",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "inputs always float32",
    subtle=True,
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        width = self.embedding.embedding_dim
        inputs = torch.zeros(*token.shape, self.rnn.input_size, device=token.device)
        inputs[..., :width] = self.embedding(token)
        inputs[..., width:] = memory.value
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


# ---------------------------------------------------------------- right answers


@right("c is looked up with the weights, as attention would")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        weights = embedded.new_zeros(*token.shape, 1).softmax(dim=-1)
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        states, last = self.rnn(torch.cat((embedded, context), 2), cache[None])
        return self.head(states), weights, last[0]


@right("one token after the other")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value[:, 0]
        state, states = cache, []
        for t in range(token.shape[1]):
            x = torch.hstack([self.embedding(token[:, t]), c])
            _, new = self.rnn(x[:, None], state[None])
            state = new[0]
            states.append(state)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., -1:]), state


@right("the gates written out in float64, the two halves of the weight apart")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, width = self.rnn, self.embedding.embedding_dim
        w_x, w_h = rnn.weight_ih_l0.double(), rnn.weight_hh_l0.double()
        of_c = memory.value.double() @ w_x[:, width:].T + rnn.bias_ih_l0.double()
        read = self.embedding(token).double() @ w_x[:, :width].T + of_c  # (B, T, 3 D)
        h, states = cache.double(), []
        for t in range(token.size(1)):
            r_x, z_x, n_x = read[:, t].chunk(3, dim=-1)
            r_h, z_h, n_h = (h @ w_h.T + rnn.bias_hh_l0.double()).chunk(3, dim=-1)
            z = (z_x + z_h).sigmoid()
            h = torch.lerp((n_x + (r_x + r_h).sigmoid() * n_h).tanh(), h, z)
            states.append(h)
        states = torch.stack(states, 1).to(cache.dtype)
        weights = states.new_ones((*token.shape, 1))
        return self.head(states), weights, states[:, -1]


@right("repeat_interleave, time first through transposes")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        steps = token.size(1)
        words = self.embedding(token.t())  # (T, B, width)
        context = memory.value.transpose(0, 1).repeat_interleave(steps, dim=0)
        inputs = torch.cat([words, context], dim=-1).transpose(0, 1)
        states, last = self.rnn(inputs.contiguous(), cache.unsqueeze(0).contiguous())
        weights = torch.full_like(states[..., :1], 1.0)
        return self.head(states), weights, last.view_as(cache)
