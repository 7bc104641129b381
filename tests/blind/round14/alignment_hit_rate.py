import functools
import itertools
from fractions import Fraction

import torch

from blind import right, wrong

INPUTS = "Do not change the inputs."
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
SHARE = (
    "The **hit rate** is the share of target positions whose largest weight is on one"
    " of their gold positions."
)
TOGETHER = "Compute it over all examples together."
COUNTS = "A target position counts only if its gold set is not empty."
EXTRA = "Ignore the rows that have no gold set."
ZEROS = "A row in which all weights are zero is not a hit."


@right("torch in float64, row by row, with topk")
def alignment_hit_rate(weights, gold):
    hits = torch.zeros(2, dtype=torch.float64)
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if len(places) == 0:
                continue
            top = torch.tensor(row, dtype=torch.float64).topk(1)
            hit = top.values.item() > 0 and top.indices.item() in places
            hits += torch.tensor([float(hit), 1.0], dtype=torch.float64)
    return (hits[0] / hits[1]).item()


@right("goes through the gold sets by index, sorts the positions, and uses fractions")
def alignment_hit_rate(weights, gold):
    count = hit = 0
    for number, sets in enumerate(gold):
        for t in range(len(sets)):
            if sets[t]:
                row = weights[number][t]
                order = sorted(range(len(row)), key=lambda s: -row[s])
                hit += row[order[0]] != 0 and order[0] in sets[t]
                count += 1
    return float(Fraction(int(hit), count))


@right("asks if the largest weight on gold positions beats all others")
def alignment_hit_rate(weights, gold):
    def hit(row, places):
        on = [w for s, w in enumerate(row) if s in places]
        off = [w for s, w in enumerate(row) if s not in places]
        return max(on, default=0) > max(off, default=0)

    pairs = itertools.chain.from_iterable(map(zip, weights, gold))
    hits = [hit(row, places) for row, places in pairs if places]
    return sum(hits) / len(hits)


@right("a fold over all pairs that keeps (hits, count)")
def alignment_hit_rate(weights, gold):
    def fold(total, pair):
        row, places = pair
        if not places:
            return total
        best = functools.reduce(
            lambda a, b: b if row[b] > row[a] else a, range(len(row)), 0
        )
        return total[0] + int(any(row) and best in places), total[1] + 1

    pairs = [p for rows, sets in zip(weights, gold) for p in zip(rows, sets)]
    hits, count = functools.reduce(fold, pairs, (0, 0))
    return hits / count


@wrong(
    "counts every target position, also those with an empty gold set",
    COUNTS,
    "counts empty gold sets",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "computes a rate for each example and returns the mean of the rates",
    TOGETHER,
    "averages over examples",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [
            max(row) > 0 and row.index(max(row)) in places
            for row, places in zip(rows, sets)
            if places
        ]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "in a row of zeros, position 0 has the largest weight, which is a hit if it is gold",
    ZEROS,
    "row of zeros counts as hit",
)
def alignment_hit_rate(weights, gold):
    hits = [
        row.index(max(row)) in places
        for rows, sets in zip(weights, gold)
        for row, places in zip(rows, sets)
        if places
    ]
    return sum(hits) / len(hits)


@wrong(
    "a hit is a row with more than half of its weight on gold positions",
    SHARE,
    "total gold weight instead of largest",
)
def alignment_hit_rate(weights, gold):
    hits = [
        sum(row[s] for s in places if s < len(row)) > 0.5 * sum(row)
        for rows, sets in zip(weights, gold)
        for row, places in zip(rows, sets)
        if places
    ]
    return sum(hits) / len(hits)


@wrong(
    "skips a row of zeros altogether, so that it does not count as a miss",
    ZEROS,
    "rows of zeros are not counted",
)
def alignment_hit_rate(weights, gold):
    hits = [
        row.index(max(row)) in places
        for rows, sets in zip(weights, gold)
        for row, places in zip(rows, sets)
        if places and any(row)
    ]
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "matches the last rows with the gold sets, as if the additional row came first",
    EXTRA,
    "aligns rows at the end",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows[-len(sets) :], sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "finds the number of a row with rows.index(row): of two equal rows, both get the"
    " gold set of the first",
    SHARE,
    "equal rows share a gold set",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row in rows[: len(sets)]:
            places = sets[rows.index(row)]
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "takes a gold set for an interval from its lowest to its highest position, so that a"
    " position in a gap is a hit",
    SHARE,
    "gold set treated as interval",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                place = row.index(max(row))
                hits.append(max(row) > 0 and min(places) <= place <= max(places))
    return sum(hits) / len(hits)


@wrong(
    "removes the rows that have no gold set from the caller's lists",
    INPUTS,
    "deletes rows of the input",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        while len(rows) > len(sets):
            rows.pop()
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "compares the largest weight with 1e-6 to recognise a row of zeros: rows whose"
    " weights are all tiny are misses",
    LENGTHS,
    "tiny weights taken for zeros",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                best = max(range(len(row)), key=row.__getitem__)
                hits.append(row[best] > 1e-6 and best in places)
    return sum(hits) / len(hits)
