import math

import torch

from blind import right, wrong


@right("tensors row by row, counted with a generator")
def alignment_hit_rate(weights, gold):
    rows = [(r, g) for rs, gs in zip(weights, gold) for r, g in zip(rs, gs) if g]
    hits = sum(
        1 for r, g in rows if any(x != 0 for x in r) and int(torch.tensor(r, dtype=torch.float64).argmax()) in g
    )
    return hits / len(rows)


@right("two counters and an own search for the largest weight")
def alignment_hit_rate(weights, gold, hits=0, number=0):
    for example in range(len(gold)):
        for t in range(len(gold[example])):
            if len(gold[example][t]) == 0:
                continue
            number += 1
            best, where = 0.0, None
            for s, weight in enumerate(weights[example][t]):
                if weight > best:
                    best, where = weight, s
            hits += where is not None and where in gold[example][t]
    return hits / number


@right("sorted by weight, math.fsum over hits")
def alignment_hit_rate(weights, gold):
    def hit(row, wanted):
        first = max(range(len(row)), key=row.__getitem__)
        return float(row[first] > 0 and first in wanted)

    marks = [hit(r, g) for rs, gs in zip(weights, gold) for r, g in zip(rs, gs) if g]
    return math.fsum(marks) / len(marks)


@right("filter over the pairs, dividing at the end")
def alignment_hit_rate(weights, gold):
    pairs = [pair for rows, sets in zip(weights, gold) for pair in zip(rows, sets) if pair[1]]
    found = list(filter(lambda pair: max(pair[0]) > 0 and pair[0].index(max(pair[0])) in pair[1], pairs))
    return float(len(found) / len(pairs))


@wrong(
    "counts positions with an empty gold set as misses",
    "A position with an empty gold set (a hyphen came from nowhere) does not count at all.",
    "empty gold sets count",
)
def alignment_hit_rate(weights, gold):
    hits = [
        max(r) > 0 and r.index(max(r)) in g for rs, gs in zip(weights, gold) for r, g in zip(rs, gs)
    ]
    return sum(hits) / len(hits)


@wrong(
    "a row of zeros has its maximum at position 0, which counts as a hit if 0 is gold",
    "A row in which all weights are zero points nowhere. That is not a hit.",
    "row of zeros points to position 0",
)
def alignment_hit_rate(weights, gold):
    hits = [r.index(max(r)) in g for rs, gs in zip(weights, gold) for r, g in zip(rs, gs) if g]
    return sum(hits) / len(hits)


@wrong(
    "computes a rate for each example and returns the mean of the rates: other than the share if examples have different numbers of positions",
    "share of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "mean of the examples' rates",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rs, gs in zip(weights, gold):
        hits = [max(r) > 0 and r.index(max(r)) in g for r, g in zip(rs, gs) if g]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "pops the additional rows off the lists that it is given",
    "The lists that your function is given are drawn later: do not change them.",
    "pops rows off the caller's lists",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rs, gs in zip(weights, gold):
        while len(rs) > len(gs):
            rs.pop()
        hits += [max(r) > 0 and r.index(max(r)) in g for r, g in zip(rs, gs) if g]
    return sum(hits) / len(hits)


@wrong(
    "additional rows count as misses: it divides by the number of rows without those that have an empty set",
    "An example may have more rows of weights than gold sets (the row of the end-of-sequence token is the last): the additional rows do not count.",
    "additional rows in the denominator",
)
def alignment_hit_rate(weights, gold):
    hits = number = 0
    for rs, gs in zip(weights, gold):
        for t, r in enumerate(rs):
            g = gs[t] if t < len(gs) else {-1}
            if g:
                number += 1
                hits += max(r) > 0 and r.index(max(r)) in g
    return hits / number


@wrong(
    "always cuts the last row, although an example may have exactly as many rows as gold sets: the last position is lost",
    "An example may have more rows of weights than gold sets (the row of the end-of-sequence token is the last): the additional rows do not count.",
    "cuts the last row in any case",
)
def alignment_hit_rate(weights, gold):
    hits = [
        max(r) > 0 and r.index(max(r)) in g for rs, gs in zip(weights, gold) for r, g in zip(rs[:-1], gs) if g
    ]
    return sum(hits) / max(len(hits), 1)


@wrong(
    "calls it a hit only from weight 0.5 on: flat rows whose largest weight is 0.4 are misses",
    "share of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "demands more than half of the weight",
)
def alignment_hit_rate(weights, gold):
    hits = [
        any(r[s] >= 0.5 for s in g) for rs, gs in zip(weights, gold) for r, g in zip(rs, gs) if g
    ]
    return sum(hits) / len(hits)


@wrong(
    "asks whether all gold positions together have more weight than any other position: two gold positions of 0.3 beat 0.4 elsewhere",
    "share of target positions whose largest weight is on one of their gold positions, over all examples together.",
    "sums the weights of the gold positions",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rs, gs in zip(weights, gold):
        for r, g in zip(rs, gs):
            if g:
                rest = [w for s, w in enumerate(r) if s not in g]
                inside = sum(r[s] for s in g)
                hits.append(inside > 0 and inside >= max(rest, default=0))
    return sum(hits) / len(hits)


@wrong(
    "rounds the weights to three digits before it looks for the largest: of 0.3334 and 0.3331 it takes the first one, and weights below 0.0005 count as zeros",
    "A row in which all weights are zero points nowhere. That is not a hit.",
    "rounds before it compares",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rs, gs in zip(weights, gold):
        for r, g in zip(rs, gs):
            rounded = [round(w, 3) for w in r]
            if g:
                hits.append(max(rounded) > 0 and rounded.index(max(rounded)) in g)
    return sum(hits) / len(hits)


@wrong(
    "stops at the first empty gold set of an example (break instead of continue): all positions after the first hyphen are lost",
    "A position with an empty gold set (a hyphen came from nowhere) does not count at all.",
    "stops at the first empty set",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rs, gs in zip(weights, gold):
        for r, g in zip(rs, gs):
            if not g:
                break
            hits.append(max(r) > 0 and r.index(max(r)) in g)
    return sum(hits) / max(len(hits), 1)
