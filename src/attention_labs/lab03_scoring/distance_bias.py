"""Question `distance_bias`: lower each score by the distance of query and key."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_labs.lab03_scoring.shared import (
    EVERYWHERE,
    IN_FRONT,
    QUERIES,
    SENTENCES,
    sums_to_one_over,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    good_manners_from_float32,
    normal,
    same_gradients,
)

SOFTMAX, INTERFACE = SCORING + "softmax", SCORING + "interface"


def distance_bias(scores: Tensor, slope: float) -> Tensor:
    """Lower scores by the distance, where the last query stands at the last key."""
    queries, keys = scores.shape[-2:]
    key = torch.arange(keys, device=scores.device)
    query = key[keys - queries :]
    distance = (query[:, None] - key).abs()
    return scores - slope * distance.to(scores.dtype)


def _scores(d: Draw, earlier: int, slope: float | None = None) -> Request:
    """Draw scores with so many keys before the position of the first query."""
    slope = d.number(1, 8) * (1 if d.whole else 0.3) if slope is None else slope
    scores = normal(d, *d.leading, d.T, d.T + earlier)
    about = f"queries: {d.T}, keys: {d.T + earlier}, slope: {slope:g}"
    return Request((scores, slope), about=about)


def _rare(d: Draw) -> list[Request]:
    """Draw rare slopes, and scores of two axes and of heads, with gradients."""
    asked = [_scores(d, d.P, slope) for slope in (0.0, 3.0, 2.0**-8, 20.5)]
    for leading in ((), (2, 3)):
        d.leading = leading
        asked.append(replace(_scores(d, d.P), gradients=True))
    return asked


def _use_bias(distance_bias: Callable[..., Any], scores: Tensor, slope: float) -> Any:
    """Return the scores, and once more those of the last keys.

    In half precision, large distances hide what is wrong with small ones.
    """
    lowered = distance_bias(scores, slope)
    return (lowered, lowered[..., -4:]) if isinstance(lowered, Tensor) else lowered


BATTERY = Battery(
    FUNCTION,
    lambda d: _scores(d, d.P),
    {
        "B": SENTENCES,
        "T": QUERIES,
        "P": Axis("keys before the first query", least=0, long=2100),
    },
    leading=2,
)
LOWERED = "scores - slope * distance.to(scores.dtype)"

QUESTION = Question(
    name="distance_bias",
    reference=distance_bias,
    use=_use_bias,
    battery=BATTERY,
    requirements={
        "in front": IN_FRONT,
        **EVERYWHERE,
        "equation": r"e'_{ts} = e_{ts} - m\, \lvert p_t - s \rvert",
        "positions": "The S keys have the positions 0 to S - 1, and the T queries have"
        " the last T of these positions. There are never more queries than keys.",
        "both": "The distance counts in both directions. A key two positions after the"
        " query loses as much as a key two positions before it.",
        "before": "Return scores. The softmax comes later.",
        "scores": "scores: (..., T, S), any real numbers.",
        "slope": "slope: a number, 0 or more: what a score loses for each position of"
        " distance.",
        "returns": "Scores (..., T, S).",
    },
    properties=(
        BATTERY.numbers(
            "as many keys as queries: the lowered scores and their gradients",
            1,
            checks=("equation", "both", "before", "slope", "returns"),
            requests=lambda d: _scores(d, 0),
        ),
        BATTERY.line(
            "more keys than queries: the queries have the last positions",
            1,
            checks=("positions", "slope"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            checks=("in front", "lengths", "positions", "scores", "slope"),
            also=_rare,
        ),
        BATTERY.manners(1, good_manners_from_float32, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "the bias is added instead of subtracted",
            "Subtract the cost of the distance from each score, so that near keys get"
            " more weight.",
            SOFTMAX,
            edit(distance_bias, "scores - slope", "scores + slope"),
        ),
        Mistake(
            "queries aligned with the first keys",
            "The queries belong to the last positions. With 2 queries and 5 keys, they"
            " stand at 3 and 4.",
            INTERFACE,
            edit(distance_bias, "key[keys - queries :]", "key[:queries]"),
        ),
        Mistake(
            "signed distance instead of the absolute distance",
            "A key after the query loses as much as a key before it. Neither gains.",
            INTERFACE,
            (
                edit(distance_bias, ".abs()", ""),
                edit(
                    distance_bias,
                    "(query[:, None] - key).abs()",
                    "key - query[:, None]",
                ),
            ),
        ),
        Mistake(
            "distance counted in one direction only",
            "A key after the query loses as much as a key before it.",
            INTERFACE,
            (
                edit(distance_bias, ".abs()", ".clamp(min=0)"),
                edit(distance_bias, ".abs()", ".clamp(max=0).abs()"),
            ),
        ),
        Mistake(
            "distance squared",
            "Each further position costs the same: the distance enters as it is.",
            INTERFACE,
            edit(distance_bias, ".abs()", ".square()"),
        ),
        Mistake(
            "the slope is missing",
            "The slope says how much each position of distance costs.",
            INTERFACE,
            edit(distance_bias, "slope * ", ""),
        ),
        Mistake(
            "large distances are cut off",
            "Each further position costs the same, however far away it is.",
            INTERFACE,
            edit(distance_bias, ".abs()", ".abs().clamp(max=128)"),
        ),
        Mistake(
            "exactly three axes are unpacked",
            "There may be any number of axes before the last two: take the lengths of"
            " the last two only.",
            INTERFACE,
            edit(
                distance_bias,
                "queries, keys = scores.shape[-2:]",
                "_, queries, keys = scores.shape",
            ),
        ),
        Mistake(
            "distance divided by the number of keys",
            "A position costs the same in a long text as in a short one: the distance"
            " is counted in positions.",
            INTERFACE,
            edit(distance_bias, LOWERED, f"{LOWERED} / keys"),
        ),
        Mistake(
            "all distances are one too large",
            "Its distance is 0, and so it loses nothing.",
            INTERFACE,
            edit(distance_bias, ".abs()", ".abs() + 1"),
        ),
        Mistake(
            "positions are rounded in half precision",
            "bfloat16 cannot tell 256 from 257. Subtract whole numbers, and then"
            " convert the distances to the dtype of the scores.",
            INTERFACE,
            edit(
                distance_bias,
                "torch.arange(keys, device=scores.device)",
                "torch.arange(keys, device=scores.device).to(scores.dtype)",
            ),
        ),
        Mistake(
            "scores multiplied instead of reduced by subtraction",
            "A product raises a negative score towards 0. A difference lowers every"
            " score.",
            SOFTMAX,
            (
                edit(
                    distance_bias,
                    LOWERED,
                    "scores * torch.exp(-slope * distance.to(scores.dtype))",
                ),
                edit(
                    distance_bias,
                    LOWERED,
                    "scores / (1 + slope * distance.to(scores.dtype))",
                ),
            ),
        ),
        Mistake(
            "the bias is returned without the scores",
            "Return the scores that you were given, each of them lowered by the bias.",
            INTERFACE,
            edit(distance_bias, "scores - slope", "0 * scores - slope"),
        ),
        Mistake(
            "weights instead of scores",
            "A score may be any real number. The softmax comes after the bias.",
            SOFTMAX,
            (
                edit(distance_bias, LOWERED, f"({LOWERED}).softmax(-1)"),
                edit(distance_bias, "scores - slope", "scores.softmax(-1) - slope"),
            ),
            sums_to_one_over(-1),
        ),
        *ANYWHERE,
    ),
)
