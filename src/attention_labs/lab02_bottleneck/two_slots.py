"""Question `two_slots`: the states at the middle and at the end of each sentence."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_course.rnn import at_end
from attention_labs.lab02_bottleneck.shared import (
    AXES,
    DECODERS,
    LENGTHS_ON_THE_CPU,
    MANNERS,
    NOT_EMPTY,
    ONE_BATCH,
    SORTED,
    WIDER,
    as_from_a_gpu,
    lengths_of,
    on_the_cpu,
    rare_lengths,
    with_any_padding,
)
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    error_like,
    good_manners,
    normal,
    same_copies,
    same_gradients,
)


def two_slots(states: Tensor, lengths: Tensor) -> Tensor:
    """Pick the states at positions (n - 1) // 2 and n - 1 of sentences of n tokens."""
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    sentences = torch.arange(len(states))[:, None]
    return states[sentences, places]


def _use_two_slots(
    two_slots: Callable[..., Any], states: Tensor, lengths: Tensor
) -> Any:
    with as_from_a_gpu(states):
        return two_slots(states, on_the_cpu(lengths, states.size(1)))


def _states(d: Draw) -> Request:
    return Request((normal(d, d.B, d.S, d.E), lengths_of(d)))


def _odd(d: Draw) -> Request:
    """Draw sentences of odd lengths, about whose middle there is no question."""
    size = d.S | 1
    about = f"sentences: {d.B}, of odd lengths, up to {size} tokens"
    states = normal(d, d.B, size, d.E)
    return Request((states, (lengths_of(d) - 1) | 1), about=about)


def _rare(d: Draw) -> list[Request]:
    return [
        Request(inputs, gradients=bool(inputs[0].isfinite().all()))
        for lengths in rare_lengths(d)
        for inputs in with_any_padding(normal(d, d.B, d.S, d.E), lengths)
    ]


