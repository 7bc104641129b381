"""Answers to `final_state_step`."""
import torch
import torch.nn.functional as F
from torch import nn

from attention_course.seq2seq import Memory
from blind import right, wrong


class OneSlotDecoder(nn.Module):
    """The decoder of section 3, with its remember."""

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
        # the weights cost nothing here, so they are always returned
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


@right('calls the network once for each token')
class FinalStateDecoder_right1(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = []
        for t in range(token.size(1)):
            one, last = self.rnn(self.embedding(token[:, t : t + 1]), cache[None].contiguous())
            cache = last[0]
            states.append(one)
        states = torch.cat(states, dim=1)
        weights = states.new_ones(1, 1, 1).expand(*token.shape, 1)
        return self.head(states), weights, cache


@right('writes out the gates of the GRU')
class FinalStateDecoder_right2(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        w_in, w_state, b_in, b_state = self.rnn.all_weights[0]
        inputs = F.linear(self.embedding(token), w_in, b_in)
        states = []
        for x in inputs.unbind(1):
            r_x, z_x, n_x = x.chunk(3, dim=-1)
            r_h, z_h, n_h = F.linear(cache, w_state, b_state).chunk(3, dim=-1)
            r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
            cache = (1 - z) * torch.tanh(n_x + r * n_h) + z * cache
            states.append(cache)
        states = torch.stack(states, dim=1)
        logits = torch.einsum("btd,vd->btv", states, self.head.weight) + self.head.bias
        return logits, torch.ones_like(states[..., :1]).detach(), cache


@right('decodes every sentence of the batch alone')
class FinalStateDecoder_right3(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        logits, last = [], []
        for ids, state in zip(token.split(1), cache.split(1)):
            states, _ = self.rnn(self.embedding(ids), state.unsqueeze(0).contiguous())
            logits.append(self.head(states))
            last.append(states[:, -1])
        weights = cache.new_ones(token.size(0), token.size(1), 1)
        return torch.cat(logits), weights, torch.cat(last)


@right('steps with a GRU cell, and returns a softmax over the one slot as weights')
class FinalStateDecoder_right4(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = [cache]
        for ids in token.unbind(dim=1):
            states.append(torch.gru_cell(self.embedding(ids), states[-1], *self.rnn.all_weights[0]))
        stacked = torch.stack(states[1:], dim=1)
        weights = torch.softmax(torch.zeros_like(stacked[:, :, :1]), dim=-1)
        return self.head(stacked), weights, states[-1]


@wrong(
    'Starts every call from the first state in the memory.',
    'The state before the first token comes in as `cache`.',
    'ignores the cache',
)
class FinalStateDecoder_wrong1(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Returns the last state with the axis of the layers.',
    'Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,',
    'axis of layers left in',
)
class FinalStateDecoder_wrong2(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong(
    'Returns probabilities in place of logits.',
    'Return the logits, the weights, and the state after the last token.',
    'softmax over the logits',
)
class FinalStateDecoder_wrong3(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states).softmax(-1), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Makes the weights in the default dtype on the CPU.',
    'Give the weights the dtype and the device of the states.',
    'weights in default dtype',
)
class FinalStateDecoder_wrong4(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), torch.ones(token.size(0), token.size(1), 1), last[0]


@wrong(
    'Takes several tokens at once for the beginning of a target, and starts them from the memory.',
    'The state before the first token comes in as `cache`.',
    'several tokens start from memory',
)
class FinalStateDecoder_wrong5(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        before = cache if token.size(1) == 1 else self.start(memory)
        states, last = self.rnn(self.embedding(token), before[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Detaches the incoming state, so the encoder and the bridge get no gradient.',
    'Gradients must be right, too.',
    'cache is detached',
)
class FinalStateDecoder_wrong6(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache.detach()[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    "Writes the new state into the caller's cache.",
    'Do not change the inputs.',
    'cache is overwritten',
)
class FinalStateDecoder_wrong7(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0].detach())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Returns weights for one step only, however many tokens come in.',
    'The weights (B, T, slots) say how much of each slot went into each step.',
    'weights for one step',
)
class FinalStateDecoder_wrong8(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong(
    'Replaces the embedding of the id 0 by zeros, as if it were always padding.',
    'h_t = \\mathrm{GRU}(y_{t-1},\\, h_{t-1}), \\qquad \\mathrm{logits}_t = \\mathrm{head}(h_t)',
    'embedding of id zero erased',
)
class FinalStateDecoder_wrong9(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = self.embedding(token).masked_fill((token == 0)[..., None], 0)
        states, last = self.rnn(inputs, cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong(
    'Goes on from the state it stored in the last call when it generates one token, until the next source is remembered.',
    'Take the source and the state from the arguments of `step`, not from anything that an earlier call has stored: the decoder may have remembered other sources in the meantime.',
    'state of the last call',
)
class FinalStateDecoder_wrong10(OneSlotDecoder):
    """A decoder that gets the source's final state once, as its first state."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    last = None

    def remember(self, encoded):
        self.last = None
        return super().remember(encoded)

    def step(self, token, memory, cache):
        if token.size(1) == 1 and self.last is not None and self.last.shape == cache.shape:
            cache = self.last
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        self.last = last[0] if token.size(1) == 1 else None
        return self.head(states), states.new_ones(*token.shape, 1), last[0]
