import math

import torch
from torch import nn
from torch.nn import functional as F

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
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."


class Decoder(nn.Module):
    """What the decoders of this lab share."""

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
        # the weights cost nothing here, so they are always returned
        cache, logits, weights = self.start(memory), [], []
        for token in target.split(1, dim=1):
            step_logits, step_weights, cache = self.step(token, memory, cache)
            logits.append(step_logits)
            weights.append(step_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


def gates(x, h, w_ih, w_hh, b_ih, b_hh):
    """One GRU update written out: x (B, width), h (B, D)."""
    from_x = F.linear(x, w_ih, b_ih).chunk(3, dim=-1)
    from_h = F.linear(h, w_hh, b_hh).chunk(3, dim=-1)
    reset = torch.sigmoid(from_x[0] + from_h[0])
    keep = torch.sigmoid(from_x[1] + from_h[1])
    new = torch.tanh(from_x[2] + reset * from_h[2])
    return (1 - keep) * new + keep * h


def finish(self, states, memory):
    """What comes after the update: logits, weights and attentional vector."""
    scores = self.score(states, memory.key)
    context, weights = attend(scores, memory.value, memory.mask)
    both = torch.cat([context, states], dim=-1)
    attentional = torch.tanh(self.attentional_proj(both))
    return self.head(attentional), weights, attentional


ZEROS = "Before the first step, the attentional vector consists of zeros."
LIKE = "Give it the same width, dtype and device as the state."
FEED = "concatenate the last attentional vector to the next input."
FORMULA = r"h_t = \mathrm{GRU}([y_{t-1}; \tilde{h}_{t-1}],\, h_{t-1})"
KEEP = (
    "So `step` must not change the cache that it gets, and must not store anything on"
    " `self` or on its parts."
)
TWO = "`start` and `step` must put into it the two things that the next step needs."


@wrong(
    "begins with the first state instead of zeros",
    breaks=ZEROS,
    name="the first input is fed the state",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, memory.state

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, (last[0], attentional[:, 0])


@wrong(
    "feeds the last state, which the GRU knows anyway",
    breaks=FEED,
    name="feeds the state instead of the attentional vector",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, _ = finish(self, states, memory)
        return logits, weights, (last[0], last[0])


@wrong(
    "puts the attentional vector before the embedding",
    breaks=FORMULA,
    name="parts of the input exchanged",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([feed[:, None], self.embedding(token)], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, (last[0], attentional[:, 0])


@wrong(
    "makes the zeros in float32 on the CPU",
    breaks=LIKE,
    name="torch.zeros without dtype and device",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros(*memory.state.shape)

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, (last[0], attentional[:, 0])


@wrong(
    "hides the attentional vector on one of its layers instead of in the cache",
    breaks=KEEP,
    name="the attentional vector lives on a part of self",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        self.attentional_proj.last = torch.zeros_like(memory.state)[:, None]
        return memory.state

    def step(self, token, memory, cache):
        feed = self.attentional_proj.last
        inputs = torch.cat([self.embedding(token), feed], dim=-1)
        states, last = self.rnn(inputs, cache[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        self.attentional_proj.last = attentional
        return logits, weights, last[0]


@wrong(
    "keeps both in a list, which each step overwrites and returns",
    breaks=KEEP,
    name="changes the cache that it gets",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return [memory.state, torch.zeros_like(memory.state)]

    def step(self, token, memory, cache):
        inputs = torch.cat([self.embedding(token), cache[1][:, None]], dim=-1)
        states, last = self.rnn(inputs, cache[0][None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        cache[0], cache[1] = last[0], attentional[:, 0]
        return logits, weights, cache


@wrong(
    "detaches the attentional vector before it feeds it",
    breaks=GRADIENTS,
    name="no gradient through the fed vector",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, (last[0], attentional[:, 0].detach())


@wrong(
    "feeds the vector as it is before the tanh",
    breaks=FEED,
    name="feeds the vector without its tanh",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        scores = self.score(states, memory.key)
        context, weights = attend(scores, memory.value, memory.mask)
        mixed = self.attentional_proj(torch.cat([context, states], dim=-1))
        return self.head(torch.tanh(mixed)), weights, (last[0], mixed[:, 0])


@wrong(
    "feeds in training only and zeros afterwards",
    breaks=LENGTHS,
    name="no input feeding in eval mode",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, feed = cache
        if not self.training:
            feed = torch.zeros_like(feed)
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, (last[0], attentional[:, 0])


@wrong(
    "squeeze() on the two parts of the cache: fails at the second step of one sentence",
    breaks=TWO,
    name="the cache of a single sentence loses an axis",
)
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)

    def step(self, token, memory, cache):
        state, feed = cache
        inputs = torch.cat([self.embedding(token), feed[:, None]], dim=-1)
        states, last = self.rnn(inputs, state[None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, (last.squeeze(), attentional.squeeze())


@right("one tensor (B, 2D) as the cache")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return F.pad(memory.state, (0, memory.state.shape[-1]))

    def step(self, token, memory, cache):
        state, feed = cache.chunk(2, dim=-1)
        inputs = torch.cat([self.embedding(token), feed.unsqueeze(1)], dim=-1)
        states, last = self.rnn(inputs, state.unsqueeze(0).contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, torch.cat([last[0], attentional[:, 0]], dim=-1)


@right("a new dictionary at each step, the vector with its axis for the position")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        batch, width = memory.state.shape
        nothing = memory.state.new_zeros(batch, 1, width)
        return {"state": memory.state, "attentional": nothing}

    def step(self, token, memory, cache):
        inputs = torch.cat((self.embedding(token), cache["attentional"]), dim=2)
        states, _ = self.rnn(inputs, cache["state"][None].contiguous())
        logits, weights, attentional = finish(self, states, memory)
        return logits, weights, {"state": states[:, -1], "attentional": attentional}


@right("the GRU written out and W_c split, one stacked tensor as the cache")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        return torch.stack([torch.zeros_like(memory.state), memory.state])

    def step(self, token, memory, cache):
        feed, state = cache.unbind(dim=0)
        rnn = self.rnn
        state = gates(
            torch.cat([self.embedding(token[:, 0]), feed], dim=-1),
            state,
            rnn.weight_ih_l0,
            rnn.weight_hh_l0,
            rnn.bias_ih_l0,
            rnn.bias_hh_l0,
        )
        weights = masked_softmax(self.score(state[:, None], memory.key), memory.mask)
        context = torch.einsum("bts,bse->be", weights, memory.value)
        width = context.shape[-1]
        matrix = self.attentional_proj.weight
        feed = context @ matrix[:, :width].mT + state @ matrix[:, width:].mT
        feed = torch.tanh(feed)
        return self.head(feed)[:, None], weights, torch.stack([feed, state])


@right("sentence by sentence, with a pair for each sentence in the cache")
class InputFeedingDecoder(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def start(self, memory):
        zeros = torch.full_like(memory.state, 0.0)
        return tuple(zip(memory.state.split(1), zeros.split(1)))

    def step(self, token, memory, cache):
        logits, weights, following = [], [], []
        for b, (state, feed) in enumerate(cache):
            word = self.embedding(token[b : b + 1])
            inputs = torch.cat([word, feed.unsqueeze(1)], dim=-1)
            states, last = self.rnn(inputs, state.reshape(1, 1, -1).contiguous())
            context, row = attend(
                self.score(states, memory.key[b : b + 1]),
                memory.value[b : b + 1],
                memory.mask[b : b + 1],
            )
            both = torch.cat([context, states], dim=-1)
            attentional = self.attentional_proj(both).tanh()
            logits.append(self.head(attentional))
            weights.append(row)
            following.append((last[0], attentional[:, 0]))
        return torch.cat(logits), torch.cat(weights), tuple(following)
