"""Question `alignment_hit_rate`: is the largest weight on a gold position?"""

from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from attention_course import metrics
from attention_course.metrics import alignment_hit_rate
from attention_labs.lab04_alignment.shared import EVERYWHERE
from nbjudge import (
    ANYWHERE,
    PLAIN,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    another_kind,
    each_of,
    edit,
    error_like,
    left_alone,
    of_output,
    same_kind,
    same_numbers,
    some_allowed,
    unchanged,
    with_kind,
)

MAPS = "06_bahdanau.html#bahdanau-maps"


def _use_hit_rate(
    hit_rate: Callable[..., float],
    weights: list[list[list[float]]],
    gold: list[list[list[int]]],
) -> Any:
    """Hand over sets, which the judge sends as lists, and note what becomes of them."""
    sets = [[set(places) for places in rows] for rows in gold]
    share = hit_rate(weights, sets)
    gold[:] = [[sorted(places) for places in rows] for rows in sets]
    if share is None:
        return None
    return with_kind(torch.tensor(float(share), dtype=torch.float64), share)


def _some(d: Draw, length: int) -> Tensor:
    """Draw which ones of several are special."""
    return torch.rand(length, generator=d) < 0.5


def _maps(
    d: Draw,
    beyond: int = 0,
    empty: bool = False,
    other: float = 1.0,
    close: bool = False,
    window: bool = False,
    alike: bool = False,
    shorter: int = 2,
    about: str = "",
) -> Request:
    """Draw weights and gold positions of examples with several lengths.

    Args:
        d: the lengths.
        beyond: up to how many rows of an example no gold set belongs to.
        empty: whether some gold sets are empty, and all those of an example.
        other: what some rows of weights are multiplied by.
        close: whether the largest weight of a row is hardly larger than the next one.
        window: whether weights are zero far from the largest one.
        alike: whether some rows, and two examples, have the same weights.
        shorter: by how much an example may have fewer source positions than another.
        about: what is rare about it.
    """
    weights, gold = [], []
    counted = [d.T, *(d.number(1, d.T) for _ in range(d.N - 1)), *[0] * bool(beyond)]
    for number, t in enumerate(counted):
        size, rows = (
            max(1, d.S - d.number(0, shorter)),
            t + d.number(int(not t), beyond),
        )
        # not d's whole numbers, of which two may be equal
        scores = 3 * torch.randn(rows, size, generator=d, dtype=torch.float64)
        best = scores.argmax(-1, keepdim=True)
        if close:
            scores.scatter_(-1, (best + 1) % size, scores.amax(-1, keepdim=True))
        lead = torch.full_like(best, 0.002 if close else 0.01, dtype=scores.dtype)
        scores.scatter_add_(-1, best, lead)
        if window:
            far = (torch.arange(size) - best).abs() > 1
            scores = scores.masked_fill(far, -torch.inf)
        if alike:
            scores = scores[torch.randint(rows, (rows,), generator=d)]
        factors = torch.where(_some(d, rows), other, 1.0)[:, None]
        weights.append((scores.softmax(-1) * factors).tolist())
        named = ~_some(d, t) if empty and number != 1 else torch.full((t,), not empty)
        if not number:
            named[d.number(0, t - 1)] = True  # there is something to count
        places = some_allowed(d, t, size) & named[:, None]
        gold.append([row.nonzero().flatten().tolist() for row in places])
    if alike:
        weights.append(weights[0])
        gold.append(gold[0][1:] + gold[0][:1])
    return Request((weights, gold), about=about)


RARE: dict[str, dict[str, Any]] = {
    (EMPTY := "some gold sets are empty"): {"empty": True},
    (BEYOND := "more rows than gold sets"): {"beyond": 2},
    (SMALL := "some rows have small weights"): {"other": 1e-30},
    "some rows are zero": {"other": 0.0},
    "the largest weight leads by little": {"close": True},
    "weights are zero outside a window": {"window": True},
    (ALIKE := "some rows are equal"): {"alike": True},
    "empty gold sets, rows of zeros and rows without a gold set": {
        "empty": True,
        "beyond": 2,
        "other": 0.0,
        "shorter": 9,
    },
}


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_numbers(request, reply, reference)
    if reply.error or [x.shape for x in reply.outputs] != [()]:
        return finding
    share, wanted = float(reply.outputs[0]), float(reference.outputs[0])
    if abs(share - wanted) <= 2e-7:  # float32 is off by less
        return finding
    return Finding(f"a share of {share:.6g}", "the right share")


BATTERY = Battery(
    PLAIN,
    _maps,
    {
        "N": Axis("examples", most=5, long=40),
        "T": Axis("target positions", long=90),
        "S": Axis("source positions", long=300),
    },
    leaves_out={"zero": "a share of nothing is no number"},
)