@comparable
def _one_place_for_all(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether slot 0 of all sentences is from the same column, and not the first."""
    columns = request.inputs[0].unbind(1)[1:]
    return any(close(reply.outputs[0][:, 0], column) for column in columns)


BATTERY = Battery(
    FUNCTION,
    _states,
    {
        **AXES,
        # where float16 and bfloat16 cannot tell a position from its neighbours
        "S": Axis("source positions", long=2502),
        "E": Axis("width of a state"),
    },
    leaves_out={**NOT_EMPTY, **ONE_BATCH, **LENGTHS_ON_THE_CPU},
    large=(0.0, 1e5, 1e100),
)
MIDDLE, END, PICKED = (
    "[(lengths - 1) // 2",
    ", lengths - 1]",
    "states[sentences, places]",
)
THE_BATCHS_MIDDLE = edit(
    two_slots, MIDDLE, "[torch.full_like(lengths, (states.size(1) - 1) // 2)"
)
THE_LAST_COLUMN = edit(
    two_slots, END, ", torch.full_like(lengths, states.size(1) - 1)]"
)

QUESTION = Question(
    name="two_slots",
    reference=two_slots,
    use=_use_two_slots,
    stand_ins={"at_end": at_end},
    battery=BATTERY,
    requirements={
        "manners": MANNERS,
        "wider": WIDER,
        "slots": "Slot 0 holds the state in the middle of the sentence. Slot 1 holds"
        " the state at its end, at position `lengths[b] - 1`.",
        "middle": "The middle of a sentence of n tokens is position (n - 1) / 2,"
        " rounded down. Positions count from 0, so the middle of five tokens is"
        " position 2, and the middle of four tokens is position 1.",
        "padding": "The padding may hold any values, even NaN, and must not influence"
        " the result.",
        "devices": "The lengths are on the CPU, but the states may be on a GPU.",
        "states": "states: (B, S, E), a padded batch of states.",
        "lengths": "lengths: (B,), of `torch.long`, tokens in each sentence, at least"
        " one; on the CPU.",
        "returns": "(B, 2, E): the state in the middle first, then the state at the"
        " end.",
    },
    properties=(
        BATTERY.numbers(
            "the middle and the end of sentences of odd lengths, and their gradients",
            1,
            checks=("slots", "middle", "states", "returns"),
            requests=_odd,
        ),
        BATTERY.line(
            "the middle and the end of sentences of any length",
            1,
            checks=("middle", "lengths"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            claim="one sentence, one token, long sentences, equal lengths, a batch"
            " padded wider, NaN on padding, two batches one after the other",
            also=_rare,
            checks=("wider", "middle", "padding", "lengths", "returns"),
        ),
        BATTERY.manners(
            1, each_of(good_manners, same_copies), checks=("manners", "devices")
        ),
    ),
    mistakes=(
        Mistake(
            "the two slots are in the wrong order",
            "Slot 0 belongs to the middle of the sentence, slot 1 to its end.",
            DECODERS,
            edit(two_slots, MIDDLE + END, "[lengths - 1, (lengths - 1) // 2]"),
        ),
        Mistake(
            "one middle position for the whole batch",
            "Each sentence has a middle of its own. It depends on the tokens of the"
            " sentence, not on how wide the batch was padded.",
            PADDING,
            (THE_BATCHS_MIDDLE, THE_BATCHS_MIDDLE & THE_LAST_COLUMN),
            _one_place_for_all,
        ),
        Mistake(
            "last column instead of the last token",
            "The last column holds padding for every sentence that is shorter than the"
            " longest.",
            PADDING,
            THE_LAST_COLUMN,
        ),
        Mistake(
            "the wrong one of the two in the middle",
            "With an even number of tokens, no token is exactly in the middle. The lab"
            " says which of the two positions beside the middle to take.",
            PADDING,
            (
                edit(two_slots, MIDDLE, "[lengths // 2"),
                edit(two_slots, MIDDLE, "[((lengths - 1) / 2).round().long()"),
            ),
        ),
        Mistake(
            "the middle is one position too early for odd lengths",
            "Positions count from 0: of 3 tokens, the middle one stands at 1.",
            PADDING,
            edit(two_slots, MIDDLE, "[(lengths // 2 - 1).clamp(min=0)"),
        ),
        Mistake(
            "the first state instead of the middle one",
            "At position 0, only the first token has been read.",
            PADDING,
            edit(two_slots, MIDDLE, "[0 * lengths"),
        ),
        Mistake(
            "a mean instead of one state",
            "Each slot holds one of the states as it is, not a mixture of several.",
            DECODERS,
            (
                edit(
                    two_slots,
                    PICKED,
                    "(states.cumsum(1)[sentences, places] / (places + 1).to(states)"
                    "[..., None])",
                ),
                edit(
                    two_slots,
                    PICKED,
                    "(states[sentences, places] + states[\n"
                    "        sentences, torch.stack([lengths // 2, lengths - 1],"
                    " dim=1)\n    ]) / 2",
                ),
            ),
        ),
        Mistake(
            "both states concatenated into one vector",
            "The memory has an axis for the slots, of length two: (B, 2, E).",
            DECODERS,
            edit(two_slots, PICKED, PICKED + ".flatten(1)"),
        ),
        Mistake(
            "slot axis before the batch axis",
            "The first axis is the batch: (B, 2, E). The argument `dim` of"
            " `torch.stack` says where to put the new axis.",
            DECODERS,
            edit(two_slots, PICKED, PICKED + ".transpose(0, 1)"),
        ),
        Mistake(
            "every sentence is indexed with all positions",
            "states[:, places] takes the places of all sentences from every sentence:"
            " each has two of its own.",
            PADDING,
            edit(two_slots, PICKED, "states[:, places]"),
        ),
        Mistake(
            "one position past the last token",
            "Positions count from 0: the last of n tokens stands at n - 1.",
            PADDING,
            edit(two_slots, END, ", lengths]"),
            error_like("out of bounds|out of range"),
        ),
        Mistake(
            "padding multiplied by zero, so NaN remains",
            "0 times NaN is NaN: pick the states by their positions, or let torch.where"
            " put zeros on padding before you add up.",
            PADDING,
            edit(
                two_slots,
                PICKED,
                "(torch.arange(states.size(1)) == places[..., None]).to(states)"
                " @ states",
            ),
        ),
        SORTED,
        *ANYWHERE,
    ),
)
