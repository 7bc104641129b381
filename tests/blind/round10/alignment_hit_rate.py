from collections import Counter
from itertools import chain, starmap

import torch

from blind import right, wrong


@right("argmax of a float64 tensor for each row, zero rows found with any()")
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if not positions:
                continue
            total += 1
            numbers = torch.tensor(row, dtype=torch.float64)
            hits += bool(numbers.any()) and numbers.argmax().item() in positions
    return hits / total


@right("a Counter of True and False over one chain of pairs, with a helper function")
def alignment_hit_rate(weights, gold):
    def hit(row, positions):
        place, largest = max(enumerate(row), key=lambda pair: pair[1])
        return largest != 0 and place in positions

    pairs = chain.from_iterable(map(zip, weights, gold))
    counted = Counter(starmap(hit, (pair for pair in pairs if len(pair[1]) > 0)))
    return counted[True] / counted.total()


@right("goes over the gold sets by index; compares the best gold weight with the best other weight")
def alignment_hit_rate(weights, gold, verbose=False):
    hits, total = 0, 0
    for i in range(len(gold)):
        for t in range(min(len(gold[i]), len(weights[i]))):
            inside = [w for s, w in enumerate(weights[i][t]) if s in gold[i][t]]
            outside = [w for s, w in enumerate(weights[i][t]) if s not in gold[i][t]]
            if len(gold[i][t]) == 0:
                continue
            total += 1
            if max(inside, default=0) > max(outside, default=0):
                hits += 1
    if verbose:
        print(hits, "of", total)
    return float(hits) / float(total)


@right("two passes: the denominator first, then the sum of shares; argmax by sorting")
def alignment_hit_rate(weights, gold):
    flat = []
    for rows, sets in zip(weights, gold):
        flat += list(zip(rows, sets))
    asked = [(row, places) for row, places in flat if places != set()]
    found = 0
    for row, places in asked:
        order = sorted(range(len(row)), key=row.__getitem__, reverse=True)
        if any(row) and not places.isdisjoint(order[:1]):
            found += 1
    return found / len(asked)


@wrong(
    "averages the rates of the examples: wrong when the examples have different numbers of positions that count",
    "Compute it over all examples together.",
    "mean of the examples' rates",
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
    "counts a position with an empty gold set as a miss",
    "A target position counts only if its gold set is not empty.",
    "empty gold sets counted as misses",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "stops at the first empty set of an example: the characters after the first hyphen are not counted",
    "A target position counts only if its gold set is not empty.",
    "break where continue is meant",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if not positions:
                break
            hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "a row of zeros has its 'largest' weight at position 0, which is a hit if 0 is a gold position",
    "A row in which all weights are zero is not a hit.",
    "row of zeros may be a hit",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                hits.append(row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "always drops the last row of an example: where there is no additional row, the last target position is lost",
    "An example may have more rows of weights than gold sets, for example a last row for the end-of-sequence token.",
    "assumes exactly one row too many",
)
def alignment_hit_rate(weights, gold):
    hits, total = 0, 0
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows[:-1], sets):
            if positions:
                total += 1
                if max(row) > 0 and row.index(max(row)) in positions:
                    hits += 1
    return hits / max(total, 1)


@wrong(
    "makes one tensor of all examples: raises a ValueError as soon as S or the number of rows differs between examples",
    "S may differ between examples.",
    "assumes that all examples have the same size",
)
def alignment_hit_rate(weights, gold):
    table = torch.tensor(weights, dtype=torch.float64)  # (examples, T, S)
    largest, best = table.max(dim=-1)
    hits = []
    for i, sets in enumerate(gold):
        for t, positions in enumerate(sets):
            if positions:
                hits.append(largest[i, t].item() > 0 and best[i, t].item() in positions)
    return sum(hits) / len(hits)


@wrong(
    "treats every row whose largest weight is below 1e-6 as a row of zeros: tiny weights (a window far from "
    "the position) are misses although one of them is the largest",
    "In every other row, one weight is larger than all others.",
    "small weights taken for zeros",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                best = max(row)
                hits.append(best > 1e-6 and row.index(best) in positions)
    return sum(hits) / len(hits)


@wrong(
    "turns each row into a float32 tensor: two weights that differ by 1e-9 become equal, and the first one wins",
    "In every other row, one weight is larger than all others.",
    "float32 hides which weight is the largest",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                numbers = torch.tensor([float(x) for x in row])
                hits.append(numbers.max().item() > 0 and numbers.argmax().item() in positions)
    return sum(hits) / len(hits)


@wrong(
    "pops the rows without a gold set off the caller's lists: the number is right, but the weights are changed",
    "Do not change the inputs.",
    "removes rows from the caller's weights",
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
    "`or None` is meant for rows of zeros but also turns the position 0 into None: a largest weight at the "
    "first source position is never a hit",
    "The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.",
    "position 0 can never be a hit",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, positions in zip(rows, sets):
            if positions:
                best = row.index(max(row)) or None  # None: a row of zeros
                hits.append(best in positions)
    return sum(hits) / len(hits)
