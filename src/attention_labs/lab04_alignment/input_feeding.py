"""input_feeding: every step is told what the step before it looked at."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attention_course import attention, rnn
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.steps import (
    SIZES,
    WEIGHTS,
    B,
    T,
    V,
    draw_memory,
    weight_off_mask,
    with_score,
)
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    good_manners,
    manners,
    parameters,
    right_in,
    same_gradients,
    same_numbers,
)

FEEDING = "07_luong.html#luong-feeding"


def _feeding(
    vocabulary: int, embedding: int, state: int, memory: int, score: AdditiveScore
) -> rnn.LuongDecoder:
    return rnn.LuongDecoder(
        vocabulary, embedding, state, memory, score, input_feeding=True
    )


def _use_feeding(
    decoder: Any,
    tokens: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    first: Tensor,
) -> Any:
    """Go from the start through all tokens; what the cache holds is the decoder's own
    affair."""
    memory = Memory(key, value, mask, first)
    cache, logits, weights = decoder.start(memory), [], []
    for token in tokens.split(1, dim=1):
        step_logits, step_weights, cache = decoder.step(token, memory, cache)
        logits.append(step_logits)
        weights.append(step_weights)
    return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


def _fed(
    g: torch.Generator, tokens: int, gradients: bool = False, batch: int = B
) -> Request:
    inputs = (torch.randint(V, (batch, tokens), generator=g), *draw_memory(g, batch))
    return Request(
        inputs, SIZES, parameters(g, lambda: with_score(_feeding, *SIZES)), gradients
    )


def _fed_first(g: torch.Generator) -> Iterator[Request]:
    yield _fed(g, 1)


def _fed_on(g: torch.Generator) -> Iterator[Request]:
    yield _fed(g, 2)
    yield _fed(g, 4, gradients=True)
    yield _fed(g, 2, batch=1)


def _fed_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_fed(g, T))


class _Feeding(rnn.LuongDecoder):
    """Input feeding in pieces that a mistake can replace."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        state: int,
        memory: int,
        score: AdditiveScore,
    ):
        super().__init__(
            vocabulary, embedding, state, memory, score, input_feeding=True
        )

    def start(self, memory: Memory) -> Any:
        return memory.state, self.first(memory.state)[:, None]

    def step(
        self, token: Tensor, memory: Memory, cache: Any, need_weights: bool = False
    ) -> Any:
        state, fed = cache
        states, last = self.rnn(self.read(self.embedding(token), fed), state[None])
        context, weights = attention.attend(
            self.score(states, memory.key), memory.value, memory.mask
        )
        mixed = torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))
        return self.head(mixed), weights, self.keep(last[0], mixed, states)

    def first(self, state: Tensor) -> Tensor:
        return torch.zeros_like(state)

    def read(self, embedded: Tensor, fed: Tensor) -> Tensor:
        return torch.cat([embedded, fed], dim=-1)

    def keep(self, state: Tensor, mixed: Tensor, states: Tensor) -> Any:
        return state, mixed


@comparable
def _only_later_steps(request: Request, reply: Reply, reference: Reply) -> bool:
    firsts = [
        (given[:, :1], wanted[:, :1])
        for given, wanted in zip(reply.outputs, reference.outputs)
    ]
    return (
        request.inputs[0] is not None
        and request.inputs[0].size(1) > 1
        and all(close(*pair) for pair in firsts)
    )


INPUT_FEEDING = Question(
    name="input_feeding",
    reference=_feeding,
    use=_use_feeding,
    make=with_score,
    properties=(
        Property(
            "the first step, into which zeros are fed", 1, _fed_first, same_numbers
        ),
        Property(
            "every later step knows the attentional vector before it",
            2,
            _fed_on,
            same_gradients,
        ),
        Property("dtype kept, works on any device", 1, _fed_manners, good_manners),
    ),
    mistakes=(
        Mistake(
            "zeros are fed at every step",
            "Only the first step has nothing to be told; each later one is fed what the"
            " step before it made.",
            FEEDING,
            with_pieces(
                _Feeding,
                keep=lambda state, mixed, states: (state, torch.zeros_like(mixed)),
            ),
        ),
        Mistake(
            "the state is fed, not the attentional vector",
            "The recurrent cell knows its own state anyway; what it does not know is"
            " what was looked at.",
            FEEDING,
            with_pieces(_Feeding, keep=lambda state, mixed, states: (state, states)),
        ),
        Mistake(
            "the attentional vector is handed on as the state",
            "It is part of the next *input*. The recurrent state goes on as it is.",
            FEEDING,
            with_pieces(
                _Feeding, keep=lambda state, mixed, states: (mixed[:, 0], mixed)
            ),
        ),
        Mistake(
            "the first state is fed first",
            "Before the first step nothing was looked at: zeros.",
            FEEDING,
            with_pieces(_Feeding, first=lambda state: state),
        ),
        Mistake(
            "attentional vector before token",
            "The order of what is attached decides which weights it meets: the token,"
            " then what is fed.",
            FEEDING,
            with_pieces(
                _Feeding, read=lambda embedded, fed: torch.cat([fed, embedded], dim=-1)
            ),
        ),
        Mistake(
            "a forbidden position has weight",
            "The memory has a mask: hand it to `attend`.",
            FEEDING,
            sign=comparable(weight_off_mask),
        ),
        *ANYWHERE,
        Mistake(
            "something else is handed on",
            "The first step is right. The next one needs its recurrent state and its"
            " attentional vector.",
            FEEDING,
            sign=_only_later_steps,
        ),
        Mistake(
            "the weights are right, the logits are not",
            "The logits come from the attentional vector, the tanh of W_c [c; h].",
            FEEDING,
            sign=right_in(WEIGHTS),
        ),
    ),
)
