import math
from fractions import Fraction
from itertools import chain

import torch

from blind import right, wrong

SHARE = (
    "The **hit rate** is the share of target positions whose largest weight is on one"
    " of their gold positions."
)
TOGETHER = "Compute it over all examples together."
COUNTS = "A target position counts only if its gold set is not empty."
IGNORE = "Ignore the rows that have no gold set."
ZEROS = "A row in which all weights are zero is not a hit."
LARGER = (
    "In every other row, one weight is larger than all others, by at least a thousandth"
    " of this weight."
)
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
INPUTS = "Do not change the inputs."


@wrong(
    "computes a rate for each example and averages the rates",
    breaks=TOGETHER,
    name="mean of the examples' rates",
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
    "counts positions with an empty gold set as misses",
    breaks=COUNTS,
    name="hyphens count as misses",
)
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            total += 1
            hits += max(row) > 0 and row.index(max(row)) in places
    return hits / total


@wrong(
    "a row of zeros points at position 0",
    breaks=ZEROS,
    name="a row of zeros hits position 0",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "aligns rows and gold sets at their ends, so a surplus row shifts all others",
    breaks=IGNORE,
    name="drops the first rows instead of the last",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows[len(rows) - len(sets) :], sets):
            if places:
                top = max(row)
                hits.append(top > 0 and row.index(top) in places)
    return sum(hits) / len(hits)


@wrong(
    "leaves rows of zeros out of the total as well",
    breaks=ZEROS,
    name="a row of zeros does not count at all",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places and any(row):
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "takes rows whose largest weight is below 1e-6 for rows of zeros",
    breaks=LARGER,
    name="small weights count as zero",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 1e-6 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "rounds the weights to three decimals before it looks for the largest",
    breaks=LARGER,
    name="ties made by rounding",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                short = [round(weight, 3) for weight in row]
                hits.append(any(row) and short.index(max(short)) in places)
    return sum(hits) / len(hits)


SEEN = []


@wrong(
    "collects hits in a list that outlives the call",
    breaks=CALLS,
    name="hits of earlier calls",
)
def alignment_hit_rate(weights, gold):
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                SEEN.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(SEEN) / len(SEEN)


@wrong(
    "deletes the surplus rows from the caller's lists",
    breaks=INPUTS,
    name="shortens the caller's list of rows",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets) :]
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "accepts the first gold position only",
    breaks=SHARE,
    name="ignores all gold positions but one",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) == min(places))
    return sum(hits) / len(hits)


@right("torch.argmax in float64, row by row")
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for t, places in enumerate(sets):
            if not places:
                continue
            total += 1
            row = torch.tensor(rows[t], dtype=torch.float64)
            if row.max().item() > 0 and row.argmax().item() in places:
                hits += 1
    return hits / total


@right("one flat chain of pairs and an exact fraction")
def alignment_hit_rate(weights, gold):
    pairs = chain.from_iterable(map(zip, weights, gold))
    counted = [(row, places) for row, places in pairs if len(places) > 0]

    def hit(row, places):
        weight, place = max((w, s) for s, w in enumerate(row))
        return weight > 0 and place in places

    return float(Fraction(sum(hit(*pair) for pair in counted), len(counted)))


@right("compares the best gold weight with the best of the other weights")
def alignment_hit_rate(weights, gold):
    results = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if not places:
                continue
            inside = [w for s, w in enumerate(row) if s in places]
            outside = [w for s, w in enumerate(row) if s not in places]
            best = max(inside, default=0.0)
            results.append(best > 0 and best > max(outside, default=-math.inf))
    return results.count(True) / len(results)


@right("sorts the positions of each row, with the misses counted")
def alignment_hit_rate(weights, gold):
    total = misses = 0
    for i in range(len(gold)):
        for t in range(len(gold[i])):
            row, places = weights[i][t], gold[i][t]
            if places == set():
                continue
            total = total + 1
            order = sorted(range(len(row)), key=lambda s: row[s], reverse=True)
            if row[order[0]] == 0 or order[0] not in places:
                misses = misses + 1
    return (total - misses) / total
