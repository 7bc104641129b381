"""Decoder steps, their battery of tests and signs of mistakes, shared within lab 4."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory
from attention_labs.rules import EVERYWHERE as EVERYWHERE
from nbjudge import (
    MODULE,
    Axis,
    Battery,
    Draw,
    Mistake,
    Reply,
    Request,
    comparable,
    normal,
    parameters,
    some_allowed,
)

BAHDANAU = "06_bahdanau.html#bahdanau-step"
LOGITS, WEIGHTS, STATE = 0, 1, 2

# The axes of the letters in the lab. M is the width of an embedding, A that of a key.
B, T, S = (
    Axis("sentences"),
    Axis("tokens", long=200),
    Axis("source positions", long=600),
)
WIDTHS = {
    "V": Axis("words", fixed=True),
    "M": Axis("width of an embedding", fixed=True),
    # Of width one, torch's GRUCell crashes where an axis of the input is missing.
    "D": Axis("width of a state", least=2, fixed=True),
    "E": Axis("width of a value", fixed=True),
    "A": Axis("width of a key", fixed=True),
}
LEAVES_OUT = {
    "zero": "a batch has a sentence, and a sentence a token",
    "in front": "the lab's shapes have the axes that they have",
}
MEMORY = {
    "memory": "Its fields are `key` (B, S, A), already projected by `project_keys`;"
    " `value` (B, S, E); `mask` (B, 1, S), where True means that a position is"
    " allowed; and `state` (B, D), the first state.",
    "attached": "`[a; b]` means that a and b are concatenated in this order, and"
    " $y_{t-1}$ stands for the embedding of the token.",
}


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


def a_step(d: Draw, reference: Any, states: int = 1) -> Request:
    """Draw tokens, the state (or none), a memory and parameters for one step."""
    sizes = (d.V, d.M, d.D, d.E, d.A)
    tokens = torch.randint(d.V, (d.B, d.sizes.get("T", 1)), generator=d)
    tokens.view(-1)[d.number(0, tokens.numel() - 1)] = 0  # a token like any other
    inputs = (
        tokens,
        *(normal(d, d.B, d.D).tanh() for _ in range(states)),
        normal(d, d.B, d.S, d.A),
        normal(d, d.B, d.S, d.E),
        some_allowed(d, d.B, 1, d.S),
        normal(d, d.B, d.D).tanh(),
    )
    return Request(inputs, sizes, parameters(d, lambda: with_score(reference, *sizes)))


def rare_steps(d: Draw, reference: Any, states: int = 1) -> list[Request]:
    """Draw steps with huge scores, and a first step from a source without padding."""
    request = a_step(d, reference, states)
    *states_and_tokens, key, value, mask, first = request.inputs
    # The scores of every other sentence are far below any number put in for minus
    # infinity, those of the others far above 0; parts of a score are at most 1.
    vector = "score.energy_proj.weight"
    sign = 1 - 2 * (torch.arange(d.B) % 2)[:, None, None]
    energy = request.parameters[vector]
    return [
        replace(
            request,
            inputs=(*states_and_tokens, key + 3 * sign, value, mask, first),
            parameters={**request.parameters, vector: -1e12 * (energy.abs() + 0.1)},
            variation="large",
            about="scores around 1e+12 and -1e+12",
        ),
        replace(
            request,
            inputs=(*states_and_tokens, key + 3 - 6 * mask.mT, value, mask, first),
            parameters={**request.parameters, vector: 1e4 * (energy.abs() + 0.1)},
            gradients=True,
            variation="large",
            about="scores of padding far above the others, and gradients",
        ),
        replace(
            request,
            inputs=(
                *(states_and_tokens[0], *[first] * states),
                *(key, value, torch.ones_like(mask), first),
            ),
            about="the first step, without padding",
        ),
    ]


def steps(reference: Any, axes: Mapping[str, Axis] = {}, states: int = 1) -> Battery:
    """Make the battery of a decoder's step, with more axes than one token has."""
    return Battery(
        MODULE,
        lambda d: a_step(d, reference, states),
        {"B": B, "S": S, **axes, **WIDTHS},
        leaves_out=LEAVES_OUT,
    )


@comparable
def weight_off_mask(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether a position that the mask forbids has weight."""
    mask = next(x for x in request.inputs if getattr(x, "dtype", None) == torch.bool)
    off = reply.outputs[WEIGHTS].abs() * ~mask > 1e-6
    return bool(off.any()) and not request.before


MASK_LEFT_OUT = Mistake(
    "a masked position has nonzero weight",
    "The memory has a mask. Pass it to `attend`.",
    BAHDANAU,
    sign=weight_off_mask,
)
