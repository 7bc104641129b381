import torch
from torch import nn

from attention_course.seq2seq import Encoded, EncoderDecoder, Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        c = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=state)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right("a loop over the tokens, each concatenated with the one slot")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state, states = cache[None], []
        for embedded in self.embedding(token).split(1, dim=1):
            both = torch.cat((embedded, memory.value), dim=2)
            out, state = self.rnn(both, state)
            states.append(out)
        states = torch.cat(states, dim=1)
        return self.head(states), states.new_ones(*token.shape, 1), state[0]


@right("the slot repeated by the weights: a product of the weights (B, T, 1) and the value (B, 1, E)")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        weights = torch.ones_like(embedded[..., :1])
        inputs = torch.cat([embedded, weights @ memory.value], dim=-1)
        states, last = self.rnn(inputs, cache.unsqueeze(0))
        return self.head(states), weights, last.squeeze(0)


@right("an empty tensor of inputs whose two parts are filled by slices")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        width = embedded.size(-1)
        inputs = embedded.new_zeros(*token.shape, self.rnn.input_size)
        inputs[..., :width] = embedded
        inputs[..., width:] = memory.value
        states, _ = self.rnn(inputs, torch.stack([cache]))
        weights = states.new_full((*token.shape, 1), 1)
        return self.head(states), weights, states[:, -1]


@right("time first: transposes the inputs and gives each step to a functional GRU cell")
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        r = self.rnn
        c = memory.value.squeeze(1)
        states = []
        for y in self.embedding(token.t()):
            cache = torch.gru_cell(
                torch.hstack([y, c]),
                cache,
                r.weight_ih_l0,
                r.weight_hh_l0,
                r.bias_ih_l0,
                r.bias_hh_l0,
            )
            states.append(cache)
        states = torch.stack(states).transpose(0, 1)
        return self.head(states), states.new_ones(states.shape[:-1])[..., None], cache


@wrong(
    "puts c before the embedding, not after it",
    "Now $c$ is concatenated to every input, after the embedding of the token.",
    "context before the embedding",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([c, self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "starts from memory.state at every call and not from cache",
    "`step` takes the state before the first of its tokens as `cache`, and the last thing that it returns is the state after the last of them.",
    "starts from memory.state, not from cache",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, memory.state[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "gives c with the first of the tokens only, and zeros with the others: right for T = 1",
    "It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "context given to the first token only",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        embedded = self.embedding(token)
        c = embedded.new_zeros(*token.shape, memory.value.size(-1))
        c[:, :1] = memory.value
        inputs = torch.cat([embedded, c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "repeats the batch in place of the time: with B > 1 and T > 1 sentences get each other's c",
    "It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "repeat mixes the contexts of the sentences",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        size, steps = token.shape
        c = memory.value[:, 0].repeat(steps, 1).reshape(size, steps, -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "does not repeat c: works for T = 1, and raises for more tokens at once",
    "It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "context not repeated: only T = 1 works",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), memory.value], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "weights in float32 on the CPU, whatever the model has",
    "What you return has the dtype of the vectors or parameters that it is made from, and is on their device.",
    "weights always float32 on the CPU",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong(
    "takes the axis of the slots off the memory in place: a second step with this memory raises or is wrong",
    "Leave what you are handed unchanged.",
    "changes the shape of memory.value",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value.squeeze_(1)
        c = c.unsqueeze(1).expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "uses the c that remember saw last, not that of the memory: wrong if another source of the same size was remembered in between",
    "A step depends only on its arguments: the decoder may have remembered other sources in between.",
    "uses the source that was remembered last",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)
        self.context = None

    def remember(self, encoded):
        self.context = encoded.final[:, None]
        return super().remember(encoded)

    def step(self, token, memory, cache):
        c = memory.value if self.context is None else self.context
        c = c.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "if encoder and decoder are equally wide, concatenates the state cache in place of memory.value: nearly the same vector at first, another one at later steps",
    "It is the content of the memory's one slot, `memory.value` (B, 1, E), and the same for all T tokens.",
    "concatenates the state, not the context",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        c = memory.value
        if c.size(-1) == cache.size(-1):
            c = cache[:, None]
        c = c.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), c], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]


@wrong(
    "keeps the repeated c of the first call with T tokens and B sentences: another memory of the same shape gets the old c",
    "A step depends only on its arguments: the decoder may have remembered other sources in between.",
    "repeated context cached by its shape",
)
class ContextDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)
        self.contexts = {}

    def step(self, token, memory, cache):
        key = (*token.shape, memory.value.dtype, memory.value.device)
        if key not in self.contexts:
            self.contexts[key] = memory.value.expand(-1, token.size(1), -1)
        inputs = torch.cat([self.embedding(token), self.contexts[key]], dim=-1)
        states, last = self.rnn(inputs, cache[None])
        weights = states.new_ones(*states.shape[:2], 1)
        return self.head(states), weights, last[0]
