import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
UPDATE = r"h_t &= \mathrm{GRU}(y_{t-1},\, h_{t-1}) \\"
QUERY = r"\alpha_{ts} &= \mathrm{softmax}_s\, \mathrm{score}(h_t, k_s) \\"
VECTOR = (
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t ="
    r" \mathrm{head}(\tilde{h}_t)"
)
CACHE = "The cache is again a state (B, D), the one before the first token."
LAST = "Logits (B, T, V), weights (B, T, S), and the state after the last token (B,"


class Decoder(nn.Module):
    """Given in the notebook."""

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
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


@right("token by token through the GRU, and one attention for each query")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        state, results = cache[None].contiguous(), []
        for one in token.split(1, dim=1):
            h, state = self.rnn(self.embedding(one), state)
            scores = self.score(h, memory.key)
            c, weights = attend(scores, memory.value, memory.mask)
            vector = torch.tanh(self.attentional_proj(torch.cat((c, h), dim=-1)))
            results.append((self.head(vector), weights))
        logits, weights = (torch.cat(parts, dim=1) for parts in zip(*results))
        return logits, weights, state[0]


@right("the equations of the GRU written out, with all input products at once")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        rnn, h, states = self.rnn, cache, []
        inputs = F.linear(self.embedding(token), rnn.weight_ih_l0, rnn.bias_ih_l0)
        for a in inputs.unbind(1):
            b = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0)
            (ar, az, an), (br, bz, bn) = a.chunk(3, dim=-1), b.chunk(3, dim=-1)
            z = torch.sigmoid(az + bz)
            n = torch.tanh(an + torch.sigmoid(ar + br) * bn)
            h = (1 - z) * n + z * h
            states.append(h)
        states = torch.stack(states, dim=1)
        weights = masked_softmax(self.score(states, memory.key), memory.mask)
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        both = torch.cat((context, states), dim=2)
        return self.head(self.attentional_proj(both).tanh()), weights, h


@right("splits W_c into its two halves, and takes the cache from the states")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache.unsqueeze(0).contiguous())
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        width = context.shape[-1]
        of_context = self.attentional_proj.weight[:, :width]
        of_state = self.attentional_proj.weight[:, width:]
        vector = torch.tanh(context @ of_context.mT + states @ of_state.mT)
        return self.head(vector), weights, states[:, -1].clone()


@right("gru_cell for the states; then sentence by sentence for the attention")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        parameters = [
            getattr(self.rnn, f"{kind}_{side}_l0")
            for kind in ("weight", "bias")
            for side in ("ih", "hh")
        ]
        states = [cache]
        for y in self.embedding.weight[token].unbind(dim=1):
            states.append(torch.gru_cell(y, states[-1], *parameters))
        query = torch.stack(states[1:], dim=1)
        logits, weights = [], []
        for b in range(len(query)):
            one = slice(b, b + 1)
            scores = self.score(query[one], memory.key[one])
            c, w = attend(scores, memory.value[one], memory.mask[one])
            both = torch.cat((c, query[one]), dim=-1)
            logits.append(self.head(torch.tanh(self.attentional_proj(both))))
            weights.append(w)
        return torch.cat(logits), torch.cat(weights), states[-1]


@wrong(
    "asks with the states before each update, as Bahdanau does",
    QUERY,
    "query is the old state",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        query = torch.cat((cache[:, None], states[:, :-1]), dim=1)
        scores = self.score(query, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "concatenates in the order [h; c]",
    VECTOR,
    "state before context in W_c",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((states, c), dim=-1)))
        return self.head(vector), weights, last[0]


@wrong("forgets the tanh of the attentional vector", VECTOR, "tanh is missing")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = self.attentional_proj(torch.cat((c, states), dim=-1))
        return self.head(vector), weights, last[0]


@wrong(
    "returns the last attentional vector as the state after the last token",
    LAST,
    "attentional vector as cache",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        return self.head(vector), weights, vector[:, -1]


@wrong(
    "starts from the memory's state instead of the cache: right for a whole target, and"
    " for the first tokens of a search",
    CACHE,
    "ignores the cache",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        first = memory.state[None].contiguous()
        states, last = self.rnn(self.embedding(token), first)
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "takes token 0 at the end for padding and returns the state after the last token"
    " that is not 0",
    LAST,
    "skips token zero in the cache",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, _ = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        every = torch.cat((cache[:, None], states), dim=1)
        place = torch.arange(1, every.shape[1], device=token.device)
        last = (place * (token != 0)).amax(dim=1)
        sentence = torch.arange(len(token), device=token.device)
        return self.head(vector), weights, every[sentence, last]


@wrong(
    "squeezes the last state, so that a batch of one sentence loses its batch axis",
    LENGTHS,
    "squeeze drops the batch axis",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        return self.head(vector), weights, last.squeeze()


@wrong(
    "detaches the state that it returns: right logits, but a loss after several calls"
    " has no gradient through the first calls",
    GRADS,
    "returned state has no gradient",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        return self.head(vector), weights, last[0].detach()


@wrong(
    "keeps the mask of the first memory and uses it as long as the shape is the same:"
    " the next batch is masked like the first",
    CALLS,
    "mask of an earlier memory",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)
        self._mask = None

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        if self._mask is None or self._mask.shape != memory.mask.shape:
            self._mask = memory.mask
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, self._mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        return self.head(vector), weights, last[0]


@wrong(
    "drops a tenth of the attentional vector in train mode",
    VECTOR,
    "dropout in train mode",
)
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        # all at once: no loop
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None].contiguous())
        scores = self.score(states, memory.key)
        c, weights = attend(scores, memory.value, memory.mask)
        vector = torch.tanh(self.attentional_proj(torch.cat((c, states), dim=-1)))
        vector = F.dropout(vector, 0.1, self.training)
        return self.head(vector), weights, last[0]
