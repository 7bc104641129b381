"""Recurrent decoders: final state only, Bahdanau's attention, Luong's attention.

The windows of local attention are in `windows`, and the decoder of Google's translator
is in `gnmt`.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import attend
from attention_course.checks import check_width
from attention_course.fast.dropout import Dropout
from attention_course.rnn.windows import LocalM, LocalP
from attention_course.scores import Score
from attention_course.seq2seq import Encoded, Memory


class FinalStateDecoder(nn.Module):
    r"""The bottleneck: all that the decoder gets from the source is its final state.

    By default, the decoder starts from that state and never sees the source again:

    .. math:: h_0 = \tanh(W c), \quad h_t = \mathrm{GRU}(y_{t-1}, h_{t-1}), \quad
        c = h^{enc}_S

    Sutskever et al. (2014), Section 2. With `every_step`, the same state is
    concatenated with each token:

    .. math:: h_t = \mathrm{GRU}([y_{t-1}; c], h_{t-1})

    Cho et al. (2014), Section 2.2. Either way, the memory has one slot, whose weight is
    one for any score.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state.
        memory_dim: width E of the encoder's final state.
        every_step: use the final state at every step, not only at the start.
        dropout: share of embeddings, and of the output layer's input, that is dropped
            in training.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        hidden_dim: int,
        memory_dim: int,
        every_step: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.every_step = every_step
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.dropout = Dropout(dropout)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.rnn = nn.GRU(
            embedding_dim + memory_dim * every_step, hidden_dim, batch_first=True
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded: Encoded) -> Memory:
        """Keep the final state and nothing else of the source."""
        return one_slot(encoded, first_state(encoded, self.bridge))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Memory, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T 1"]]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`."""
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def start(self, memory: Memory) -> Float[Tensor, "B D"]:
        """Return the state before the first step."""
        return memory.state

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: Memory,
        cache: Float[Tensor, "B D"],
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T 1"], Float[Tensor, "B D"]]:
        """Predict the token after each of T tokens. See `EncoderDecoder.step`."""
        x = self.dropout(self.embedding(token))
        context, weights = attend(
            x.new_zeros(*token.shape, 1), memory.value, memory.mask
        )
        if self.every_step:
            x = torch.cat([x, context], dim=-1)
        states, state = self.rnn(x, cache[None])
        return self.head(self.dropout(states)), weights, state[0]


class BahdanauDecoder(nn.Module):
    r"""Attend, then update: the query is the state *before* the update.

    .. math::

        h_{t-1} \to a_t \to c_t \to h_t: \quad
        a_{ts} = \mathrm{softmax}_s\, \mathrm{score}(h_{t-1}, k_s), \quad
        c_t = \sum_s a_{ts} v_s, \quad
        h_t = \mathrm{GRU}([y_{t-1}; c_t], h_{t-1})

    Bahdanau et al. (2015), Eqs. 4-6 and A.1.2, where h is s, k and v are the
    annotations h_j, a is alpha. The output layer is one linear map of [h_t; c_t;
    y_{t-1}] instead of the paper's maxout layer.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state, and thus of a query.
        memory_dim: width E of the encoder's states, and thus of keys and values.
        score: compares queries of width D with keys of width E.
        dropout: share of embeddings, and of the output layer's input, that is dropped
            in training.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        hidden_dim: int,
        memory_dim: int,
        score: Score,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.dropout = Dropout(dropout)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def remember(self, encoded: Encoded) -> Memory:
        """Keep every state of the source, and project the keys once."""
        return every_slot(encoded, self.score, first_state(encoded, self.bridge))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Memory, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"]]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`.

        Each query is a state that depends on the previous context, so the steps cannot
        run in parallel.
        """
        embedded, state = self.dropout(self.embedding(target)), self.start(memory)
        states, contexts, weights = [], [], []
        for t in range(target.size(1)):
            state, context, step_weights = self._advance(
                embedded[:, t : t + 1], memory, state
            )
            states.append(state[:, None])
            contexts.append(context)
            weights.append(step_weights)
        read = [torch.cat(states, dim=1), torch.cat(contexts, dim=1), embedded]
        features = torch.cat(read, dim=-1)  # (B, T, D + E + embedding)
        return self.head(self.dropout(features)), torch.cat(weights, dim=1)

    def start(self, memory: Memory) -> Float[Tensor, "B D"]:
        """Return the state before the first step."""
        return memory.state

    def step(
        self,
        token: Int[Tensor, "B 1"],
        memory: Memory,
        cache: Float[Tensor, "B D"],
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B 1 V"], Float[Tensor, "B 1 S"], Float[Tensor, "B D"]]:
        """Predict one token. See `EncoderDecoder.step`."""
        if token.size(1) != 1:
            raise ValueError(f"a step takes 1 token, got {token.size(1)}")
        embedded = self.dropout(self.embedding(token))
        state, context, weights = self._advance(embedded, memory, cache)
        features = torch.cat([state[:, None], context, embedded], dim=-1)
        return self.head(self.dropout(features)), weights, state

    def _advance(
        self,
        embedded: Float[Tensor, "B 1 embedding"],
        memory: Memory,
        state: Float[Tensor, "B D"],
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B 1 E"], Float[Tensor, "B 1 S"]]:
        query = state[:, None]  # the state before the update; (B, T = 1, D)
        context, weights = attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], state)
        return state, context, weights


