"""Question `at_end`: pick the vector at the last token of each sentence."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from attention_course.rnn import at_end
from attention_labs.lab02_bottleneck.shared import (
    AXES,
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
    Request,
    each_of,
    edit,
    error_like,
    good_manners,
    normal,
    same_copies,
)


def _use_at_end(at_end: Callable[..., Any], x: Tensor, lengths: Tensor) -> Any:
    with as_from_a_gpu(x):
        return at_end(x, on_the_cpu(lengths, x.size(1)))


def _vectors(d: Draw) -> Request:
    return Request((normal(d, d.B, d.S, d.D), lengths_of(d)))


def _rare(d: Draw) -> list[Request]:
    return [
        Request(inputs)
        for lengths in rare_lengths(d)
        for inputs in with_any_padding(normal(d, d.B, d.S, d.D), lengths)
    ]


BATTERY = Battery(
    FUNCTION,
    _vectors,
    {
        **AXES,
        # where float16 and bfloat16 cannot tell a position from its neighbours
        "S": Axis("source positions", long=2502),
        "D": Axis("width of a vector"),
    },
    leaves_out={**NOT_EMPTY, **ONE_BATCH, **LENGTHS_ON_THE_CPU},
    large=(0.0, 1e5, 1e100),
)
PICKED = "x.gather(1, last)[:, 0]"

QUESTION = Question(
    name="at_end",
    reference=at_end,
    use=_use_at_end,
    battery=BATTERY,
    requirements={
        "manners": MANNERS,
        "wider": WIDER,
        "picks": "For each sentence b, pick the vector at position `lengths[b] - 1`.",
        "padding": "The padding may hold any values, even NaN, and must not influence"
        " the result.",
        "devices": "The lengths are on the CPU, but the vectors may be on a GPU.",
        "x": "x: (B, S, D), a padded batch of vectors.",
        "lengths": "lengths: (B,), of `torch.long`, tokens in each sentence, at least"
        " one; on the CPU.",
        "returns": "(B, D): x[b, lengths[b] - 1].",
    },
    properties=(
        BATTERY.numbers(
            "the vector at each sentence's own end, and its gradient",
            1,
            checks=("picks", "x", "lengths", "returns"),
        ),
        BATTERY.edges(
            1,
            claim="one sentence, one token, long sentences, equal lengths, a batch"
            " padded wider, NaN on padding, two batches one after the other",
            also=_rare,
            checks=("picks", "wider", "padding", "lengths", "returns"),
        ),
        BATTERY.manners(
            1, each_of(good_manners, same_copies), checks=("manners", "devices")
        ),
    ),
    mistakes=(
        Mistake(
            "last column instead of the last token",
            "The last column holds padding for every sentence that is shorter than the"
            " longest.",
            PADDING,
            edit(at_end, PICKED, "x[:, -1]"),
        ),
        Mistake(
            "one position past the last token",
            "Positions count from 0: the last of n tokens stands at n - 1.",
            PADDING,
            (
                edit(at_end, ") - 1)", ") % x.size(1))"),
                edit(at_end, ") - 1)", ").clamp(max=x.size(1) - 1))"),
            ),
            sign=error_like("out of bounds|out of range"),
        ),
        Mistake(
            "the first vector instead of the last",
            "At position 0, only the first token has been read.",
            PADDING,
            edit(at_end, PICKED, "x[:, 0]"),
        ),
        Mistake(
            "every sentence is indexed with all lengths",
            "x[:, ends] picks the ends of all sentences from every sentence, but each"
            " sentence has only one end.",
            PADDING,
            edit(at_end, PICKED, "x[:, lengths - 1]"),
        ),
        Mistake(
            "only the first entry of each vector",
            "gather picks one number for each entry of its index, so the index must be"
            " D numbers wide.",
            PADDING,
            edit(at_end, ".expand(-1, 1, x.size(-1))", ""),
        ),
        Mistake(
            "vectors are summed or averaged",
            "The function picks one of the vectors. It does not mix them.",
            PADDING,
            (
                edit(at_end, "x.gather", "x.cumsum(1).gather"),
                edit(
                    at_end,
                    "x.gather",
                    "(x.cumsum(1) / lengths.to(x)[:, None, None]).gather",
                ),
            ),
        ),
        Mistake(
            "padding multiplied by zero, so NaN remains",
            "0 times NaN is NaN: pick the vector by its position, or let torch.where"
            " put zeros on padding before you add up.",
            PADDING,
            edit(
                at_end,
                PICKED,
                "((torch.arange(x.size(1), device=x.device) == lengths.to(x.device)"
                "[:, None] - 1)[..., None] * x).sum(1)",
            ),
        ),
        replace(
            SORTED,
            made_by=edit(
                at_end,
                PICKED,
                f"{PICKED}[lengths.argsort(descending=True, stable=True)]",
            ),
        ),
        *ANYWHERE,
    ),
)
