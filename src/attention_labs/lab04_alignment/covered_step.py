"""Question `covered_step`: a coverage penalty on positions attended to before."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course.attention import attend
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.shared import (
    EVERYWHERE,
    LEAVES_OUT,
    WEIGHTS,
    WIDTHS,
    B,
    S,
    weight_off_mask,
)
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    normal,
    of_output,
    right_in,
    same_gradients,
    same_numbers,
    some_allowed,
    wrong_in,
)

FEEDING = "07_luong.html#luong-feeding"
CONTEXT, COVERAGE = 0, 2  # what is returned, beside WEIGHTS


def covered_step(
    scores: Tensor, memory: Memory, coverage: Tensor, penalty: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Lower the scores by what the coverage costs, attend, and cover more."""
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


def _use_covered_step(
    step: Any,
    scores: Tensor,
    value: Tensor,
    mask: Tensor,
    coverage: Tensor,
    penalty: float,
) -> Any:
    return step(scores, Memory(-value, value, mask, value[:, 0]), coverage, penalty)


def _a_step(d: Draw, covered: float = 1.0, penalty: float | None = None) -> Request:
    """Draw a step, after others that had the same mask."""
    mask = some_allowed(d, d.B, 1, d.S)
    penalty = d.number(1, 8) / (1 if d.whole else 4) if penalty is None else penalty
    inputs = (
        normal(d, d.B, 1, d.S),
        normal(d, d.B, d.S, d.E),
        mask,
        covered * normal(d, d.B, d.S).abs() * mask[:, 0],
        penalty,
    )
    return Request(inputs)


def _rare(d: Draw) -> list[Request]:
    step = _a_step(d)
    scores, value, mask, coverage, penalty = step.inputs
    low, on_padding = -1e12 * (1 + scores.abs()), scores + 1e4 * ~mask
    unpadded = torch.ones_like(mask), coverage + 1, penalty
    return [
        _a_step(d, covered=0.0),
        replace(_a_step(d, penalty=0.0), gradients=True),
        _a_step(d, covered=10.0),
        _a_step(d, penalty=20.0),
        Request((scores, value, *unpadded), about="nothing is padded"),
        Request(
            (low, value, mask, coverage, penalty),
            variation="large",
            about="scores around -1e+12",
        ),
        Request(
            (on_padding, value, mask, coverage, penalty),
            gradients=True,
            variation="large",
            about="scores of padding around 1e+4, and gradients",
        ),
    ]


BATTERY = Battery(
    FUNCTION,
    _a_step,
    {"B": B, "S": S, "E": WIDTHS["E"]},
    leaves_out=LEAVES_OUT,
)
COVERS = "coverage + weights[:, 0]"
LOWERED, ATTENDED = (
    "scores - penalty * coverage[:, None]",
    "attend(lowered, memory.value, memory.mask)",
)

