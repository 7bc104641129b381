"""context_step: a decoder that is told of the source at every step."""

import torch
from torch import Tensor, nn

from attention_course.seq2seq import Memory
from attention_labs.lab02_bottleneck.final_state_step import FinalState
from attention_labs.lab02_bottleneck.steps import (
    HANDOVER,
    LAST,
    mistakes_of,
    step_properties,
    use_step,
)
from attention_labs.pieces import with_pieces
from nbjudge import ANYWHERE, Mistake, Question, error_like


class _Context(FinalState):
    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int
    ):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def read(self, embedded: Tensor, memory: Memory) -> Tensor:
        return torch.cat(
            [embedded, memory.value.expand(-1, embedded.size(1), -1)], dim=-1
        )


CONTEXT_STEP = Question(
    name="context_step",
    reference=_Context,
    use=use_step,
    properties=step_properties(_Context),
    mistakes=(
        Mistake(
            "the source before the token",
            "The order of what is attached decides which weights it meets: the token,"
            " then the source.",
            HANDOVER,
            with_pieces(
                _Context,
                read=lambda embedded, memory: torch.cat(
                    [memory.value.expand(-1, embedded.size(1), -1), embedded], dim=-1
                ),
            ),
        ),
        Mistake(
            "told at the first step only",
            "The source is attached to every input, not to the first alone.",
            HANDOVER,
            with_pieces(
                _Context,
                read=lambda embedded, memory: torch.cat(
                    [
                        embedded,
                        nn.functional.pad(
                            memory.value, (0, 0, 0, embedded.size(1) - 1)
                        ),
                    ],
                    dim=-1,
                ),
            ),
        ),
        Mistake(
            "zeros, where the source is meant",
            "What is attached is the content of the slot, `memory.value`.",
            HANDOVER,
            with_pieces(
                _Context,
                read=lambda embedded, memory: torch.cat(
                    [
                        embedded,
                        torch.zeros_like(memory.value).expand(-1, embedded.size(1), -1),
                    ],
                    dim=-1,
                ),
            ),
        ),
        Mistake(
            "one source for many tokens",
            "torch.cat does not stretch axes of length one: repeat the slot for each of"
            " the T tokens.",
            HANDOVER,
            sign=lambda request, reply, reference: (
                request.inputs[0] is not None
                and request.inputs[0].size(1) > 1
                and error_like("Sizes of tensors must match")(request, reply, reference)
            ),
        ),
        *mistakes_of(_Context),
        *ANYWHERE,
        *LAST,
    ),
)
