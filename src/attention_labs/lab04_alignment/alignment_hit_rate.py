"""alignment_hit_rate: does the largest weight lie where it should?"""

import copy
from collections.abc import Callable, Sequence
from statistics import fmean

import torch
from torch import Tensor

from attention_course import metrics
from attention_course.metrics import alignment_hit_rate
from attention_labs.lab04_alignment.shared import S
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    edit,
    error_like,
    normal,
    same_numbers,
    some_allowed,
)

MAPS = "06_bahdanau.html#bahdanau-maps"


def _use_hit_rate(
    hit_rate: Callable[..., float],
    weights: Tensor,
    gold: Sequence[Sequence[Sequence[int]]],
) -> Tensor | None:
    """Hand over lists and sets, and look whether they have stayed the same."""
    lists = weights.tolist(), [[set(places) for places in rows] for rows in gold]
    before = copy.deepcopy(lists)
    share = hit_rate(*lists)
    if lists != before:
        raise ValueError("the lists that came in were changed")
    return None if share is None else torch.tensor(float(share), dtype=torch.float64)


def _maps(
    g: torch.Generator, sizes: Sequence[int], hyphens: bool = False, zeros: bool = False
) -> Request:
    """Draw weights, and the gold positions of as many rows as a target has tokens."""
    weights = (3 * normal(g, len(sizes), max(sizes), S)).softmax(-1)
    gold = some_allowed(g, len(sizes), max(sizes), S)
    if hyphens:
        gold[:, 1] = False  # it came from nowhere
    if zeros:
        weights[:, ::2] = 0.0
        gold[:, ::2, 0] = True
    places = [
        [row.nonzero().flatten().tolist() for row in rows[:size]]
        for rows, size in zip(gold, sizes)
    ]
    return Request((weights, places))


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_numbers(request, reply, reference)
    if finding and not reply.error and [x.shape for x in reply.outputs] == [()]:
        return Finding(f"a share of {float(reply.outputs[0]):.2f}", "another share")
    return finding


HIT_RATE = Question(
    name="alignment_hit_rate",
    reference=alignment_hit_rate,
    use=_use_hit_rate,
    plain=True,
    properties=(
        Property(
            "the share of rows whose largest weight is on a gold position",
            1,
            lambda g: [_maps(g, (7, 7, 7)) for _ in range(4)],
            _right_share,
        ),
        Property(
            "rows without a gold position do not count, every other row counts alike",
            1,
            lambda g: [_maps(g, (2, 7, 5), hyphens=True) for _ in range(4)],
            _right_share,
        ),
        Property(
            "a row of zeros points nowhere",
            1,
            lambda g: [_maps(g, (7, 7), zeros=True) for _ in range(4)],
            _right_share,
        ),
    ),
    mistakes=(
        Mistake(
            "mean of the sentences' shares",
            "Every target position counts alike: add up hits and positions over all"
            " sentences, and divide once.",
            MAPS,
            lambda weights, gold: fmean(
                alignment_hit_rate([rows], [places])
                for rows, places in zip(weights, gold)
            ),
        ),
        Mistake(
            "positions that came from nowhere counted as misses",
            "A hyphen has no place in the source: leave its row out.",
            MAPS,
            edit(metrics._links, "positions) if p", "positions)"),
        ),
        Mistake(
            "the weight on gold positions, where hits are meant",
            "A hit is all or nothing: is the largest weight of the row on a gold"
            " position?",
            MAPS,
            edit(metrics._links, "_largest(row)", "row")
            & edit(
                alignment_hit_rate,
                "link in positions",
                "sum(link[s] for s in positions)",
            ),
        ),
        Mistake(
            "a row of zeros points to the first token",
            "The largest of equal numbers is found first, but a query that attends to"
            " nothing hits nothing.",
            MAPS,
            edit(metrics._largest, " if row[largest] > 0 else None", ""),
            sign=lambda request, reply, reference: bool(
                (request.inputs[0] == 0).all(-1).any()
            ),
        ),
        Mistake(
            "hits counted, not their share",
            "Divide by the number of target positions that count.",
            MAPS,
            edit(alignment_hit_rate, " / len(hits)", ""),
        ),
        Mistake(
            "one gold position looked at",
            "A character may have come from several: any of them is a hit.",
            MAPS,
            edit(alignment_hit_rate, "link in positions", "link == min(positions)"),
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
            sign=lambda request, reply, reference: (
                not all(places for rows in request.inputs[1] for places in rows)
            ),
        ),
    ),
)
