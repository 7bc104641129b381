import math

import torch
from torch import nn
from blind import right, wrong


@right("a generator of pairs, largest position by max with a key")
def alignment_hit_rate(weights, gold):
    def points_at():
        for rows, sets in zip(weights, gold):
            for row, places in zip(rows, sets):
                if len(places) > 0:
                    best = max(range(len(row)), key=row.__getitem__)
                    yield 1 if row[best] != 0 and best in places else 0

    hits = list(points_at())
    return math.fsum(hits) / len(hits)


@right("indices instead of zip, and two counters")
def alignment_hit_rate(weights, gold, *, nothing=0):
    hits = total = 0
    for e in range(len(gold)):
        for t in range(len(gold[e])):
            places = gold[e][t]
            if not places:
                continue
            total += 1
            row = weights[e][t]
            if any(number != nothing for number in row):
                hits += row.index(max(row)) in places
    return hits / total


@right("tensors row by row in float64")
def alignment_hit_rate(weights, gold):
    found = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                numbers = torch.tensor(row, dtype=torch.float64)
                best = int(numbers.argmax())
                found.append(float(bool(numbers.any()) and best in places))
    return torch.tensor(found, dtype=torch.float64).mean().item()


@right("recursion over the examples, a scan for the maximum")
def alignment_hit_rate(weights, gold):
    def best_of(row):
        place, largest = None, 0.0
        for s, number in enumerate(row):
            if number > largest:
                place, largest = s, number
        return place

    counted = [
        (best_of(row), places)
        for rows, sets in zip(weights, gold)
        for row, places in zip(rows, sets)
        if places != set()
    ]
    return float(len([1 for best, places in counted if best in places]) / len(counted))


@wrong(
    "counts positions with an empty gold set as misses: every hyphen lowers the rate",
    "A position with an empty gold set (a hyphen came from nowhere) does not count at all.",
    "empty gold sets count as misses",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "averages the rates of the examples: wrong if they have different numbers of counted positions (and raises if one has none)",
    "How often its largest weight lies in a frame is a number. Write it: the **hit rate**, the\nshare of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "mean of the rates per example",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [
            max(row) > 0 and row.index(max(row)) in places
            for row, places in zip(rows, sets)
            if places
        ]
        rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "a row of zeros points at position 0: if 0 is a gold position, this is counted as a hit",
    "A row in which all weights are zero points nowhere. That is not a hit.",
    "row of zeros points at position 0",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "leaves a row of zeros out altogether: the position no longer counts, and the rate is too high",
    "A row in which all weights are zero points nowhere. That is not a hit.",
    "row of zeros is skipped, not a miss",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places and any(row):
                hits.append(row.index(max(row)) in places)
    return sum(hits) / max(len(hits), 1)


@wrong(
    "rounds the weights to six digits to find the zeros: rows of very small weights, as at the edge of a window or in a long source, count as zero rows",
    "A row in which all weights are zero points nowhere.",
    "tiny weights are taken for zero",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                row = [round(number, 6) for number in row]
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "cuts off the additional rows in the caller's lists, which are drawn later without them",
    "The lists that come in are drawn later: leave them as they are.",
    "deletes rows from the input",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets) :]
        for t, row in enumerate(rows):
            if sets[t]:
                hits.append(max(row) > 0 and row.index(max(row)) in sets[t])
    return sum(hits) / len(hits)


@wrong(
    "goes over all rows and leaves out the last one if there is exactly one row more than gold sets: with two or more additional rows it raises an IndexError",
    "An example may have more rows of weights than gold sets (the row of the end-of-sequence token is the last): the additional rows do not count.",
    "only one additional row is handled",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for i, rows in enumerate(weights):
        for t, row in enumerate(rows):
            if len(rows) == len(gold[i]) + 1 and t == len(rows) - 1:
                continue  # the end of the sequence
            places = gold[i][t]
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "the list of hits is a default argument and lives on: a second call also counts the positions of the first",
    "How often its largest weight lies in a frame is a number. Write it: the **hit rate**, the\nshare of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "list in a default argument, kept between calls",
)
def alignment_hit_rate(weights, gold, hits=[]):
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "removes the empty sets before zip: right if they stand at the end, otherwise every row after a hyphen is compared with the set of a later character",
    "share of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "rows and gold sets out of step after hyphens",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, filter(None, sets)):
            hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "compares with the whole range from the first to the last gold position: right for one position or a run of them, but a gap between two gold positions counts as a hit",
    "share of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "gaps between gold positions count as hits",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                best = row.index(max(row))
                hits.append(max(row) > 0 and min(places) <= best <= max(places))
    return sum(hits) / len(hits)
