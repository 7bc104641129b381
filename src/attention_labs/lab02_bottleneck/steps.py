"""What questions about decoders share: steps, and mistakes that every decoder
invites."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.seq2seq import Memory
from attention_labs.lab02_bottleneck.sentences import B, D, E, M, T, V
from attention_labs.pages import FORCING
from attention_labs.pieces import with_pieces
from nbjudge import (
    Mistake,
    Property,
    Reply,
    Request,
    close,
    comparable,
    error_like,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
)

SIZES = (V, M, D, E)

HANDOVER = "02_encoder_decoder.html#encoder-decoder-handover"
DECODERS = "03_bottleneck.html#bottleneck-decoders"

LOGITS, WEIGHTS, STATE = 0, 1, 2


def use_step(
    decoder: Any, token: Tensor, state: Tensor, slot: Tensor, first: Tensor
) -> Any:
    """Make a step with a memory of one slot."""
    mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool, device=slot.device)
    return decoder.step(token, Memory(slot, slot, mask, first), state)


def _step(
    g: torch.Generator,
    reference: Any,
    tokens: int = 1,
    gradients: bool = False,
    batch: int = B,
) -> Request:
    token = torch.randint(V, (batch, tokens), generator=g)
    inputs = (
        token,
        normal(g, batch, D).tanh(),
        normal(g, batch, 1, E),
        normal(g, batch, D).tanh(),
    )
    return Request(inputs, SIZES, parameters(g, lambda: reference(*SIZES)), gradients)


def _steps_of(
    reference: Any,
) -> tuple[Callable[[torch.Generator], Iterator[Request]], ...]:
    """Make the requests of one token, of many, of learning and of manners."""

    def one(g: torch.Generator) -> Iterator[Request]:
        yield _step(g, reference)

    def many(g: torch.Generator) -> Iterator[Request]:
        yield _step(g, reference, tokens=T)
        yield _step(g, reference, tokens=2, batch=1)

    def learns(g: torch.Generator) -> Iterator[Request]:
        yield _step(g, reference, tokens=T, gradients=True)

    def behaves(g: torch.Generator) -> Iterator[Request]:
        yield from manners(_step(g, reference, tokens=T))

    return one, many, learns, behaves


def _logits_of_one_token(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        return False
    given, wanted = reply.outputs[LOGITS], reference.outputs[LOGITS]
    return given.dim() == 3 and given.size(1) == 1 < wanted.size(1)


def _only(output: int) -> Callable[[Request, Reply, Reply], bool]:
    """Look for replies in which one output is wrong, and no other."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != len(reference.outputs):
            return False
        right = [
            close(given, wanted)
            for given, wanted in zip(reply.outputs, reference.outputs)
        ]
        return not right[output] and sum(right) == len(right) - 1

    return sign


def mistakes_of(base: type[nn.Module]) -> tuple[Mistake, ...]:
    """List the mistakes that every decoder invites, as this one makes them."""
    return (
        Mistake(
            "every step starts from the first state",
            "memory.state is where decoding starts; the state before this step is the"
            " cache.",
            HANDOVER,
            with_pieces(base, before=lambda memory, cache: memory.state),
        ),
        Mistake(
            "every step starts from nothing",
            "Without a state an nn.GRU starts from zeros: the decoder would have no"
            " past and no source.",
            HANDOVER,
            with_pieces(base, before=lambda memory, cache: torch.zeros_like(cache)),
        ),
        Mistake(
            "the new state is not handed on",
            "What a step returns last is where the next step starts: the state after"
            " its last token.",
            HANDOVER,
            with_pieces(base, keep=lambda last, states, cache: cache),
        ),
        Mistake(
            "the state after the first token is handed on",
            "A step may take many tokens: the next one starts behind the last of them.",
            HANDOVER,
            with_pieces(base, keep=lambda last, states, cache: states[:, 0]),
        ),
        Mistake(
            "probabilities, where logits are meant",
            "The softmax is part of the loss: the head's numbers are returned as they"
            " are.",
            FORCING,
            with_pieces(base, say=lambda head, states: head(states).softmax(-1)),
        ),
        Mistake(
            "probabilities, where logits are meant",
            "The softmax is part of the loss: the head's numbers are returned as they"
            " are.",
            FORCING,
            with_pieces(base, say=lambda head, states: head(states).log_softmax(-1)),
        ),
        Mistake(
            "states, where logits are meant",
            "`head` maps each state to V numbers.",
            HANDOVER,
            with_pieces(base, say=lambda head, states: states),
        ),
        Mistake(
            "the logits of one token only",
            "Each of the T tokens has a state and logits of its own.",
            HANDOVER,
            sign=_logits_of_one_token,
        ),
        Mistake(
            "the axis of the layers",
            "Whatever batch_first says, an nn.GRU starts from a state (layers, B, D),"
            " and returns one like this.",
            HANDOVER,
            sign=error_like("hx should|Expected hidden size"),
        ),
    )


LAST = (
    Mistake(
        "other weights",
        "There is one slot, and at each of the T steps its weight is one: (B, T, 1),"
        " all ones.",
        DECODERS,
        sign=_only(WEIGHTS),
    ),
    Mistake(
        "another state is handed on",
        "The logits are right. The next step starts from the state after the last"
        " token, (B, D).",
        DECODERS,
        sign=_only(STATE),
    ),
    Mistake(
        "the logits are made of something else",
        "The states are right. The logits are `head` of each of them.",
        DECODERS,
        sign=_only(LOGITS),
    ),
    Mistake(
        "the update reads something else",
        "The recurrent layer reads what the equation names, in this order, and starts"
        " from the cache.",
        DECODERS,
        sign=comparable(
            lambda request, reply, reference: (
                close(reply.outputs[WEIGHTS], reference.outputs[WEIGHTS])
                and not close(reply.outputs[STATE], reference.outputs[STATE])
            )
        ),
    ),
)


def step_properties(reference: Any) -> tuple[Property, ...]:
    """List what every decoder is checked for."""
    one, many, learns, behaves = _steps_of(reference)
    return (
        Property("the logits of one token", 2, one, of_output(LOGITS, same_numbers)),
        Property(
            "many tokens at once, weights of one, and the last state handed on",
            1,
            many,
            same_numbers,
        ),
        Property("gradients of everything that was read", 1, learns, same_gradients),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            behaves,
            good_manners,
        ),
    )
