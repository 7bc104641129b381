"""Question `remember`: the memory with one slot, from which a decoder starts."""

from typing import Any

from torch import Tensor

from attention_course.masks import padding_mask
from attention_course.rnn import FinalStateDecoder
from attention_course.rnn.decoders import first_state, one_slot
from attention_course.seq2seq import Encoded, Memory
from attention_labs.lab02_bottleneck.shared import (
    AXES,
    DECODERS,
    HANDOVER,
    MANNERS,
    MEMORY,
    NOT_BOOL,
    NOT_EMPTY,
    ONE_BATCH,
    WIDTHS,
    as_numbers,
    lengths_of,
)
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    ANYWHERE,
    MODULE,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    close,
    edit,
    error_like,
    normal,
    parameters,
    right_in,
    wrong_in,
)


def _decoder(
    vocabulary: int, embedding: int, state: int, memory: int
) -> FinalStateDecoder:
    """Make the course's decoder without the layer that the lab adds later."""
    decoder = FinalStateDecoder(vocabulary, embedding, state, memory)
    del decoder.rnn
    return decoder


def _use_remember(decoder: Any, states: Tensor, final: Tensor, mask: Tensor) -> Any:
    memory = decoder.remember(Encoded(states, final, mask))
    return as_numbers(memory, Memory, "a Memory")


def _encoded(d: Draw) -> Request:
    init = (d.V, d.M, d.D, d.E)
    mask = padding_mask(lengths_of(d), d.S)
    inputs = (normal(d, d.B, d.S, d.E), normal(d, d.B, d.E), mask)
    return Request(inputs, init, parameters(d, lambda: _decoder(*init)))


BATTERY = Battery(
    MODULE,
    _encoded,
    {**AXES, **WIDTHS, **MEMORY},
    leaves_out={**NOT_EMPTY, **ONE_BATCH},
    large=(0.0, 1e5),
)
SLOT, FIRST = "encoded.final[:, None]", "torch.tanh(bridge(encoded.final))"

QUESTION = Question(
    name="remember",
    reference=_decoder,
    use=_use_remember,
    battery=BATTERY,
    requirements={
        "manners": MANNERS,
        "called": "`remember` is called once for each source.",
        "value": "`value` (B, slots, E) holds what the decoder can look up. In the"
        " decoders of this lab, there is only *one* slot, which holds the final state"
        " $c$ of the source, so the shape is (B, 1, E).",
        "key": "`key` holds what a query would be compared with. With one slot there"
        " is nothing to choose, so use the same vector as for `value`.",
        "mask": "`mask` (B, 1, slots) must be True, because the decoder may look at"
        " the slot.",
        "state": r"`state` (B, D) is the decoder's first state, $h_0 = \tanh(W c +"
        r" b)$.",
        "bridge": "The linear layer `bridge` holds $W$ and $b$. It is needed because"
        " the states of the encoder and the decoder may differ in width.",
        "forgets": "Keep the final state, and nothing else of the source: a `Memory`.",
    },
    properties=(
        BATTERY.numbers(
            "one slot, which holds the final state and is allowed by the mask; the"
            " first state; all gradients",
            1,
            checks=("value", "key", "mask", "state", "bridge", "forgets"),
        ),
        BATTERY.edges(
            1,
            claim="one sentence, one token, equal widths, a final state of zeros,"
            " large numbers, eval mode, two sources one after the other",
            checks=("called", "bridge", "mask", "state"),
        ),
        BATTERY.manners(1, checks=("manners", "mask")),
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
                and reply.outputs[1].shape[:2] == request.inputs[0].shape[:2]
                and request.inputs[0].size(1) > 1
            ),
        ),
        Mistake(
            "final state taken from the last column",
            "`encoded.final` is the state at each sentence's own end. The last column"
            " of the states may be padding.",
            PADDING,
            edit(one_slot, SLOT, "encoded.states[:, -1:]")
            & edit(first_state, FIRST, "torch.tanh(bridge(encoded.states[:, -1]))"),
        ),
        Mistake(
            "the slot is masked out",
            "For all but the longest source, the last column of the mask belongs to"
            " padding. The first column always belongs to a token.",
            MASK,
            edit(one_slot, "[..., :1]", "[..., -1:]"),
            sign=wrong_in(2),
        ),
        Mistake(
            "the mask covers tokens instead of the slot",
            "The mask says which slots the decoder may look at. There is only one"
            " slot, so the mask is (B, 1, 1).",
            MASK,
            edit(one_slot, "[..., :1]", ""),
        ),
        Mistake(
            "one mask for the whole batch",
            "Every tensor of a memory has an axis for the batch, so the mask is (B, 1,"
            " 1).",
            MASK,
            edit(one_slot, "encoded.mask[", "encoded.mask[:1, "),
        ),
        Mistake(
            "the slot axis is missing",
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
            "the final state is not projected",
            "Encoder and decoder need not be equally wide: `bridge` maps E numbers"
            " to D.",
            HANDOVER,
            (
                edit(first_state, FIRST, "encoded.final"),
                edit(first_state, FIRST, "torch.tanh(encoded.final)"),
                edit(
                    first_state,
                    FIRST,
                    "torch.tanh(encoded.final if bridge.in_features =="
                    " bridge.out_features else bridge(encoded.final))",
                ),
            ),
        ),
        Mistake(
            "the bias of the bridge is missing",
            "`bridge` is a linear map with a bias: call it, and both are applied.",
            HANDOVER,
            edit(first_state, FIRST, "torch.tanh(encoded.final @ bridge.weight.mT)"),
        ),
        Mistake(
            "the memory of an earlier source is kept",
            "`remember` is called once for each source, and every source has a memory"
            " of its own. Keep nothing on self.",
            DECODERS,
            edit(
                FinalStateDecoder.remember,
                "return one_slot(encoded, first_state(encoded, self.bridge))",
                "kept = self.__dict__.setdefault('kept', {})\n"
                "    if len(encoded.final) not in kept:\n"
                "        state = first_state(encoded, self.bridge)\n"
                "        kept[len(encoded.final)] = one_slot(encoded, state)\n"
                "    return kept[len(encoded.final)]",
            ),
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
            "the wrong first state",
            "The slot is right. The first state is the tanh of `bridge` of the final"
            " state.",
            HANDOVER,
            sign=right_in(0, 1, 2),
        ),
        Mistake(
            "the key or the value is wrong",
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
