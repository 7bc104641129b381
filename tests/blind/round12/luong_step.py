import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory

from blind import right, wrong


class Decoder(nn.Module):
    """What the decoders of this lab share (given by the notebook)."""

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


@right("one token after the other, with a call of the GRU and of attend for each")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        logits, weights = [], []
        for one in token.unbind(dim=1):
            output, last = self.rnn(self.embedding(one)[:, None], cache[None])
            cache = last[0]
            c, w = attend(self.score(output, memory.key), memory.value, memory.mask)
            tilde = torch.tanh(self.attentional_proj(torch.cat((c, output), dim=-1)))
            logits.append(self.head(tilde))
            weights.append(w)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), cache


@right("the GRU as a loop of torch.gru_cell with the parameters of the layer")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def _states(self, inputs, state):
        for x in inputs.transpose(0, 1):
            state = torch.gru_cell(
                x,
                state,
                self.rnn.weight_ih_l0,
                self.rnn.weight_hh_l0,
                self.rnn.bias_ih_l0,
                self.rnn.bias_hh_l0,
            )
            yield state

    def step(self, token, memory, cache):
        states = torch.stack([*self._states(self.embedding(token), cache)], dim=1)
        scores = self.score(states, memory.key)
        weights = torch.where(memory.mask, scores, -torch.inf).softmax(dim=2)
        context = torch.einsum("bts,bse->bte", weights, memory.value)
        mixed = self.attentional_proj(torch.cat([context, states], dim=2))
        return self.head(mixed.tanh()), weights, states[:, -1]


@right("W_c and the head as plain matrices, and float64 from the scores on")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        kind = cache.dtype
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key).double()
        weights = masked_softmax(scores, memory.mask)
        context = weights @ memory.value.double()
        matrix = self.attentional_proj.weight.double()
        width = memory.value.size(-1)
        tilde = (
            context @ matrix[:, :width].T + states.double() @ matrix[:, width:].T
        ).tanh()
        logits = tilde @ self.head.weight.double().T + self.head.bias.double()
        return logits.to(kind), weights.to(kind), last[0]


@right("each query becomes a sentence of its own in a batch of B times T")
class LuongDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def decode(self, target, memory, need_weights=False):
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        number, length = token.shape
        states, last = self.rnn(self.embedding(token), cache.unsqueeze(0).contiguous())
        queries = states.reshape(number * length, 1, -1)
        key, value, mask = (
            x.repeat_interleave(length, dim=0)
            for x in (memory.key, memory.value, memory.mask)
        )
        context, weights = attend(self.score(queries, key), value, mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, queries], dim=-1)))
        logits = self.head(tilde)
        return (
            logits.view(number, length, -1),
            weights.view(number, length, -1),
            last.squeeze(0),
        )


@wrong(
    "asks with the states before the updates, as in Bahdanau's order",
    "In Luong's order, the decoder updates its state first and asks with the new one.",
    "the query is the state before the update",
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        queries = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        scores = self.score(queries, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last[0]


@wrong(
    "concatenates the state before the context",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "context and state are swapped",
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([states, context], dim=-1)))
        return self.head(tilde), weights, last[0]


@wrong(
    "leaves out the tanh",
    r"\tilde{h}_t &= \tanh(W_c [c_t; h_t]), \qquad \mathrm{logits}_t = \mathrm{head}(\tilde{h}_t)",
    "no tanh in the attentional vector",
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(tilde), weights, last[0]


@wrong(
    "does not give the cache to the GRU, which then starts from zeros",
    "The cache is again a state (B, D), the one before the first token.",
    "the first state is ignored",
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token))
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last[0]


@wrong(
    "squeeze() without an axis on the last state: for a batch of one sentence the cache that it returns is (D,)",
    "Logits (B, T, V), weights (B, T, S), and the state after the last token (B,\n            D).",
    "squeeze removes the batch axis of length one",
    subtle=True,
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last.squeeze()


@wrong(
    "returns the logits in float32 whatever the model's dtype is, because the loss is more precise so",
    "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    "logits have the wrong dtype",
    subtle=True,
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde).float(), weights, last[0]


@wrong(
    "detaches the state that it returns: a target that is read in two calls gives the first tokens no gradient from the second call",
    "Gradients must be right, too.",
    "the cache is detached",
    subtle=True,
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last[0].detach()


@wrong(
    "keeps the last state on self and goes on from it, instead of from the cache, if a single token comes: a search that steps twice from one cache gets another state the second time",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "the state is kept on self",
    subtle=True,
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        kept = getattr(self, "kept", None)
        goes_on = token.size(1) == 1 and cache is not memory.state
        if goes_on and kept is not None and kept.shape == cache.shape:
            cache = kept
        states, last = self.rnn(self.embedding(token), cache[None])
        self.kept = last[0]
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last[0]


@wrong(
    "in eval mode, takes only the last of the T tokens, because the student thinks that a trained model gets one token at a time",
    "Write `step` so that it takes T tokens (B, T).",
    "only one token in eval mode",
    subtle=True,
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        if not self.training:
            token = token[:, -1:]
        states, last = self.rnn(self.embedding(token), cache[None])
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last[0]


@wrong(
    "its own softmax exponentiates the scores as they are: scores of 100 give infinity / infinity, scores of -200 give 0 / 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "the softmax overflows",
    subtle=True,
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
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache[None])
        powers = self.score(states, memory.key).exp() * memory.mask
        weights = powers / powers.sum(dim=-1, keepdim=True)
        context = weights @ memory.value
        tilde = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(tilde), weights, last[0]
