import torch
from torch import nn
from torch.nn import functional as F

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        return Memory(
            value=slot,
            key=slot,
            mask=encoded.mask[..., :1],
            state=torch.tanh(self.bridge(encoded.final)),
        )

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("one GRU cell call per token")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        weights_and_biases = tuple(self.rnn.parameters())
        state, logits = cache, []
        for ids in token.unbind(dim=1):
            state = torch.gru_cell(self.embedding(ids), state, *weights_and_biases)
            logits.append(self.head(state))
        weights = state.new_ones((*token.shape, 1))
        return torch.stack(logits, dim=1), weights, state


def _gru_step(x, h, rnn):
    reset_x, update_x, new_x = F.linear(x, rnn.weight_ih_l0, rnn.bias_ih_l0).chunk(3, -1)
    reset_h, update_h, new_h = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, -1)
    reset = torch.sigmoid(reset_x + reset_h)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + reset * new_h)
    return new + update * (h - new)


@right("the equations of the GRU by hand")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = [cache]
        for t in range(token.size(1)):
            states.append(_gru_step(self.embedding(token[:, t]), states[-1], self.rnn))
        h = torch.stack(states[1:], dim=1)
        return self.head(h), torch.ones_like(h[..., :1]), states[-1]


@right("each sentence alone, without an axis for the batch")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rows = [
            self.rnn(self.embedding(ids), state[None])[0]
            for ids, state in zip(token, cache)
        ]
        h = torch.stack(rows)
        last = torch.stack([row[-1] for row in rows])
        # a softmax over one slot
        return self.head(h), torch.softmax(torch.zeros_like(h[..., :1]), dim=-1), last


@right("head as a matrix product, weights from the mask, state as the last of all states")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = F.embedding(token, self.embedding.weight)
        h, _ = self.rnn(embedded, torch.unsqueeze(cache, 0).contiguous())
        weights = memory.mask.to(h.dtype).expand(-1, token.size(1), -1)
        logits = h @ self.head.weight.mT + self.head.bias
        return logits, weights, h[:, -1]


@wrong(
    "ignores the cache, so every call starts from zeros",
    "The state before the first token comes in as `cache`.",
    "state before the first token ignored",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "starts every call from the memory's first state instead of the cache",
    "The state before the first token comes in as `cache`.",
    "memory.state instead of cache",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns the last state as (1, B, D), with the axis of the layers",
    "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D).",
    "axis of the layers left in the state",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong(
    "weights always float32 on the CPU",
    "Give the weights the dtype and the device of the states.",
    "weights in the default dtype",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong(
    "returns the state after the first token, which is the last one only if T is 1",
    "Return the logits, the weights, and the state after the last token.",
    "state after the first token",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]


@wrong(
    "softmax over the T tokens instead of the slot, so a weight is 1 / T",
    "This memory has only one slot, so every weight is one.",
    "softmax over the wrong axis",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        weights = states.new_zeros(*token.shape, 1).softmax(dim=1)
        return self.head(states), weights, last[0]


@wrong(
    "dropout on the embeddings in train mode, so the GRU does not read y",
    "Here, $y_{t-1}$ stands for the embedding of the previous token.",
    "dropout that the lab does not ask for",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = F.dropout(self.embedding(token), p=0.1, training=self.training)
        states, last = self.rnn(embedded, cache[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "writes the new state over the caller's cache, which may be memory.state",
    "Do not change the inputs.",
    "changes cache in place",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        logits = self.head(states)
        cache.data.copy_(last[0].detach())
        return logits, states.new_ones(*token.shape, 1), last[0]


@wrong(
    "takes several tokens for the start of a target and then begins at memory.state",
    "The state before the first token comes in as `cache`.",
    "cache ignored if T is more than one",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        # training passes the whole target, generation one token
        state = memory.state if token.size(1) > 1 else cache
        states, last = self.rnn(self.embedding(token), state[None])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "goes on from the state that it stored in the last call, not from the cache",
    "Take the source and the state from the arguments of `step`, not from anything that"
    " an earlier call has stored: the decoder may have remembered other sources in the"
    " meantime.",
    "state stored on the decoder",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def start(self, memory):
        self.state = None
        return memory.state

    def step(self, token, memory, cache):
        state = getattr(self, "state", None)
        if state is None or state.shape != cache.shape:
            state = cache
        states, last = self.rnn(self.embedding(token), state[None])
        self.state = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
