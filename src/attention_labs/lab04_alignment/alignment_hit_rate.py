"""alignment_hit_rate: does the largest weight lie where it should?"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course import metrics
from attention_labs.lab04_alignment.steps import S
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    error_like,
    normal,
    same_numbers,
    some_allowed,
)

MAPS = "06_bahdanau.html#bahdanau-maps"


def _use_hit_rate(
    hit_rate: Callable[..., float], weights: Tensor, gold: Tensor, sizes: Tensor
) -> Tensor | None:
    """Hand over plain lists and sets, with as many gold rows as each target has
    tokens."""
    named = [
        [set(row.nonzero().flatten().tolist()) for row in rows[:size]]
        for rows, size in zip(gold, sizes.tolist())
    ]
    rows = weights.tolist()
    before = copy.deepcopy((rows, named))
    share = hit_rate(rows, named)
    if (rows, named) != before:
        raise ValueError("the lists that came in were changed")
    return None if share is None else torch.tensor(float(share), dtype=torch.float64)


def _maps(g: torch.Generator, sizes: Sequence[int]) -> Request:
    count, rows = len(sizes), max(sizes)
    weights = (3 * normal(g, count, rows, S)).softmax(-1)
    gold = some_allowed(g, count, rows, S)
    return Request((weights, gold, torch.tensor(sizes)))


def _full_maps(g: torch.Generator) -> Iterator[Request]:
    for _ in range(4):
        yield _maps(g, (7, 7, 7))


def _ragged_maps(g: torch.Generator) -> Iterator[Request]:
    for _ in range(4):
        request = _maps(g, (2, 7, 5))
        weights, gold, sizes = request.inputs
        assert gold is not None
        gold[:, 1] = False  # a hyphen: it came from nowhere
        yield Request((weights, gold, sizes))


def _empty_maps(g: torch.Generator) -> Iterator[Request]:
    for _ in range(4):
        weights, gold, sizes = _maps(g, (7, 7)).inputs
        assert weights is not None and gold is not None
        weights[:, ::2] = 0.0
        gold[:, ::2, 0] = True
        yield Request((weights, gold, sizes))


def _with_hyphens(request: Request, reply: Reply, reference: Reply) -> bool:
    gold = request.inputs[1]
    return gold is not None and not bool(gold.any(-1).all())


def _with_rows_of_zeros(request: Request, reply: Reply, reference: Reply) -> bool:
    weights = request.inputs[0]
    return weights is not None and bool((weights == 0).all(-1).any())


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_numbers(request, reply, reference)
    if (
        finding
        and not reply.error
        and [output.shape for output in reply.outputs] == [()]
    ):
        return Finding(f"a share of {float(reply.outputs[0]):.2f}", "another share")
    return finding


def _hits(
    weights: Any, gold: Any, point: Callable[[Any, Any], float], skip: bool = True
) -> list[list[float]]:
    return [
        [point(row, g) for row, g in zip(rows, marks) if g or not skip]
        for rows, marks in zip(weights, gold)
    ]


def _largest(row: Any, gold: Any) -> float:
    return float(max(row) > 0 and row.index(max(row)) in gold)


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / max(len(numbers), 1)


HIT_RATE = Question(
    name="alignment_hit_rate",
    reference=metrics.alignment_hit_rate,
    use=_use_hit_rate,
    plain=True,
    properties=(
        Property(
            "the share of rows whose largest weight is on a gold position",
            1,
            _full_maps,
            _right_share,
        ),
        Property(
            "rows without a gold position do not count, every other row counts alike",
            1,
            _ragged_maps,
            _right_share,
        ),
        Property("a row of zeros points nowhere", 1, _empty_maps, _right_share),
    ),
    mistakes=(
        Mistake(
            "mean of the sentences' shares",
            "Every target position counts alike: add up hits and positions over all"
            " sentences, and divide once.",
            MAPS,
            lambda weights, gold: _mean(
                [_mean(row) for row in _hits(weights, gold, _largest)]
            ),
        ),
        Mistake(
            "positions that came from nowhere counted as misses",
            "A hyphen has no place in the source: leave its row out.",
            MAPS,
            lambda weights, gold: _mean(
                sum(_hits(weights, gold, _largest, skip=False), [])
            ),
        ),
        Mistake(
            "the weight on gold positions, where hits are meant",
            "A hit is all or nothing: is the largest weight of the row on a gold"
            " position?",
            MAPS,
            lambda weights, gold: _mean(
                sum(_hits(weights, gold, lambda row, g: sum(row[s] for s in g)), [])
            ),
        ),
        Mistake(
            "a row of zeros points to the first token",
            "The largest of equal numbers is found first, but a query that attends to"
            " nothing hits nothing.",
            MAPS,
            lambda weights, gold: _mean(
                sum(_hits(weights, gold, lambda row, g: row.index(max(row)) in g), [])
            ),
            _with_rows_of_zeros,
        ),
        Mistake(
            "hits counted, not their share",
            "Divide by the number of target positions that count.",
            MAPS,
            lambda weights, gold: sum(sum(_hits(weights, gold, _largest), [])),
        ),
        Mistake(
            "one gold position looked at",
            "A character may have come from several: any of them is a hit.",
            MAPS,
            lambda weights, gold: _mean(
                sum(_hits(weights, gold, lambda row, g: _largest(row, {min(g)})), [])
            ),
        ),
        Mistake(
            "no number is returned",
            "The share of hits is one number.",
            MAPS,
            sign=error_like(
                r"float\(\) argument|one element tensors|only be converted to"
            ),
        ),
        Mistake(
            "tensors expected, where lists come",
            "Weights come as lists of rows of numbers, and gold positions as lists of"
            " sets.",
            MAPS,
            sign=error_like("'(list|set)' object|list indices"),
        ),
        Mistake(
            "the caller's lists are changed",
            "pop, remove, sort and del change a list in place, and the caller's list it"
            " is: the map is drawn later.",
            sign=error_like("lists that came in were changed"),
        ),
        *ANYWHERE,
        Mistake(
            "a position that came from nowhere is counted",
            "It is neither a hit nor a miss: leave it out of both numbers. Rows beyond"
            " the gold sets are no positions.",
            MAPS,
            sign=_with_hyphens,
        ),
    ),
)
