import itertools
import math
import statistics

import numpy as np
import torch

from blind import right, wrong


@right('numpy in float64, one array per example')
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for t in np.flatnonzero([len(places) for places in sets]):
            row = np.asarray(rows[t], dtype=np.float64)
            hits.append(bool(row.any()) and int(row.argmax()) in sets[t])
    return float(np.mean(hits))


def _best(row, places, inside):
    """The largest weight inside or outside of the places, or zero."""
    chosen = (w for s, w in enumerate(row) if (s in places) == inside)
    return max(chosen, default=0)


@right('the best gold weight against the best other weight')
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for example, rows in enumerate(weights):
        for t, places in enumerate(gold[example]):
            if places:
                total += 1
                hits += _best(rows[t], places, True) > _best(rows[t], places, False)
    return hits / total


@right('flat generator, a key function, statistics.fmean')
def alignment_hit_rate(weights, gold):
    flat = itertools.chain.from_iterable(map(zip, weights, gold))
    return statistics.fmean(
        any(row) and max(range(len(row)), key=row.__getitem__) in places
        for row, places in flat
        if len(places) != 0
    )


@right('torch in double precision with a table of gold positions')
def alignment_hit_rate(weights, gold):
    counts = torch.zeros(2, dtype=torch.int64)
    for rows, sets in zip(weights, gold):
        kept = [(row, places) for row, places in zip(rows, sets) if places]
        if not kept:
            continue
        table = torch.tensor([row for row, _ in kept], dtype=torch.float64)
        frames = torch.zeros(table.shape, dtype=torch.bool)
        for t, (_, places) in enumerate(kept):
            frames[t, list(places)] = True
        inside = frames.gather(1, table.argmax(dim=1, keepdim=True))[:, 0]
        hit = inside & (table != 0).any(dim=1)
        counts += torch.stack([hit.sum(), torch.tensor(len(kept))])
    hits, total = counts.tolist()
    return hits / total


@wrong(
    'a rate for each example, and then the mean of the rates',
    'Compute it over all examples together.',
    'mean over examples',
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
    'counts a position with an empty gold set as a miss',
    'A target position counts only if its gold set is not empty.',
    'empty gold sets counted',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    'takes position 0 for the largest weight of a row of zeros',
    'A row in which all weights are zero is not a hit.',
    'row of zeros can be a hit',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    'divides by the number of all rows less the empty sets, and so counts the rows without a gold set',
    'Ignore the rows that have no gold set.',
    'rows without a gold set counted as misses',
)
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        total += len(rows) - sum(not places for places in sets)
        for row, places in zip(rows, sets):
            best = max(row)
            hits += best > 0 and row.index(best) in places
    return hits / total


@wrong(
    'takes a row for zeros if its largest weight is below a millionth',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'small weights taken for zero',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 1e-6 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    'takes a row with a single zero for a miss (all instead of any), which hits the rows of a window',
    'The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.',
    'a row with one zero is a miss',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(all(row) and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    'takes the two largest weights for a tie, and so for a miss, if they differ by less than a hundredth',
    'The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.',
    'near ties counted as misses',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                best = max(row)
                ties = [s for s, w in enumerate(row) if math.isclose(w, best, rel_tol=0.01)]
                hits.append(best > 0 and len(ties) == 1 and ties[0] in places)
    return sum(hits) / len(hits)


@wrong(
    'collects the hits in a default argument, so that they add up from call to call',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'list as a default argument',
)
def alignment_hit_rate(weights, gold, hits=[]):
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    'asks whether the gold positions together have more weight than the rest',
    'The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.',
    'sum of the weights in the frame instead of the largest weight',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                inside = sum(row[s] for s in places)
                hits.append(inside > sum(row) - inside)
    return sum(hits) / len(hits)


@wrong(
    "deletes the surplus rows from the caller's lists",
    'Do not change the inputs.',
    'deletes rows of the input',
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets):]  # no gold set
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits)
