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


@right("one call of the GRU for each token")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state = cache[None].contiguous()
        logits = []
        for column in token.split(1, dim=1):
            read, state = self.rnn(self.embedding(column), state)
            logits.append(self.head(read))
        logits = torch.cat(logits, dim=1)
        weights = torch.ones_like(logits[..., :1])
        return logits, weights, state.squeeze(0)


@right("the equations of the GRU in float64; the inputs' part for all tokens at once")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        wide = {name: p.double() for name, p in self.rnn.named_parameters()}
        inputs = self.embedding(token).double()
        given = F.linear(inputs, wide["weight_ih_l0"], wide["bias_ih_l0"])
        h, states = cache.double(), []
        for t in range(token.size(1)):
            r_x, z_x, n_x = given[:, t].chunk(3, dim=-1)
            own = F.linear(h, wide["weight_hh_l0"], wide["bias_hh_l0"])
            r_h, z_h, n_h = own.chunk(3, dim=-1)
            z = torch.sigmoid(z_x + z_h)
            n = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
            h = torch.lerp(n, h, z)
            states.append(h)
        states = torch.stack(states, dim=1).to(cache.dtype)
        weights = torch.softmax(states.new_zeros(*token.shape, 1), dim=-1)
        return self.head(states), weights, states[:, -1]


@right("time first, with torch.gru_cell and one tensor of weights that is expanded")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        outputs, h = [], cache
        for y in self.embedding(token.T):
            h = torch.gru_cell(y, h, *self.rnn.parameters())
            outputs.append(h)
        logits = torch.einsum("tbd,vd->btv", torch.stack(outputs), self.head.weight)
        weights = torch.ones((), dtype=h.dtype, device=h.device).expand(*token.shape, 1)
        return logits + self.head.bias, weights, h


@right("every sentence alone, as an unbatched sequence, and the mask as weights")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        results = [
            self.rnn(self.embedding(ids), state[None].contiguous())
            for ids, state in zip(token, cache)
        ]
        states = torch.stack([read for read, _ in results])
        last = torch.cat([end for _, end in results])
        weights = memory.mask.to(states.dtype).repeat(1, token.size(1), 1)
        return self.head(states), weights, last


@wrong(
    "starts from zeros instead of the cache",
    breaks="The state before the first token comes in as `cache`.",
    name="ignores the cache",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "starts every call from the decoder's first state instead of the cache",
    breaks="The state before the first token comes in as `cache`.",
    name="starts from memory.state each time",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "returns log-probabilities instead of logits",
    breaks="h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)",
    name="log_softmax of the logits",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        logits = torch.log_softmax(self.head(states), dim=-1)
        return logits, states.new_ones(*token.shape, 1), last[0]


@wrong(
    "loops over the tokens, but each step starts from the cache",
    breaks="h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)",
    name="state not updated in the loop",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        state = cache[None].contiguous()
        outputs = []
        for t in range(token.size(1)):
            read, last = self.rnn(self.embedding(token[:, t : t + 1]), state)
            outputs.append(read)
        states = torch.cat(outputs, dim=1)
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "makes the weights with torch.ones, always in float32",
    breaks="Give the weights the dtype and the device of the states.",
    name="weights in the default dtype",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        weights = torch.ones(*token.shape, 1, device=token.device)
        return self.head(states), weights, last[0]


@wrong(
    "softmax over the T tokens instead of the one slot, which gives 1 / T",
    breaks="This memory has only one slot, so every weight is one.",
    name="softmax over the wrong axis",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        weights = torch.softmax(states.new_zeros(*token.shape, 1), dim=1)
        return self.head(states), weights, last[0]


@wrong(
    "drops the axis of the tokens if there is one token only",
    breaks="Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,",
    name="no axis T in a step of one token",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        logits = self.head(states).squeeze(1)
        return logits, states.new_ones(*token.shape, 1), last[0]


@wrong(
    "goes on from the state that the last call left in the decoder, if the batch is as large",
    breaks="Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime.",
    name="state kept in the decoder",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    kept = None

    def step(self, token, memory, cache):
        if self.kept is None or self.kept.size(1) != len(token):
            self.kept = cache[None].contiguous()
        states, self.kept = self.rnn(self.embedding(token), self.kept)
        return self.head(states), states.new_ones(*token.shape, 1), self.kept[0]


@wrong(
    "writes the new state into the cache",
    breaks="Do not change the inputs.",
    name="changes the cache",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "detaches the cache, so nothing flows back to the source",
    breaks="Gradients must be right, too.",
    name="no gradient through the cache",
)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(
            self.embedding(token), cache.detach()[None].contiguous()
        )
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
