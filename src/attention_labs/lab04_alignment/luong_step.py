"""luong_step: the state after the update asks."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention, rnn
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.steps import (
    LOGITS,
    MASK_LEFT_OUT,
    STATE,
    WEIGHTS,
    T,
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

LUONG = "07_luong.html#luong-step"


class _Luong(rnn.LuongDecoder):
    """The course's decoder without windows and input feeding, so that its cache is the
    state alone."""

    def start(self, memory: Memory) -> Any:
        return memory.state

    def step(
        self, token: Tensor, memory: Memory, cache: Any, need_weights: bool = False
    ) -> Any:
        states, last = self.rnn(self.embedding(token), self.before(memory, cache)[None])
        query = self.query(states, cache)
        context, weights = attention.attend(
            self.score(query, memory.key), memory.value, memory.mask
        )
        mixed = self.mix(self.attentional_proj, context, states)
        return self.head(self.say(mixed, states)), weights, self.keep(last[0], mixed)

    def before(self, memory: Memory, cache: Tensor) -> Tensor:
        return cache

    def query(self, states: Tensor, cache: Tensor) -> Tensor:
        return states

    def mix(self, project: nn.Module, context: Tensor, states: Tensor) -> Tensor:
        return torch.tanh(project(torch.cat([context, states], dim=-1)))

    def say(self, mixed: Tensor, states: Tensor) -> Tensor:
        return mixed

    def keep(self, last: Tensor, mixed: Tensor) -> Tensor:
        return last


def _luong_steps(g: torch.Generator) -> Iterator[Request]:
    yield a_step(g, _Luong)


def _luong_learns(g: torch.Generator) -> Iterator[Request]:
    yield a_step(g, _Luong, gradients=True)
    yield a_step(g, _Luong, batch=1)


def _luong_runs(g: torch.Generator) -> Iterator[Request]:
    yield a_step(g, _Luong, tokens=T)


def _luong_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(a_step(g, _Luong, tokens=T))


LUONG_STEP = Question(
    name="luong_step",
    reference=_Luong,
    use=use_step,
    make=with_score,
    properties=(
        Property(
            "the state after the update asks",
            2,
            _luong_steps,
            of_output(WEIGHTS, same_numbers),
        ),
        Property(
            "the attentional vector predicts, and the gradients of everything",
            1,
            _luong_learns,
            same_gradients,
        ),
        Property(
            "many tokens at once, and the last state handed on",
            1,
            _luong_runs,
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _luong_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "h_{t-1} asks, where h_t is meant",
            "This is Bahdanau's order. Luong's decoder updates first, and the state"
            " after the update asks.",
            LUONG,
            with_pieces(
                _Luong,
                query=lambda states, cache: torch.cat(
                    [cache[:, None], states[:, :-1]], dim=1
                ),
            ),
        ),
        Mistake(
            "every step starts from the first state",
            "memory.state is where decoding starts; the state of this step is the"
            " cache.",
            LUONG,
            with_pieces(_Luong, before=lambda memory, cache: memory.state),
        ),
        Mistake(
            "tanh missing",
            "The attentional vector is the tanh of W_c [c; h].",
            LUONG,
            with_pieces(
                _Luong,
                mix=lambda project, context, states: project(
                    torch.cat([context, states], dim=-1)
                ),
            ),
        ),
        Mistake(
            "state before context in the attentional vector",
            "The order of what is attached decides which weights it meets: the context,"
            " then the state.",
            LUONG,
            with_pieces(
                _Luong,
                mix=lambda project, context, states: project(
                    torch.cat([states, context], dim=-1)
                ).tanh(),
            ),
        ),
        Mistake(
            "the state predicts, not the attentional vector",
            "Predicting from h_t, the decoder never sees the context: the head reads"
            " the attentional vector.",
            LUONG,
            with_pieces(_Luong, say=lambda mixed, states: states),
        ),
        Mistake(
            "the attentional vector is handed on as the state",
            "The recurrent state goes on as it is; in input feeding the attentional"
            " vector goes on beside it.",
            LUONG,
            with_pieces(_Luong, keep=lambda last, mixed: mixed[:, -1]),
        ),
        MASK_LEFT_OUT,
        *ANYWHERE,
        Mistake(
            "the attentional vector is made of something else",
            "Weights and state are right. It is the tanh of a linear map of context and"
            " state, and the head reads it.",
            LUONG,
            sign=wrong_alone(LOGITS),
        ),
        Mistake(
            "another state is handed on",
            "The weights are right. The next step starts from the state after the last"
            " token.",
            LUONG,
            sign=wrong_alone(STATE),
        ),
        Mistake(
            "another query",
            "The queries are the states after the update, one for each token.",
            LUONG,
            sign=wrong_in(WEIGHTS),
        ),
    ),
)
