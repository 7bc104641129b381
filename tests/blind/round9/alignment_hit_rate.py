from collections import Counter
from fractions import Fraction
from itertools import chain

import torch

from blind import right, wrong


@right("a Counter of the outcomes and an exact fraction at the end")
def alignment_hit_rate(weights, gold):
    outcomes = Counter()
    for rows, sets in zip(weights, gold):
        for s, positions in enumerate(sets):
            if not positions or s >= len(rows):
                continue
            row = rows[s]
            best = max(range(len(row)), key=row.__getitem__)
            outcomes[row[best] != 0 and best in positions] += 1
    return float(Fraction(outcomes[True], outcomes[True] + outcomes[False]))


@right("compares the largest weight inside the gold set with the largest weight outside")
def alignment_hit_rate(weights, gold, nothing=float("-inf")):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for row, frame in zip(rows, sets):
            if len(frame) == 0:
                continue
            total += 1
            inside = max((w for s, w in enumerate(row) if s in frame), default=nothing)
            outside = max((w for s, w in enumerate(row) if s not in frame), default=nothing)
            hits += int(any(row) and inside > outside)
    return hits / total


@right("torch in float64, one row at a time")
def alignment_hit_rate(weights, gold):
    outcomes = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                row = torch.as_tensor(row, dtype=torch.float64)
                hit = bool(row.any()) and int(row.argmax()) in positions
                outcomes.append(float(hit))
    return torch.tensor(outcomes, dtype=torch.float64).mean().item()


@right("functional, without a loop statement")
def alignment_hit_rate(weights, gold):
    def judge(pair):
        row, positions = pair
        if not positions:
            return []
        ranked = sorted(enumerate(row), key=lambda item: item[1], reverse=True)
        position, top = ranked[0]
        return [top != 0 and position in positions]

    pairs = chain.from_iterable(map(zip, weights, gold))
    judged = list(chain.from_iterable(map(judge, pairs)))
    return judged.count(True) / len(judged)


@wrong(
    "The mean of the examples' rates instead of the rate over all target positions: different as soon as examples have different numbers of positions.",
    "Compute it over all examples together.",
    "averages averages",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [
            any(row) and row.index(max(row)) in positions
            for row, positions in zip(rows, sets)
            if positions
        ]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "Positions with an empty gold set (hyphens) are counted as misses.",
    "A target position counts only if its gold set is not empty.",
    "counts empty gold sets as misses",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            hits.append(any(row) and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "The largest weight of a row of zeros is found at position 0, so it is a hit if 0 is a gold position.",
    "A row in which all weights are zero is not a hit.",
    "a row of zeros can be a hit",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                hits.append(row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "Rows of zeros are left out of the count altogether, so they are not even a miss: the rate is too high (and 0 / 0 if all rows are zero).",
    "A target position counts only if its gold set is not empty.",
    "skips rows of zeros instead of counting a miss",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions and any(row):
                hits.append(row.index(max(row)) in positions)
    return sum(hits) / max(len(hits), 1)


@wrong(
    "One tensor for all examples: raises if S or the number of rows differs between two examples.",
    "for each example, a list of rows; each row is a list of S numbers, and S may differ between examples.",
    "needs the same S in all examples",
)
def alignment_hit_rate(weights, gold):
    table = torch.tensor(weights, dtype=torch.float64)
    best, top = table.argmax(dim=-1).tolist(), table.amax(dim=-1).tolist()
    hits = [
        b != 0 and a in positions
        for a_row, b_row, sets in zip(best, top, gold)
        for a, b, positions in zip(a_row, b_row, sets)
        if positions
    ]
    return sum(hits) / len(hits)


@wrong(
    "The largest and the second largest weight are compared to find rows of zeros: raises IndexError for a source of one token.",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "fails for a source of one position",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                second, first = sorted(row)[-2:]
                hits.append(first > second and row.index(first) in positions)
    return sum(hits) / len(hits)


@wrong(
    "pop() takes the largest weights and the gold positions out of the caller's lists and sets: a second call with the same arguments gives another result or fails.",
    "Do not change the inputs.",
    "empties the gold sets of the caller",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if not positions:
                continue
            best = row.index(max(row)) if any(row) else None
            found = False
            while positions:
                found = positions.pop() == best or found
            hits.append(found)
    return sum(hits) / len(hits)


@wrong(
    "All rows and all gold sets are chained before they are paired: an extra row in one example shifts the rows of all examples after it; right for one example and without extra rows.",
    "An example may have more rows of weights than gold sets, for example a last row for the end-of-sequence token.",
    "extra rows shift all later examples",
)
def alignment_hit_rate(weights, gold):
    rows = [row for example in weights for row in example]
    sets = [positions for example in gold for positions in example]
    hits = [
        any(row) and row.index(max(row)) in positions
        for row, positions in zip(rows, sets)
        if positions
    ]
    return sum(hits) / len(hits)


@wrong(
    "any(positions) asks whether a position other than 0 is in the set: the set {0} is taken for empty and does not count.",
    "A target position counts only if its gold set is not empty.",
    "takes the set {0} for an empty one",
)
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if any(positions):
                total += 1
                hits += any(row) and row.index(max(row)) in positions
    return hits / total if total else 0.0


@wrong(
    "A row counts as zero if its weights sum to less than 1e-6: a row with tiny weights, as local-p gives far from the window's centre, is never a hit.",
    "In every other row, one weight is larger than all others.",
    "tiny weights are taken for zero",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                hits.append(sum(row) > 1e-6 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)
