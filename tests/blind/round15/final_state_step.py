import torch
import torch.nn.functional as F
from attention_course.seq2seq import Memory
from blind import right, wrong
from torch import nn

INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."

CACHE = "The state before the first token comes in as `cache`."
STORED = "Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime."
ONES = "This memory has only one slot, so every weight is one."
WEIGHTS = "Give the weights the dtype and the device of the states."
AFTER = "Return the logits, the weights, and the state after the last token."
SHAPES = "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B, D)."
FORMULA = "h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)"


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


@right('torch.gru_cell, token by token')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn, states = self.rnn, []
        for x in self.embedding(token).unbind(dim=1):
            cache = torch.gru_cell(
                x, cache, rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0
            )
            states.append(cache)
        states = torch.stack(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), cache


@right('the equations of the GRU by hand, all input gates at once')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        rnn = self.rnn
        gates = F.linear(self.embedding(token), rnn.weight_ih_l0, rnn.bias_ih_l0)
        h, states = cache, []
        for t in range(token.size(1)):
            own = torch.addmm(rnn.bias_hh_l0, h, rnn.weight_hh_l0.mT)
            (xr, xz, xn), (hr, hz, hn) = gates[:, t].chunk(3, -1), own.chunk(3, -1)
            new = (xn + (xr + hr).sigmoid() * hn).tanh()
            h = new + (xz + hz).sigmoid() * (h - new)
            states.append(h[:, None])
        states = torch.cat(states, 1)
        logits = torch.einsum("btd,vd->btv", states, self.head.weight) + self.head.bias
        return logits, states.new_ones(*token.shape, 1), states[:, -1]


@right('the GRU in one call; the state is the last one of all states')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache.unsqueeze(0).contiguous())
        weights = torch.full(
            (states.size(0), states.size(1), 1), 1.0, dtype=states.dtype, device=states.device
        )
        return self.head(states), weights, states.select(1, -1)


@right('the GRU on one token at a time, logits concatenated')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        hidden, logits = cache[None].contiguous(), []
        for one in token.split(1, dim=1):
            out, hidden = self.rnn(self.embedding(one), hidden)
            logits.append(self.head(out))
        weights = hidden.new_ones(1).expand(token.size(0), token.size(1), 1)
        return torch.cat(logits, dim=1), weights.clone(), hidden.squeeze(0)


@wrong('starts from memory.state in every call, so generation starts afresh at each token',
       breaks=CACHE,
       name='ignores cache')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('weights sum to one over the tokens instead of the slots',
       breaks=ONES,
       name='weights normalised over the tokens')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = states.new_zeros(*token.shape, 1)
        return self.head(states), scores.softmax(dim=1), last[0]


@wrong('weights are float32',
       breaks=WEIGHTS,
       name='float32 weights')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        weights = torch.ones(*token.shape, 1, device=states.device)
        return self.head(states), weights, last[0]


@wrong('every token of a call starts from cache, none from the state before it',
       breaks=FORMULA,
       name='state not passed on between the tokens')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = []
        for t in range(token.size(1)):
            out, last = self.rnn(self.embedding(token[:, t : t + 1]), cache[None].contiguous())
            states.append(out)
        states = torch.cat(states, dim=1)
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('logits from the state before the token, not after it',
       breaks=FORMULA,
       name='logits one state too early')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        before = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        return self.head(before), states.new_ones(*token.shape, 1), last[0]


@wrong('a step of one token goes on from the state that the last call has stored',
       breaks=STORED,
       name='state stored in the decoder')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        stored = getattr(self, "stored", None)
        if token.size(1) == 1 and stored is not None and stored.shape == cache.shape:
            cache = stored
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        self.stored = last[0].detach()
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("writes the new state into the caller's cache",
       breaks=INPUTS,
       name='cache changed in place')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('detaches the cache: no gradient reaches the bridge and the encoder',
       breaks=GRADIENTS,
       name='gradient of the cache cut off')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache.detach()[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong('takes id 0 for padding, and returns the state after the last other token',
       breaks=AFTER,
       name='state at the last token that is not PAD')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        positions = torch.arange(token.size(1), device=token.device)
        last = torch.where(token != 0, positions, 0).amax(1)
        final = states[torch.arange(token.size(0), device=token.device), last]
        return self.head(states), states.new_ones(*token.shape, 1), final


@wrong('squeezes the axis of the tokens if there is only one',
       breaks=SHAPES,
       name='squeeze removes the tokens')
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states).squeeze(1), states.new_ones(*token.shape, 1), last[0]
