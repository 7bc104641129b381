"""bahdanau_step: the state before the update asks."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attention_course import attention, rnn
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.steps import (
    BAHDANAU,
    LOGITS,
    MASK_LEFT_OUT,
    STATE,
    WEIGHTS,
    a_step,
    use_step,
    with_score,
    wrong_alone,
)
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    good_manners,
    manners,
    of_output,
    same_gradients,
    same_numbers,
    wrong_in,
)


class _Bahdanau(rnn.BahdanauDecoder):
    """The course's decoder in pieces that a mistake can replace."""

    def step(
        self, token: Tensor, memory: Memory, cache: Tensor, need_weights: bool = False
    ) -> Any:
        embedded = self.embedding(token)
        context, weights = attention.attend(
            self.score(self.query(memory, cache), memory.key), memory.value, memory.mask
        )
        state = self.rnn(self.read(embedded, context)[:, 0], self.before(memory, cache))
        logits = self.head(self.say(embedded, context, state[:, None], cache[:, None]))
        return logits, weights, self.keep(state, cache)

    def query(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache[:, None]

    def before(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache

    def read(self, embedded: Tensor, context: Tensor) -> Tensor:
        return torch.cat([embedded, context], dim=-1)

    def say(
        self, embedded: Tensor, context: Tensor, state: Tensor, before: Tensor
    ) -> Tensor:
        return torch.cat([state, context, embedded], dim=-1)

    def keep(self, state: Tensor, cache: Tensor) -> Tensor:
        return state


def _bahdanau_steps(g: torch.Generator) -> Iterator[Request]:
    yield a_step(g, rnn.BahdanauDecoder)


def _bahdanau_learns(g: torch.Generator) -> Iterator[Request]:
    yield a_step(g, rnn.BahdanauDecoder, gradients=True)
    yield a_step(g, rnn.BahdanauDecoder, batch=1)


def _bahdanau_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(a_step(g, rnn.BahdanauDecoder))


BAHDANAU_STEP = Question(
    name="bahdanau_step",
    reference=rnn.BahdanauDecoder,
    use=use_step,
    make=with_score,
    properties=(
        Property(
            "the state before the update asks",
            2,
            _bahdanau_steps,
            of_output(WEIGHTS, same_numbers),
        ),
        Property(
            "the context enters the update",
            2,
            _bahdanau_steps,
            of_output(STATE, same_numbers),
        ),
        Property(
            "the logits, and the gradients of everything",
            1,
            _bahdanau_learns,
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _bahdanau_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "the first state asks at every step",
            "memory.state is where decoding starts; the state of this step is the"
            " cache.",
            BAHDANAU,
            with_pieces(_Bahdanau, query=lambda memory, cache: memory.state[:, None]),
        ),
        Mistake(
            "the first state asks at every step",
            "memory.state is where decoding starts; the state of this step is the"
            " cache.",
            BAHDANAU,
            with_pieces(
                _Bahdanau,
                query=lambda memory, cache: memory.state[:, None],
                before=lambda memory, cache: memory.state,
            ),
        ),
        Mistake(
            "every step starts from the first state",
            "memory.state is where decoding starts; the state of this step is the"
            " cache.",
            BAHDANAU,
            with_pieces(_Bahdanau, before=lambda memory, cache: memory.state),
        ),
        Mistake(
            "the old state predicts",
            "The update comes before the prediction: h_t, not h_{t-1}, goes into the"
            " output layer.",
            BAHDANAU,
            with_pieces(
                _Bahdanau,
                say=lambda embedded, context, state, before: torch.cat(
                    [before, context, embedded], dim=-1
                ),
            ),
        ),
        Mistake(
            "the new state is not handed on",
            "What a step returns last is where the next step starts: the state after"
            " the update.",
            BAHDANAU,
            with_pieces(_Bahdanau, keep=lambda state, cache: cache),
        ),
        Mistake(
            "context before token in the update",
            "The order of what is attached decides which weights it meets: the token,"
            " then the context.",
            BAHDANAU,
            with_pieces(
                _Bahdanau,
                read=lambda embedded, context: torch.cat([context, embedded], dim=-1),
            ),
        ),
        Mistake(
            "another order in the output layer",
            "The order of what is attached decides which weights it meets: state,"
            " context, token.",
            BAHDANAU,
            with_pieces(
                _Bahdanau,
                say=lambda embedded, context, state, before: torch.cat(
                    [embedded, context, state], dim=-1
                ),
            ),
        ),
        MASK_LEFT_OUT,
        *ANYWHERE,
        Mistake(
            "the update reads something else than token and context",
            "The weights are right. The recurrent cell reads the embedded token and the"
            " context, one behind the other, and starts from the state before the"
            " update.",
            BAHDANAU,
            sign=wrong_alone(STATE),
        ),
        Mistake(
            "the output layer reads something else",
            "Weights and state are right. The logits come from the state after the"
            " update, the context and the token.",
            BAHDANAU,
            sign=wrong_alone(LOGITS),
        ),
        Mistake(
            "another query",
            "The query is the state before the update, with an axis for the one target"
            " position.",
            BAHDANAU,
            sign=wrong_in(WEIGHTS),
        ),
    ),
)
