from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


# given in the notebook
class Decoder(nn.Module):
    """What the decoders of this lab share.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state, and so of a query.
        memory_dim: width E of the encoder's states, and so of the values.
        score: compares queries of width D with keys.
    """

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


@right('torch.gru as a function, einsum, the projection in two parts')
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        weights_of_rnn = list(self.rnn.parameters())
        states, last = torch.gru(
            self.embedding(token),
            cache.unsqueeze(0).contiguous(),
            weights_of_rnn,
            True,  # has biases
            1,  # layers
            0.0,  # dropout
            self.training,
            False,  # bidirectional
            True,  # batch first
        )
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        w_context, w_state = self.attentional_proj.weight.tensor_split(
            [context.shape[-1]], dim=1
        )
        attentional = torch.tanh(
            torch.einsum("bte,de->btd", context, w_context)
            + torch.einsum("bth,dh->btd", states, w_state)
        )
        return self.head(attentional), weights, last.squeeze(0)


@right('a loop of gru_cell over the tokens, own softmax over all queries')
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        rnn, state, states = self.rnn, cache, []
        for embedded in self.embedding(token).unbind(dim=1):
            state = torch.gru_cell(
                embedded,
                state,
                rnn.weight_ih_l0,
                rnn.weight_hh_l0,
                rnn.bias_ih_l0,
                rnn.bias_hh_l0,
            )
            states.append(state)
        queries = torch.stack(states, dim=1)
        scores = self.score(queries, memory.key)
        forbidden = memory.mask.logical_not().expand_as(scores)
        weights = F.softmax(scores.masked_fill(forbidden, -torch.inf), dim=2)
        context = torch.bmm(weights, memory.value)
        attentional = self.attentional_proj(torch.cat((context, queries), 2)).tanh()
        return self.head(attentional), weights, state


@right('divide and conquer: the first half of the tokens, then the second half')
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        length = token.shape[1]
        if length > 1:
            first, second = token[:, : length // 2], token[:, length // 2 :]
            logits1, weights1, between = self.step(first, memory, cache)
            logits2, weights2, last = self.step(second, memory, between)
            return torch.cat([logits1, logits2], 1), torch.cat([weights1, weights2], 1), last
        _, last = self.rnn(self.embedding(token), cache[None].contiguous())
        query = last.transpose(0, 1)
        context, weights = attend(self.score(query, memory.key), memory.value, memory.mask)
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, query], -1)))
        return self.head(attentional), weights, last[0]


@right('the states at once, the attention one query at a time, joined at the end')
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states = self.rnn(self.embedding(token), cache.clone()[None])[0]
        found = [
            attend(self.score(query, memory.key), memory.value, memory.mask)
            for query in states.split(1, dim=1)
        ]
        context = torch.cat([one for one, _ in found], dim=1)
        weights = torch.cat([one for _, one in found], dim=1)
        both = torch.concat((context, states), dim=-1)
        attentional = (both @ self.attentional_proj.weight.T).tanh()
        return self.head(attentional), weights, states[:, -1].clone()


@wrong(
    'projects [h; c] instead of [c; h]',
    'In the equations, `[a; b]` means that a and b are concatenated in this order, and $y_{t-1}$ stands for the embedding of the token.',
    'wrong order in the attentional vector',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([states, context], -1)))
        return self.head(attentional), weights, last[0]


@wrong(
    'asks with the states before the update, as Bahdanau does',
    "In Luong's order, the decoder updates its state first and asks with the new one.",
    'the old state is the query',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        queries = torch.cat([cache[:, None], states[:, :-1]], dim=1)
        context, weights = attend(
            self.score(queries, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, last[0]


@wrong(
    'starts the GRU from zeros and never reads the cache',
    'The cache is again a state (B, D), the one before the first token.',
    'cache ignored',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token))
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, last[0]


@wrong(
    'squeezes the last state, which loses the batch axis when B is 1',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'squeeze() removes the batch axis when B is 1',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, last.squeeze()


@wrong(
    "inserts the axis of the layers into the caller's cache itself, which then is (1, B, D)",
    'Do not change the inputs.',
    'changes the shape of the cache in place',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache.unsqueeze_(0))
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, last[0]


@wrong(
    'works through the tokens in pieces of 32 and starts each piece from the cache again',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'state lost between pieces of a long target',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        # pieces, so that the scores of a long target fit into the memory
        logits, weights = [], []
        for piece in token.split(32, dim=1):
            states, last = self.rnn(self.embedding(piece), cache[None])
            context, piece_weights = attend(
                self.score(states, memory.key), memory.value, memory.mask
            )
            both = torch.cat([context, states], dim=-1)
            logits.append(self.head(torch.tanh(self.attentional_proj(both))))
            weights.append(piece_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1), last[0]


@wrong(
    'returns the logits in float32 for the sake of the loss',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'logits in float32 whatever the dtype of the model',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional).float(), weights, last[0]


@wrong(
    "starts from the memory's first state instead of the cache: right whenever decode calls it",
    'cache: (B, D), the state before the first of the tokens.',
    'always starts from the first state',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), self.start(memory)[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(attentional), weights, last[0]


@wrong(
    'takes id 0 for padding and returns the state after the last other token',
    'Logits (B, T, V), weights (B, T, S), and the state after the last token (B,',
    'skips tokens with id 0',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, last = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        attentional = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        steps = torch.arange(token.shape[1], device=token.device)
        end = torch.where(token != 0, steps, 0).amax(dim=1)
        rows = torch.arange(len(token), device=token.device)
        return self.head(attentional), weights, states[rows, end]


@wrong(
    'hands on the last attentional vector instead of the last state, which has the same shape',
    'The cache is again a state (B, D), the one before the first token.',
    'attentional vector returned as the state',
)
class LuongDecoder(Decoder):
    """Update, then ask: the state after the update is the query."""

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
        states, _ = self.rnn(self.embedding(token), cache[None])
        context, weights = attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        states = torch.tanh(self.attentional_proj(torch.cat([context, states], -1)))
        return self.head(states), weights, states[:, -1]