QUESTION = Question(
    name="covered_step",
    reference=covered_step,
    use=_use_covered_step,
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "scores fall": r"\alpha_{ts} &= \mathrm{softmax}_s\, (e_{ts} - \gamma\,"
        r" \mathrm{cov}_{t-1,s})",
        "before": "Lower the scores before the softmax. The softmax runs over the"
        " positions that the memory's mask allows.",
        "later": "Lower the scores by the coverage of the earlier steps only. The"
        " coverage that you return also contains the weights of this step, and"
        " gradients pass through it.",
        "axes": "Scores and weights have an axis for the target position. The coverage"
        " has no such axis: its shape is (B, S).",
        "search": "A search may continue from the same coverage with several different"
        " tokens, so do not change the coverage that you are given.",
        "scores": "scores: (B, 1, S), how well each key matches the query.",
        "memory": "memory: has `value` (B, S, E) and `mask` (B, 1, S).",
        "coverage": "coverage: (B, S), the sum of the weights of all earlier steps;"
        " zeros before the first step.",
        "penalty": "penalty: a number, 0 or more.",
        "returns": "Context (B, 1, E), weights (B, 1, S), and the coverage after this"
        " step (B, S).",
    },
    properties=(
        BATTERY.numbers(
            "the weights: positions that are already covered get less",
            2,
            of_output(WEIGHTS, same_numbers),
            ("scores fall", "before", "later", "scores", "memory", "axes"),
        ),
        BATTERY.numbers(
            "the context, the coverage after the step, and all gradients",
            1,
            checks=("later", "axes", "coverage", "returns"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            claim="nothing covered yet, much covered, no penalty or a large one, no"
            " padding; edges: length one, equal lengths, long inputs, large numbers,"
            " repeated calls",
            checks=("lengths", "coverage", "penalty"),
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners", "search")),
    ),
    mistakes=(
        Mistake(
            "the penalty is added instead of subtracted",
            "The coverage lowers the scores, so that the next step looks elsewhere.",
            FEEDING,
            edit(covered_step, "scores - penalty", "scores + penalty"),
        ),
        Mistake(
            "the coverage is ignored",
            "Subtract penalty times coverage from the scores before the softmax.",
            FEEDING,
            edit(covered_step, "attend(lowered", "attend(scores"),
        ),
        Mistake(
            "the penalty factor is missing",
            "The penalty says how much each unit of coverage costs.",
            FEEDING,
            edit(covered_step, "penalty * ", ""),
        ),
        Mistake(
            "penalty subtracted from the weights, not the scores",
            "Lowered weights may be negative and do not sum to one: lower the scores,"
            " before the softmax.",
            FEEDING,
            edit(
                covered_step,
                f"context, weights = {ATTENDED}",
                "weights = attend(scores, memory.value, memory.mask)[1]\n"
                "    weights = weights - penalty * coverage[:, None]\n"
                "    context = weights @ memory.value",
            ),
        ),
        Mistake(
            "the step's own weights count as coverage",
            "Only the weights of earlier steps lower the scores of a step. Its own"
            " weights count from the next step on.",
            FEEDING,
            edit(
                covered_step,
                "coverage[:, None]",
                "(coverage[:, None] + attend(scores, memory.value, memory.mask)[1])",
            ),
        ),
        Mistake(
            "scores multiplied instead of reduced by subtraction",
            "A product raises a negative score towards 0. A difference lowers every"
            " score.",
            FEEDING,
            edit(covered_step, LOWERED, "scores * (1 - penalty * coverage[:, None])"),
        ),
        Mistake(
            "the coverage is broadcast across the batch",
            "(B, 1, S) and (B, S) are expanded to (B, B, S). Give the coverage an axis"
            " for the one target position first.",
            FEEDING,
            edit(covered_step, "coverage[:, None]", "coverage"),
        ),
        Mistake(
            "the coverage is not updated",
            "The coverage after a step is the coverage before it plus the weights of"
            " the step.",
            FEEDING,
            edit(covered_step, "coverage + weights[:, 0]", "coverage"),
        ),
        Mistake(
            "the coverage holds only the last step's weights",
            "The weights of a step are added to the coverage before it.",
            FEEDING,
            edit(covered_step, "coverage + weights[:, 0]", "weights[:, 0]"),
        ),
        Mistake(
            "the coverage is limited to one",
            "The coverage is the sum of the weights of all steps. A position that is"
            " read twice has a coverage of two.",
            FEEDING,
            edit(covered_step, COVERS, f"({COVERS}).clamp(max=1)"),
        ),
        Mistake(
            "nothing is covered without a penalty",
            "The penalty lowers scores and no more. The weights of a step count,"
            " whatever the penalty is.",
            FEEDING,
            edit(covered_step, COVERS, f"({COVERS}) if penalty else coverage"),
        ),
        Mistake(
            "squeeze removes every axis of length one",
            "A batch of one sentence and a source of one token keep their axes: say"
            " which axis goes, as in weights[:, 0].",
            FEEDING,
            edit(covered_step, "weights[:, 0]", "weights.squeeze()"),
        ),
        Mistake(
            "scores added up instead of weights",
            "The coverage is a sum of weights, which are the output of the softmax.",
            FEEDING,
            (
                edit(covered_step, "+ weights[:, 0]", "+ lowered[:, 0]"),
                edit(covered_step, "+ weights[:, 0]", "+ scores[:, 0]"),
            ),
        ),
        Mistake(
            "a masked position has nonzero weight",
            "The memory has a mask. Pass it to `attend`.",
            FEEDING,
            edit(covered_step, ", memory.mask)", ")"),
            weight_off_mask,
        ),
        *ANYWHERE,
        Mistake(
            "the weights are right, the context is wrong",
            "Weights and coverage are right: the context is the product of the weights"
            " with the values.",
            FEEDING,
            sign=right_in(WEIGHTS, COVERAGE),
        ),
        Mistake(
            "the wrong coverage is returned",
            "Context and weights are right. The coverage after a step is the coverage"
            " before it plus the weights of the step.",
            FEEDING,
            sign=wrong_in(COVERAGE, CONTEXT, WEIGHTS),
        ),
    ),
)
