"""final_state_step: a decoder that is told of the source once."""

from typing import Any

from torch import Tensor, nn

from attention_course.seq2seq import Memory
from attention_labs.lab02_bottleneck.remember import OneSlot
from attention_labs.lab02_bottleneck.steps import (
    LAST,
    mistakes_of,
    step_properties,
    use_step,
)
from nbjudge import ANYWHERE, Question


class FinalState(OneSlot):
    """The lab's decoder in pieces that a mistake can replace."""

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int
    ):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token: Tensor, memory: Memory, cache: Tensor) -> Any:
        """Return logits (B, T, V), weights (B, T, 1) and the state (B, D) after the
        last token."""
        states, last = self.rnn(
            self.read(self.embedding(token), memory), self.before(memory, cache)[None]
        )
        return (
            self.say(self.head, states),
            self.weigh(states),
            self.keep(last[0], states, cache),
        )

    def read(self, embedded: Tensor, memory: Memory) -> Tensor:
        """Return what the recurrent layer reads (B, T, width)."""
        return embedded

    def before(self, memory: Memory, cache: Tensor) -> Tensor:
        """Return the state (B, D) that the step starts from."""
        return cache

    def say(self, head: nn.Module, states: Tensor) -> Tensor:
        """Map states to logits."""
        return head(states)

    def weigh(self, states: Tensor) -> Tensor:
        """Return the weights: there is one slot."""
        return states.new_ones(*states.shape[:2], 1)

    def keep(self, last: Tensor, states: Tensor, cache: Tensor) -> Tensor:
        """Return the state that the next step starts from."""
        return last


FINAL_STATE_STEP = Question(
    name="final_state_step",
    reference=FinalState,
    use=use_step,
    properties=step_properties(FinalState),
    mistakes=(*mistakes_of(FinalState), *ANYWHERE, *LAST),
)