QUESTION = Question(
    name="alignment_hit_rate",
    reference=alignment_hit_rate,
    use=_use_hit_rate,
    plain=True,
    battery=BATTERY,
    requirements={
        "lengths": EVERYWHERE["lengths"],
        "share": "The **hit rate** is the share of target positions whose largest"
        " weight is on one of their gold positions. Compute it over all examples"
        " together.",
        "empty": "A target position counts only if its gold set is not empty. (The set"
        " of a hyphen is empty, because a hyphen does not come from anywhere.)",
        "beyond": "An example never has fewer rows of weights than gold sets, but it"
        " may have more, for example a last row for the end-of-sequence token. Ignore"
        " these additional rows.",
        "zeros": "A row in which all weights are zero is not a hit. In every other"
        " row, one weight is larger than all others, by at least a thousandth of this"
        " weight.",
        "unchanged": "Do not change the inputs.",
        "weights": "weights: for each example, a list of rows; each row is a list of S"
        " numbers, and S may differ between examples.",
        "gold": "gold: for each example, a list of sets, one for each target position;"
        " at least one set is not empty.",
        "returns": "The share of hits, a float in [0, 1].",
    },
    properties=(
        BATTERY.numbers(
            "the share of rows whose largest weight is on a gold position",
            1,
            of_output(0, _right_share),
            ("share", "weights", "gold"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            each_of(of_output(0, _right_share), same_kind),
            ("lengths", "empty", "beyond", "zeros", "returns"),
            "empty gold sets, rows without a gold set, rows of zeros; edges: length"
            " one, long inputs, repeated calls; the result is a float",
            lambda d: [
                _maps(d, **how, about=about)
                for about, how in RARE.items()
                for _ in range(3)
            ],
        ),
        BATTERY.manners(1, left_alone, checks=("unchanged",)),
    ),
    mistakes=(
        Mistake(
            "mean of the per-sentence hit rates",
            "Every target position counts alike: add up hits and positions over all"
            " sentences, and divide once.",
            MAPS,
            lambda weights, gold: fmean(
                alignment_hit_rate([rows], [places])
                for rows, places in zip(weights, gold)
            ),
        ),
        Mistake(
            "positions with empty gold sets count as misses",
            "A hyphen has no place in the source: leave its row out.",
            MAPS,
            edit(metrics._links, "positions) if p", "positions)"),
        ),
        Mistake(
            "the weight on gold positions instead of hits",
            "A hit depends only on the largest weight of the row: is it on a gold"
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
            "more than half of the weight instead of the largest weight",
            "The largest weight of a row may be less than half of it. Find the"
            " position of the largest weight, however large it is.",
            MAPS,
            edit(metrics._links, "_largest(row)", "row")
            & edit(
                alignment_hit_rate,
                "link in positions",
                "sum(link[s] for s in positions) > 0.5",
            ),
        ),
        Mistake(
            "a row of zeros points to position 0",
            "In a row of zeros, the largest weight is found at position 0. But a"
            " query that attends to nothing has no hit.",
            MAPS,
            edit(metrics._largest, " if row[largest] > 0 else None", ""),
        ),
        Mistake(
            "a row of zeros is left out",
            "A row of zeros is not a hit, but its target position counts.",
            MAPS,
            edit(metrics._links, "positions) if p", "positions) if p and max(row) > 0"),
        ),
        Mistake(
            "small weights are treated as zero",
            "A row points nowhere only if all its weights are zero. A row of small"
            " weights has a largest one, too.",
            MAPS,
            edit(metrics._largest, "row[largest] > 0", "row[largest] > 1e-6"),
        ),
        Mistake(
            "rows beyond the gold sets count as misses",
            "Rows that no gold set belongs to, such as that of the end, count neither"
            " as hits nor as positions.",
            MAPS,
            edit(
                alignment_hit_rate,
                "/ len(hits)",
                "/ (len(hits) + sum(len(w) - len(g) for w, g in zip(weights, gold)))",
            ),
        ),
        Mistake(
            "the number of hits instead of their share",
            "Divide by the number of target positions that count.",
            MAPS,
            edit(alignment_hit_rate, " / len(hits)", ""),
        ),
        Mistake(
            "the share is rounded",
            "Return the quotient as it is. It can be rounded when it is printed.",
            MAPS,
            tuple(
                edit(
                    alignment_hit_rate,
                    "sum(hits) / len(hits)",
                    f"round(sum(hits) / len(hits), {digits})",
                )
                for digits in (2, 3, 4)
            ),
        ),
        Mistake(
            "only the first gold position is accepted",
            "A character may come from several source characters: any of them is a"
            " hit.",
            MAPS,
            edit(alignment_hit_rate, "link in positions", "link == min(positions)"),
        ),
        Mistake(
            "the result is not a number",
            "The share of hits is one number.",
            MAPS,
            sign=error_like(
                r"float\(\) argument|one element tensors|only be converted to"
            ),
        ),
        Mistake(
            "an operation does not fit lists or sets",
            "Weights come as lists of rows of numbers, and gold positions as lists of"
            " sets.",
            MAPS,
            sign=error_like("'(list|set)' object|list indices"),
        ),
        Mistake(
            "the input lists are changed",
            "pop, remove, sort and del change a list in place, and the list belongs to"
            " the caller.",
            sign=lambda request, reply, reference: reply.changed,
            undone=unchanged,
        ),
        another_kind(
            "a type other than a float",
            "A tensor is not a float. .item() turns it into a number.",
        ),
        *ANYWHERE,
        Mistake(
            "wrong when some gold sets are empty",
            "It is neither a hit nor a miss: leave it out of both numbers.",
            MAPS,
            sign=lambda request, reply, reference: request.about == EMPTY,
        ),
        Mistake(
            "wrong with more rows than gold sets",
            "Go through rows and gold sets together, and stop at the end of the"
            " shorter list.",
            MAPS,
            sign=lambda request, reply, reference: request.about == BEYOND,
        ),
        Mistake(
            "wrong for rows with very small weights",
            "A row points nowhere only if all its weights are zero.",
            MAPS,
            sign=lambda request, reply, reference: request.about == SMALL,
        ),
        Mistake(
            "wrong when some rows are equal",
            "list.index finds the first of several equal rows. zip or enumerate takes"
            " each row with its own gold set.",
            MAPS,
            sign=lambda request, reply, reference: request.about == ALIKE,
        ),
    ),
)
