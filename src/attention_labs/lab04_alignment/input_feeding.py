"""input_feeding: every step is told what the step before it looked at."""

from typing import Any

import torch
from torch import Tensor

from attention_course.rnn import LuongDecoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.shared import (
    WEIGHTS,
    T,
    a_step,
    weight_off_mask,
    with_score,
)
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    good_manners,
    manners,
    right_in,
    same_gradients,
    same_numbers,
)

FEEDING = "07_luong.html#luong-feeding"


def _feeding(
    vocabulary: int, embedding: int, state: int, memory: int, score: AdditiveScore
) -> LuongDecoder:
    return LuongDecoder(vocabulary, embedding, state, memory, score, input_feeding=True)


def _use_feeding(
    decoder: Any,
    tokens: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    first: Tensor,
) -> Any:
    """Go through all tokens; what the cache holds is the decoder's own affair."""
    memory = Memory(key, value, mask, first)
    cache, logits, weights = decoder.start(memory), [], []
    for token in tokens.split(1, dim=1):
        step_logits, step_weights, cache = decoder.step(token, memory, cache)
        logits.append(step_logits)
        weights.append(step_weights)
    return torch.cat(logits, dim=1), torch.cat(weights, dim=1)


def _fed(g: torch.Generator, tokens: int, **how: Any) -> Request:
    return a_step(g, _feeding, tokens, states=0, **how)


@comparable
def _only_later_steps(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[0].size(1) > 1 and all(
        close(given[:, :1], wanted[:, :1])
        for given, wanted in zip(reply.outputs, reference.outputs)
    )


STEP, HANDED_ON = LuongDecoder.step, "state[0], attentional[:, -1:]"

INPUT_FEEDING = Question(
    name="input_feeding",
    reference=_feeding,
    use=_use_feeding,
    make=with_score,
    properties=(
        Property(
            "the first step, into which zeros are fed",
            1,
            lambda g: [_fed(g, 1)],
            same_numbers,
        ),
        Property(
            "every later step knows the attentional vector before it",
            2,
            lambda g: [_fed(g, 2), _fed(g, 4, gradients=True), _fed(g, 2, batch=1)],
            same_gradients,
        ),
        Property(
            "dtype kept, works on any device",
            1,
            lambda g: manners(_fed(g, T)),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "zeros are fed at every step",
            "Only the first step has nothing to be told; each later one is fed what the"
            " step before it made.",
            FEEDING,
            edit(STEP, HANDED_ON, "state[0], torch.zeros_like(attentional)"),
        ),
        Mistake(
            "the state is fed, not the attentional vector",
            "The recurrent cell knows its own state anyway; what it does not know is"
            " what was looked at.",
            FEEDING,
            edit(STEP, HANDED_ON, "state[0], query"),
        ),
        Mistake(
            "the attentional vector is handed on as the state",
            "It is part of the next *input*. The recurrent state goes on as it is.",
            FEEDING,
            edit(STEP, HANDED_ON, "attentional[:, 0], attentional"),
        ),
        Mistake(
            "the first state is fed first",
            "Before the first step nothing was looked at: zeros.",
            FEEDING,
            edit(LuongDecoder.start, "torch.zeros_like(state)", "state"),
        ),
        Mistake(
            "attentional vector before token",
            "The order of what is attached decides which weights it meets: the token,"
            " then what is fed.",
            FEEDING,
            edit(
                LuongDecoder._input,
                "[embedded, cache.attentional]",
                "[cache.attentional, embedded]",
            ),
        ),
        Mistake(
            "a forbidden position has weight",
            "The memory has a mask: hand it to `attend`.",
            FEEDING,
            sign=weight_off_mask,
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
