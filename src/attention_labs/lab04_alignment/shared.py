"""What questions of this lab share: sizes, steps of a decoder, and signs in these."""

from typing import Any

import torch
from torch import Tensor

from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory
from nbjudge import (
    Mistake,
    Reply,
    Request,
    comparable,
    normal,
    parameters,
    some_allowed,
)

B, T, S, D, E, A, M, V = 2, 3, 5, 7, 13, 4, 6, 11
SIZES = (V, M, D, E, A)
BAHDANAU = "06_bahdanau.html#bahdanau-step"

LOGITS, WEIGHTS, STATE = 0, 1, 2


def with_score(
    decoder: Any, vocabulary: int, embedding: int, state: int, memory: int, hidden: int
) -> Any:
    """Construct a decoder with an additive score, whose width comes last."""
    return decoder(
        vocabulary, embedding, state, memory, AdditiveScore(state, memory, hidden)
    )


def use_step(
    decoder: Any,
    token: Tensor,
    state: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    first: Tensor,
) -> Any:
    """Make one step from a state, with a memory."""
    return decoder.step(token, Memory(key, value, mask, first), state)


def a_step(
    g: torch.Generator,
    reference: Any,
    tokens: int = 1,
    batch: int = B,
    gradients: bool = False,
    states: int = 1,
) -> Request:
    """Draw tokens, the state (or none), a memory and parameters for one step."""
    inputs = (
        torch.randint(V, (batch, tokens), generator=g),
        *(normal(g, batch, D).tanh() for _ in range(states)),
        normal(g, batch, S, A),
        normal(g, batch, S, E),
        some_allowed(g, batch, 1, S),
        normal(g, batch, D).tanh(),
    )
    drawn = parameters(g, lambda: with_score(reference, *SIZES))
    return Request(inputs, SIZES, drawn, gradients)


@comparable
def weight_off_mask(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether a position that the mask forbids has weight."""
    mask = next(x for x in request.inputs if x.dtype == torch.bool)
    return bool((reply.outputs[WEIGHTS].abs() * ~mask > 1e-6).any())


MASK_LEFT_OUT = Mistake(
    "a forbidden position has weight",
    "The memory has a mask: hand it to `attend`.",
    BAHDANAU,
    sign=weight_off_mask,
)
