"""remember: the memory of one slot that a decoder starts from."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.masks import padding_mask
from attention_course.rnn import FinalStateDecoder
from attention_course.rnn.decoders import first_state, one_slot
from attention_course.seq2seq import Encoded, Memory
from attention_labs.lab02_bottleneck.shared import (
    DECODERS,
    HANDOVER,
    NOT_BOOL,
    RAGGED,
    SIZES,
    E,
    S,
    as_numbers,
    learns_and_behaves,
)
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    close,
    edit,
    error_like,
    manners,
    normal,
    of_output,
    of_outputs,
    parameters,
    right_in,
    same_numbers,
    wrong_in,
)


def _decoder(
    vocabulary: int, embedding: int, state: int, memory: int
) -> FinalStateDecoder:
    """Make the course's decoder without the layer that the lab adds later."""
    decoder = FinalStateDecoder(vocabulary, embedding, state, memory)
    del decoder.rnn
    return decoder


def _use_remember(decoder: Any, states: Tensor, final: Tensor, lengths: Tensor) -> Any:
    encoded = Encoded(states, final, padding_mask(lengths, states.size(1)))
    return as_numbers(decoder.remember(encoded), Memory, "a Memory")


def _encoded(
    g: torch.Generator, lengths: Sequence[int] = RAGGED, gradients: bool = False
) -> Request:
    inputs = (
        normal(g, len(lengths), max(lengths), E),
        normal(g, len(lengths), E),
        torch.tensor(lengths),
    )
    return Request(inputs, SIZES, parameters(g, lambda: _decoder(*SIZES)), gradients)


SLOT, FIRST = "encoded.final[:, None]", "torch.tanh(bridge(encoded.final))"

REMEMBER = Question(
    name="remember",
    reference=_decoder,
    use=_use_remember,
    properties=(
        Property(
            "one slot, which holds the final state and may be looked at",
            1,
            lambda g: [_encoded(g), _encoded(g, (4,))],
            of_outputs(0, 3, same_numbers),
        ),
        Property(
            "the decoder's first state",
            1,
            lambda g: [_encoded(g), _encoded(g, (4,))],
            of_output(3, same_numbers),
        ),
        Property(
            "gradients, dtype kept, works on any device",
            1,
            lambda g: [_encoded(g, gradients=True), *manners(_encoded(g))],
            learns_and_behaves,
        ),
    ),
    mistakes=(
        Mistake(
            "a slot for every token",
            "This memory has room for one vector, the final state: (B, 1, E).",
            DECODERS,
            edit(one_slot, SLOT, "encoded.states") & edit(one_slot, "[..., :1]", ""),
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 4
                and reply.outputs[1].shape[1:2] == torch.Size([S])
            ),
        ),
        Mistake(
            "the last column is taken for the final state",
            "`encoded.final` is the state at each sentence's own end; in the last"
            " column of the states stands padding.",
            PADDING,
            edit(one_slot, SLOT, "encoded.states[:, -1:]")
            & edit(first_state, FIRST, "torch.tanh(bridge(encoded.states[:, -1]))"),
        ),
        Mistake(
            "the slot is forbidden",
            "The mask's last column belongs to padding, for all but the longest source;"
            " its first is always a token.",
            MASK,
            edit(one_slot, "[..., :1]", "[..., -1:]"),
            sign=wrong_in(2),
        ),
        Mistake(
            "a mask for every token",
            "The mask says which slots may be looked at, and there is one: (B, 1, 1).",
            MASK,
            edit(one_slot, "[..., :1]", ""),
        ),
        Mistake(
            "the axis of the slots is missing",
            "One slot is an axis of length one: (B, 1, E).",
            DECODERS,
            edit(one_slot, SLOT, "encoded.final"),
        ),
        Mistake(
            "tanh missing",
            "The first state is the tanh of a linear map of the final state.",
            HANDOVER,
            edit(first_state, FIRST, "bridge(encoded.final)"),
        ),
        Mistake(
            "the final state goes in as it is",
            "Encoder and decoder need not be equally wide: `bridge` maps E numbers"
            " to D.",
            HANDOVER,
            edit(first_state, FIRST, "encoded.final"),
        ),
        Mistake(
            "no Memory is returned",
            "The four tensors are the fields of a Memory: key, value, mask, state.",
            DECODERS,
            sign=error_like("wanted a Memory|Memory.__new__"),
        ),
        NOT_BOOL,
        *ANYWHERE,
        Mistake(
            "another first state",
            "The slot is right. The first state is the tanh of `bridge` of the final"
            " state.",
            HANDOVER,
            sign=right_in(0, 1, 2),
        ),
        Mistake(
            "something else in the slot",
            "Key and value are the same tensor: `encoded.final` as it is, with an axis"
            " for the one slot, (B, 1, E).",
            DECODERS,
            sign=lambda request, reply, reference: (
                not reply.error
                and not all(map(close, reply.outputs[:2], reference.outputs[:2]))
            ),
        ),
    ),
)