class LuongCache(NamedTuple):
    """What a Luong decoder passes from step to step.

    Attributes:
        state: (B, D), the recurrent state.
        attentional: (B, 1, D), the last attentional vector, for input feeding.
        position: (B,), how many tokens have been read, for a window that moves with
            each step.
    """

    state: Tensor
    attentional: Tensor
    position: Tensor


class LuongDecoder(nn.Module):
    r"""Update, then attend: the query is the state *after* the update.

    .. math::

        h_t \to a_t \to c_t \to \tilde{h}_t: \quad
        h_t = \mathrm{GRU}(y_{t-1}, h_{t-1}), \quad
        a_{ts} = \mathrm{softmax}_s\, \mathrm{score}(h_t, k_s), \quad
        c_t = \sum_s a_{ts} v_s, \quad
        \tilde{h}_t = \tanh(W_c [c_t; h_t])

    Luong et al. (2015), Section 3; k and v are the source states. Without a window,
    this is their global attention; with one, it is their local attention (Section 3.2).
    Without input feeding, no state depends on a context, so all queries of a target are
    computed at once. With it (Section 3.3), the GRU reads :math:`[y_{t-1};
    \tilde{h}_{t-1}]`, with zeros for the first h~, and the steps cannot run in
    parallel.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state, and thus of a query and of the attentional
            vector.
        memory_dim: width E of the encoder's states, and thus of keys and values.
        score: compares queries of width D with keys of width E.
        window: the source positions that a query may attend to; None: all of them.
        input_feeding: concatenate the last attentional vector with the next input.
        dropout: share of embeddings, and of the output layer's input, that is dropped
            in training.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        hidden_dim: int,
        memory_dim: int,
        score: Score,
        window: LocalM | LocalP | None = None,
        input_feeding: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.dropout = Dropout(dropout)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.rnn = nn.GRU(
            embedding_dim + hidden_dim * input_feeding, hidden_dim, batch_first=True
        )
        self.score = score
        self.window = window
        self.input_feeding = input_feeding
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded: Encoded) -> Memory:
        """Keep every state of the source, and project the keys once."""
        return every_slot(encoded, self.score, first_state(encoded, self.bridge))

    def decode(
        self, target: Int[Tensor, "B T"], memory: Memory, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"]]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`.

        It makes one pass over all tokens or, with input feeding, one pass per token.
        """
        cache, logits, weights = self.start(memory), [], []
        for tokens in target.split(1 if self.input_feeding else target.size(1), dim=1):
            pass_logits, pass_weights, cache = self.step(tokens, memory, cache)
            logits.append(pass_logits)
            weights.append(pass_weights)
        return torch.cat(logits, dim=1), torch.cat(weights, dim=1)

    def start(self, memory: Memory) -> LuongCache:
        """Return the first state, an attentional vector of zeros, and position 0."""
        state = memory.state
        position = torch.zeros(state.size(0), dtype=torch.long, device=state.device)
        return LuongCache(state, torch.zeros_like(state)[:, None], position)

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: Memory,
        cache: LuongCache,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"], LuongCache]:
        """Predict the token after each of T tokens. See `EncoderDecoder.step`."""
        x = self._input(token, cache)
        query, state = self.rnn(x, cache.state[None])  # after the update; (B, T, D)
        if self.window is None:
            context, weights = attend(
                self.score(query, memory.key), memory.value, memory.mask
            )
        else:
            context, weights = self.window(
                self.score(query, memory.key), query, cache.position, memory
            )
        attentional = self.dropout(
            torch.tanh(self.attentional_proj(torch.cat([context, query], dim=-1)))
        )
        cache = LuongCache(
            state[0], attentional[:, -1:], cache.position + token.size(1)
        )
        return self.head(attentional), weights, cache

    def _input(
        self, token: Int[Tensor, "B T"], cache: LuongCache
    ) -> Float[Tensor, "B T input"]:
        embedded = self.dropout(self.embedding(token))
        if not self.input_feeding:
            return embedded
        if token.size(1) != 1:
            raise ValueError(
                f"with input feeding a step takes 1 token, got {token.size(1)}"
            )
        return torch.cat([embedded, cache.attentional], dim=-1)


def first_state(encoded: Encoded, bridge: nn.Linear) -> Float[Tensor, "B D"]:
    """Turn the source's final state into the decoder's first state."""
    check_width(encoded.final, bridge.in_features)
    return torch.tanh(bridge(encoded.final))  # (B, D)


def one_slot(encoded: Encoded, state: Tensor) -> Memory:
    """Remember the source's final state as the key and the value of a single slot."""
    slot = encoded.final[:, None]  # (B, 1, E)
    return Memory(key=slot, value=slot, mask=encoded.mask[..., :1], state=state)


def every_slot(encoded: Encoded, score: Score, state: Tensor) -> Memory:
    """Remember every state of the source, and project the keys once."""
    key = score.project_keys(encoded.states)  # (B, S, A)
    return Memory(key, value=encoded.states, mask=encoded.mask, state=state)
