"""Encoder and decoder of Google's translator (GNMT): deep LSTM stacks, one attention.

Wu et al. (2016).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import attend
from attention_course.rnn.decoders import every_slot, first_state
from attention_course.rnn.encoders import RNNEncoder, at_end
from attention_course.scores import Score
from attention_course.seq2seq import Encoded, Memory


class GNMTEncoder(nn.Module):
    r"""A bidirectional layer, then forward layers with residual connections.

    From the third layer on, each adds its input to its output:

    .. math:: x^1 = [\overrightarrow{h}; \overleftarrow{h}], \quad x^2 = h^2, \quad x^i
        = h^i + x^{i-1} \text{ for } i \ge 3, \quad\text{where } h^i_s =
        \mathrm{LSTM}^i(x^{i-1}_s, h^i_{s-1})

    Wu et al. (2016), Section 3: residual connections in 3.1, the bidirectional layer in
    3.2, where h is m and our s is their t. The second layer has no residual connection,
    because it is half as wide as the first.

    Args:
        vocab_size: V, tokens in the source vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width of a state, and of the states returned.
        num_layers: number of layers, including the bidirectional one.

    Raises:
        ValueError: fewer than 2 layers.
    """

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_layers: int = 3
    ):
        super().__init__()
        if num_layers < 2:
            raise ValueError(
                f"the encoder has at least 2 layers, got num_layers {num_layers}"
            )
        self.output_dim = hidden_dim
        self.bottom = RNNEncoder(vocab_size, embedding_dim, hidden_dim, cell=nn.LSTM)
        widths = [self.bottom.output_dim] + [hidden_dim] * (num_layers - 2)
        self.upper = nn.ModuleList(
            nn.LSTM(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]
    ) -> Encoded:
        """Read a padded batch of sources. See `RNNEncoder.forward`."""
        x, _, mask = self.bottom(source, lengths)
        for i, lstm in enumerate(self.upper, start=2):
            h, _ = lstm(x)
            x = h + x if i >= 3 else h
        return Encoded(x, at_end(x, lengths), mask)


class LSTMState(NamedTuple):
    """The state of one LSTM layer.

    Attributes:
        hidden: (B, D), h, the layer's output.
        cell: (B, D), c, which stays inside the layer.
    """

    hidden: Tensor
    cell: Tensor


class GNMTDecoder(nn.Module):
    r"""A stack whose bottom layer attends, and whose layers all read the context.

    .. math::

        h^1_{t-1} \to a_t \to c_t \to h^1_t \to \dots \to h^L_t: \quad
        a_{ts} = \mathrm{softmax}_s\, \mathrm{score}(h^1_{t-1}, k_s), \quad
        c_t = \sum_s a_{ts} v_s, \quad
        h^i_t = \mathrm{LSTM}^i([x^{i-1}_t; c_t], h^i_{t-1})

    with :math:`x^0_t = y_{t-1}`, :math:`x^i = h^i` for i = 1 and 2, and :math:`x^i =
    h^i + x^{i-1}` from the third layer on; :math:`x^L_t` goes to the output layer.

    Wu et al. (2016), Section 3. Their query is :math:`y_{i-1}`, the output of the
    bottom decoder layer at the previous step: our :math:`h^1_{t-1}`, not a token. Their
    a_i, x_t and p_t are our c_t, v_s and a_ts, and the m of their 3.1 is h. The bottom
    layer thus keeps Bahdanau's order, and it is the only layer that needs one call per
    step: each layer above runs over all T steps in one call. All layers start from the
    encoder's final state through one linear map and a tanh.

    Args:
        vocab_size: V, tokens in the target vocabulary.
        embedding_dim: width of a token's embedding.
        hidden_dim: width D of a state, and thus of a query.
        memory_dim: width E of the encoder's states, and thus of keys and values.
        score: compares queries of width D with keys of width E.
        num_layers: L, number of layers.

    Raises:
        ValueError: fewer than 1 layer.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        hidden_dim: int,
        memory_dim: int,
        score: Score,
        num_layers: int = 3,
    ):
        super().__init__()
        if num_layers < 1:
            raise ValueError(
                f"the decoder has at least 1 layer, got num_layers {num_layers}"
            )
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, num_layers * hidden_dim)
        self.score = score
        self.bottom = nn.LSTMCell(embedding_dim + memory_dim, hidden_dim)
        self.upper = nn.ModuleList(
            nn.LSTM(hidden_dim + memory_dim, hidden_dim, batch_first=True)
            for _ in range(num_layers - 1)
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded: Encoded) -> Memory:
        """Keep every state of the source, and compute each layer's first state."""
        states = first_state(encoded, self.bridge).unflatten(
            -1, (-1, self.bottom.hidden_size)
        )  # (B, L, D)
        return every_slot(encoded, self.score, states)

    def decode(
        self, target: Int[Tensor, "B T"], memory: Memory, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"]]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`."""
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def start(self, memory: Memory) -> tuple[LSTMState, ...]:
        """Return each layer's state before the first step."""
        return tuple(
            LSTMState(hidden, torch.zeros_like(hidden))
            for hidden in memory.state.unbind(dim=1)
        )

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: Memory,
        cache: tuple[LSTMState, ...],
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"], tuple[LSTMState, ...]]:
        """Predict the token after each of T tokens. See `EncoderDecoder.step`."""
        x, context, weights, state = self._ask_and_update(
            self.embedding(token), memory, cache[0]
        )
        states = [state]
        for i, (lstm, (hidden, cell)) in enumerate(zip(self.upper, cache[1:]), start=2):
            h, (hidden, cell) = lstm(
                torch.cat([x, context], dim=-1), (hidden[None], cell[None])
            )
            x = h + x if i >= 3 else h
            states.append(LSTMState(hidden[0], cell[0]))
        return self.head(x), weights, tuple(states)

    def _ask_and_update(
        self, embedded: Float[Tensor, "B T embedding"], memory: Memory, state: LSTMState
    ) -> tuple[
        Float[Tensor, "B T D"],
        Float[Tensor, "B T E"],
        Float[Tensor, "B T S"],
        LSTMState,
    ]:
        hiddens, contexts, weights = [], [], []
        for token in embedded.split(1, dim=1):
            query = state.hidden[:, None]  # of the previous step; (B, 1, D)
            context, step_weights = attend(
                self.score(query, memory.key), memory.value, memory.mask
            )
            state = LSTMState(
                *self.bottom(torch.cat([token, context], dim=-1)[:, 0], state)
            )
            hiddens.append(state.hidden[:, None])
            contexts.append(context)
            weights.append(step_weights)
        return (
            torch.cat(hiddens, dim=1),
            torch.cat(contexts, dim=1),
            torch.cat(weights, dim=1),
            state,
        )
