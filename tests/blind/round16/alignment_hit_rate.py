import torch
from torch import nn
from itertools import zip_longest
from blind import right, wrong

INPUTS = "Do not change the inputs."
SHARE = "The **hit rate** is the share of target positions whose largest weight is on one of their gold positions."
TOGETHER = "Compute it over all examples together."
EMPTY = "A target position counts only if its gold set is not empty."
MORE = "An example may have more rows of weights than gold sets, for example a last row for the end-of-sequence token."
IGNORE = "Ignore these additional rows."
ZERO = "A row in which all weights are zero is not a hit."
MARGIN = "In every other row, one weight is larger than all others, by at least a thousandth of this weight."


@right("sums booleans: is any gold position's weight positive and as large as the row's largest?")
def alignment_hit_rate(weights, gold):
    hits = [
        max(row) > 0 and any(row[s] == max(row) for s in places)
        for rows, sets in zip(weights, gold)
        for row, places in zip(rows, sets)
        if places
    ]
    return sum(hits) / len(hits)


@right("argmax of float64 tensors, row by row, with a count of non-zero entries")
def alignment_hit_rate(weights, gold):
    counted = hit = 0
    for rows, sets in zip(weights, gold):
        for t, places in enumerate(sets):
            if len(places) == 0:
                continue
            counted += 1
            row = torch.tensor(rows[t], dtype=torch.float64)
            if torch.count_nonzero(row) and row.argmax().item() in places:
                hit += 1
    return hit / counted


@right("counts misses: a miss if some other position has at least the weight of the best gold position")
def alignment_hit_rate(weights, gold):
    pairs = [(r, g) for rows, sets in zip(weights, gold) for r, g in zip(rows, sets) if g]
    misses = 0
    for row, places in pairs:
        inside = max(row[s] for s in places)
        outside = max((w for s, w in enumerate(row) if s not in places), default=0.0)
        misses += not inside > outside
    return (len(pairs) - misses) / len(pairs)


@right("sorts positions by their weights and intersects sets")
def alignment_hit_rate(weights, gold):
    def found(row, places):
        order = sorted(range(len(row)), key=lambda s: row[s])
        return len({order[-1]} & set(places)) if any(w != 0 for w in row) else 0

    results = []
    for rows, sets in zip(weights, gold):
        results += [found(row, places) for row, places in zip(rows[: len(sets)], sets) if places != set()]
    return float(sum(results)) / float(len(results))


@wrong("the mean of the examples' hit rates", breaks=TOGETHER, name="mean over examples")
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [max(r) > 0 and r.index(max(r)) in g for r, g in zip(rows, sets) if g]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong("counts target positions with an empty gold set as misses", breaks=EMPTY, name="empty gold sets counted")
def alignment_hit_rate(weights, gold):
    hits = [max(r) > 0 and r.index(max(r)) in g for rows, sets in zip(weights, gold) for r, g in zip(rows, sets)]
    return sum(hits) / len(hits)


@wrong("a hit if the gold positions together have more than half of the weight", breaks=SHARE, name="more than half of the weight")
def alignment_hit_rate(weights, gold):
    hits = [sum(r[s] for s in g) > sum(r) / 2 for rows, sets in zip(weights, gold) for r, g in zip(rows, sets) if g]
    return sum(hits) / len(hits)


@wrong("takes position 0 for the largest weight of a row of zeros: a hit if 0 is a gold position", breaks=ZERO, name="row of zeros points at position 0")
def alignment_hit_rate(weights, gold):
    hits = [r.index(max(r)) in g for rows, sets in zip(weights, gold) for r, g in zip(rows, sets) if g]
    return sum(hits) / len(hits)


@wrong("leaves the rows of zeros out of the count altogether", breaks=SHARE, name="rows of zeros not counted")
def alignment_hit_rate(weights, gold):
    hits = [
        r.index(max(r)) in g for rows, sets in zip(weights, gold) for r, g in zip(rows, sets) if g and any(r)
    ]
    return sum(hits) / len(hits) if hits else 0.0


@wrong("takes rows with a largest weight below 0.000001 for rows of zeros: rows of local-p can be that small", breaks=MARGIN, name="small weights taken for zeros")
def alignment_hit_rate(weights, gold):
    hits = [
        max(r) > 1e-6 and r.index(max(r)) in g for rows, sets in zip(weights, gold) for r, g in zip(rows, sets) if g
    ]
    return sum(hits) / len(hits)


@wrong("rounds the weights to bfloat16 before argmax: a lead of a thousandth disappears", breaks=MARGIN, name="weights rounded to bfloat16")
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                r = torch.tensor(row, dtype=torch.bfloat16)
                hits.append(bool(r.any()) and r.argmax().item() in places)
    return sum(hits) / len(hits)


@wrong("removes the additional rows from the caller's lists", breaks=INPUTS, name="rows deleted from the input")
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets) :]
        hits += [max(r) > 0 and r.index(max(r)) in g for r, g in zip(rows, sets) if g]
    return sum(hits) / len(hits)


@wrong("always leaves out the last row, assuming that it belongs to the end-of-sequence token: a target position is lost if there are as many rows as gold sets", breaks=MORE, name="last row always dropped")
def alignment_hit_rate(weights, gold):
    hits = [
        max(r) > 0 and r.index(max(r)) in g for rows, sets in zip(weights, gold) for r, g in zip(rows[:-1], sets) if g
    ]
    return sum(hits) / len(hits) if hits else 0.0


@wrong("puts all rows and all sets of all examples into one list each and zips these: an additional row of one example shifts the rows of all later ones", breaks=IGNORE, name="additional rows shift later examples")
def alignment_hit_rate(weights, gold):
    all_rows = [r for rows in weights for r in rows]
    all_sets = [g for sets in gold for g in sets]
    hits = [max(r) > 0 and r.index(max(r)) in g for r, g in zip(all_rows, all_sets) if g]
    return sum(hits) / len(hits)
