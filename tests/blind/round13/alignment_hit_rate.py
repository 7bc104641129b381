import statistics
from fractions import Fraction

import torch

from blind import right, wrong


@right("tensors of one row each, in float64")
def alignment_hit_rate(weights, gold):
    hits, count = 0, 0
    for rows, sets in zip(weights, gold):
        for t, positions in enumerate(sets):
            if len(positions) == 0:
                continue
            row = torch.tensor(rows[t], dtype=torch.float64)
            count += 1
            hits += int(bool(row.any()) and row.argmax().item() in positions)
    return hits / count


@right("asks the gold positions whether one of them has the largest weight")
def alignment_hit_rate(weights, gold):
    def is_hit(row, positions):
        largest = max(row)
        return largest != 0 and any(row[s] == largest for s in positions)

    return statistics.fmean(
        is_hit(rows[t], sets[t])
        for rows, sets in zip(weights, gold)
        for t in range(len(sets))
        if sets[t]
    )


@right("sorts each row, counts with fractions, backwards")
def alignment_hit_rate(weights, gold):
    pairs = []
    for rows, sets in zip(reversed(weights), reversed(gold)):
        pairs.extend(pair for pair in zip(rows, sets) if pair[1])
    rate = Fraction(0)
    for row, positions in pairs:
        weight, place = sorted(zip(row, range(len(row))))[-1]
        if weight > 0 and positions & {place}:
            rate += Fraction(1, len(pairs))
    return float(rate)


@right("one pass of its own instead of max, misses are subtracted from 1")
def alignment_hit_rate(weights, gold):
    count = sum(bool(positions) for sets in gold for positions in sets)
    misses = 0
    for example in range(len(gold)):
        for target in range(len(gold[example])):
            positions = set(gold[example][target])
            if not positions:
                continue
            best, place = 0.0, None
            for source, weight in enumerate(weights[example][target]):
                if weight > best:
                    best, place = weight, source
            misses += place not in positions
    return (count - misses) / count


@wrong(
    "counts the target positions with an empty gold set as misses",
    "A target position counts only if its gold set is not empty.",
    "empty gold sets in the denominator",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "computes a rate per example and averages these rates",
    "Compute it over all examples together.",
    "mean of means",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [
            max(row) > 0 and row.index(max(row)) in positions
            for row, positions in zip(rows, sets)
            if positions
        ]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "a row of zeros has its largest weight at position 0, which may be a gold position",
    "A row in which all weights are zero is not a hit.",
    "row of zeros can be a hit",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                hits.append(row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "leaves rows of zeros out altogether, so they are no misses either",
    "The **hit rate** is the share of target positions whose largest weight is on one"
    " of their gold positions.",
    "rows of zeros missing in the denominator",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits, count = 0, 0
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions and any(row):
                count += 1
                hits += row.index(max(row)) in positions
    return hits / max(count, 1)


@wrong(
    "always drops the last row, also where there are as many rows as gold sets",
    "An example may have more rows of weights than gold sets, for example a last row"
    " for the end-of-sequence token.",
    "last row always dropped",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows[:-1], sets):  # without end of sequence
            if positions:
                hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / max(len(hits), 1)


@wrong(
    "takes the gold positions for one stretch: with gold {2, 7} it also accepts 4",
    "The **hit rate** is the share of target positions whose largest weight is on one"
    " of their gold positions.",
    "gold set treated as an interval",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                place = row.index(max(row))
                inside = min(positions) <= place <= max(positions)
                hits.append(max(row) > 0 and inside)
    return sum(hits) / len(hits)


@wrong(
    "takes a row whose largest weight is at most 1e-6 for a row of zeros, such as"
    " [0, 1e-8]",
    "In every other row, one weight is larger than all others, by at least a"
    " thousandth of this weight.",
    "threshold instead of zero",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                seen = max(row) > 1e-6
                hits.append(seen and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "removes the rows without a gold set from the caller's own lists",
    "Do not change the inputs.",
    "pop on the input",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        while len(rows) > len(sets):
            rows.pop()
        for row, positions in zip(rows, sets):
            if positions:
                hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "skips the places of the hyphens in 2024-05-17, 4 and 7, instead of the empty sets",
    "A target position counts only if its gold set is not empty.",
    "positions of the hyphens written into the code",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for t, (row, positions) in enumerate(zip(rows, sets)):
            if t not in (4, 7):
                hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "collects the hits in a default argument, which all calls share",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "mutable default argument",
    subtle=True,
)
def alignment_hit_rate(weights, gold, hits=[]):
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)
