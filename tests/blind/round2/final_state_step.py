import torch
from torch import nn

from blind import right, wrong
from attention_course.seq2seq import Memory

CACHE = "What `step` is handed as `cache` is the state before the first of its tokens, and the last that it returns is the state after the last of them."
ALONE = "A step depends only on what it is handed: the decoder may have remembered other sources in between."
TOKENS = "It takes T tokens at once; when the model answers by itself, T is 1."
ONE = "Its weight is one, in the dtype and on the device of the states."
WEIGHTS = "The second that it returns are the weights over the slots of the memory, (B, T, slots)"
RETURN = "Logits (B, T, V), weights (B, T, 1), and the state after the last token (B,\n            D)."
SAME = "Leave what you are handed unchanged."


class OneSlotDecoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state

    def decode(self, target, memory, need_weights=False):
        # the weights cost nothing here: they come asked for or not
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def remember(self, encoded):
        c = encoded.final[:, None]
        return Memory(value=c, key=c, mask=encoded.mask[..., :1], state=self.bridge(encoded.final).tanh())


@right("one token after the other")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, h = [], cache[None].contiguous()
        for t in range(token.size(1)):
            out, h = self.rnn(self.embedding(token[:, t : t + 1]), h)
            states.append(out)
        states = torch.cat(states, dim=1)
        return self.head(states), torch.ones_like(states[..., :1]), h[0]


@right("the GRU written out")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        r, h, states = self.rnn, cache, []
        for x in self.embedding(token).unbind(1):
            i_r, i_z, i_n = (x @ r.weight_ih_l0.T + r.bias_ih_l0).chunk(3, -1)
            h_r, h_z, h_n = (h @ r.weight_hh_l0.T + r.bias_hh_l0).chunk(3, -1)
            z = (i_z + h_z).sigmoid()
            h = (1 - z) * (i_n + (i_r + h_r).sigmoid() * h_n).tanh() + z * h
            states.append(h)
        states = torch.stack(states, 1)
        return self.head(states), states.new_ones(*token.shape, 1), h


@right("the last state taken from the states, the weight as a softmax over one slot")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = self.rnn(self.embedding(token), cache.unsqueeze(0).contiguous())[0]
        weights = states.new_zeros(token.size(0), token.size(1), 1).softmax(-1)
        return self.head(states), weights, states[:, -1]


@right("each sentence alone")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        runs = [self.rnn(self.embedding(y)[None], h[None, None].contiguous()) for y, h in zip(token, cache)]
        states = torch.cat([run[0] for run in runs])
        last = torch.cat([run[1][0] for run in runs])
        weights = torch.full((*token.shape, 1), 1.0, dtype=states.dtype, device=states.device)
        return self.head(states), weights, last


@wrong("starts from zero", breaks=CACHE, name="cache not used")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("the layer's axis stays on", breaks=RETURN, name="state with three axes")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last


@wrong("one weight for all steps", breaks=WEIGHTS, name="weights without the axis of the steps")
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), states.new_ones(token.size(0), 1), last[0]


@wrong("always starts from the memory's state", breaks=CACHE, name="first state at every step", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), memory.state[None].contiguous())
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("the decoder goes on from the last state that it had itself", breaks=ALONE, name="state kept in the decoder", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def remember(self, encoded):
        self.hidden = None
        return super().remember(encoded)

    def step(self, token, memory, cache):
        kept = getattr(self, "hidden", None)
        if kept is None or kept.shape != cache.shape:
            kept = cache
        states, last = self.rnn(self.embedding(token), kept[None].contiguous())
        self.hidden = last[0]
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("ones of the default dtype", breaks=ONE, name="weights in another dtype", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong("every token starts from the cache", breaks=TOKENS, name="state not carried from token to token", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        outs = [self.rnn(self.embedding(y[:, None]), cache[None].contiguous())[0] for y in token.unbind(1)]
        states = torch.cat(outs, 1)
        return self.head(states), states.new_ones(*token.shape, 1), states[:, -1]


@wrong("the weights sum to one over the steps", breaks=ONE, name="weight shared among the steps", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states), states.new_zeros(*token.shape, 1).softmax(1), last[0]


@wrong("writes the new state into the cache", breaks=SAME, name="input changed", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].clone())
        cache.data.copy_(last[0])
        return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("one token loses its axis in the logits", breaks=RETURN, name="axis of length one lost", subtle=True)
class FinalStateDecoder(OneSlotDecoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        return self.head(states).squeeze(1), states.new_ones(*token.shape, 1), last[0]
