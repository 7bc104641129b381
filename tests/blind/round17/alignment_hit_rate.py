import statistics
from fractions import Fraction
from itertools import chain

import torch
from blind import right, wrong

SHARE = "The **hit rate** is the share of target positions whose largest weight is on one of their gold positions."
TOGETHER = "Compute it over all examples together."
COUNTS = "A target position counts only if its gold set is not empty."
MORE = "An example may have more rows of weights than gold sets, for example a last row for the end-of-sequence token."
IGNORE = "Ignore these additional rows."
ZERO = "A row in which all weights are zero is not a hit."
LARGER = "In every other row, one weight is larger than all others, by at least a thousandth of this weight."
INPUTS = "Do not change the inputs."
SETS = "gold: for each example, a list of sets, one for each target position; at least"


@right("compares the largest weight on gold positions with the largest one elsewhere")
def alignment_hit_rate(weights, gold):
    hits, total = 0, 0
    for rows, sets in zip(weights, gold):
        for t in range(len(sets)):
            if not sets[t]:
                continue
            row = rows[t]
            on = max(row[s] for s in sets[t])
            off = max((x for s, x in enumerate(row) if s not in sets[t]), default=0)
            hits += on > 0 and on > off
            total += 1
    return hits / total


@right("the mean of a list of ones and zeros, with tensors in float64")
def alignment_hit_rate(weights, gold):
    outcomes = []
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            if len(wanted) > 0:
                top, place = torch.tensor(row, dtype=torch.float64).max(dim=0)
                outcomes.append(float(top.item() > 0 and place.item() in wanted))
    return statistics.fmean(outcomes)


@right("sorts the positions of a row by their weight and collects the pairs first")
def alignment_hit_rate(weights, gold):
    pairs = chain.from_iterable(zip(rows, sets) for rows, sets in zip(weights, gold))
    counted = [(row, wanted) for row, wanted in pairs if wanted]
    missed = 0
    for row, wanted in counted:
        order = sorted(range(len(row)), key=row.__getitem__)
        if not any(row) or order[-1] not in wanted:
            missed += 1
    return 1 - missed / len(counted)


@right("subtracts the misses from one in exact fractions, from the last row to the first")
def alignment_hit_rate(weights, gold):
    total = sum(bool(wanted) for sets in gold for wanted in sets)
    rate = Fraction(1)
    for example in reversed(range(len(gold))):
        for t in reversed(range(len(gold[example]))):
            wanted, row = gold[example][t], weights[example][t]
            best = [s for s in range(len(row)) if row[s] > 0 and row[s] == max(row)]
            if wanted and not wanted.intersection(best):
                rate -= Fraction(1, total)
    return float(rate)


@wrong(
    "averages the hit rates of the examples",
    breaks=TOGETHER,
    name="short examples count as much as long ones",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [
            max(row) > 0 and row.index(max(row)) in wanted
            for row, wanted in zip(rows, sets)
            if wanted
        ]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "counts positions without gold positions as misses",
    breaks=COUNTS,
    name="empty gold sets are part of the denominator",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in wanted)
    return sum(hits) / len(hits)


@wrong(
    "joins the rows of all examples and the sets of all examples before it pairs them",
    breaks=IGNORE,
    name="an additional row shifts all examples after it",
)
def alignment_hit_rate(weights, gold):
    all_rows = [row for rows in weights for row in rows]
    all_sets = [wanted for sets in gold for wanted in sets]
    hits = []
    for row, wanted in zip(all_rows, all_sets):
        if wanted:
            hits.append(max(row) > 0 and row.index(max(row)) in wanted)
    return sum(hits) / len(hits)


@wrong(
    "takes the first position of a row of zeros as its largest weight",
    breaks=ZERO,
    name="a row of zeros is a hit if position 0 is gold",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            if wanted:
                hits.append(row.index(max(row)) in wanted)
    return sum(hits) / len(hits)


@wrong(
    "leaves rows of zeros out of the count",
    breaks=ZERO,
    name="a row of zeros is skipped instead of missed",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            if wanted and any(row):
                hits.append(row.index(max(row)) in wanted)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "always leaves out the last row, as if it belonged to the end of the sequence",
    breaks=MORE,
    name="the last target position is lost if there is no additional row",
)
def alignment_hit_rate(weights, gold):
    hits, total = 0, 0
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows[:-1] if len(rows) > 1 else rows, sets):
            if wanted:
                total += 1
                hits += max(row) > 0 and row.index(max(row)) in wanted
    return hits / max(total, 1)


@wrong(
    "removes the additional rows from the caller's lists",
    breaks=INPUTS,
    name="the weights are shorter after the call",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets) :]
        for row, wanted in zip(rows, sets):
            if wanted:
                hits.append(max(row) > 0 and row.index(max(row)) in wanted)
    return sum(hits) / len(hits)


@wrong(
    "asks with `best and ...` whether there is a largest weight",
    breaks=SHARE,
    name="position 0 is never a hit, because 0 is false",
)
def alignment_hit_rate(weights, gold):
    hits, total = 0, 0
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            if not wanted:
                continue
            total += 1
            best = row.index(max(row)) if max(row) > 0 else None
            if best and best in wanted:
                hits += 1
    return hits / total


@wrong(
    "takes rows whose weights add up to less than a half for rows of zeros",
    breaks=LARGER,
    name="rows that a window has made small are not counted as hits",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            if wanted:
                hits.append(sum(row) >= 0.5 and row.index(max(row)) in wanted)
    return sum(hits) / len(hits)


@wrong(
    "searches the largest weight in a bfloat16 tensor",
    breaks=LARGER,
    name="two weights that are close together become equal",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, wanted in zip(rows, sets):
            if wanted:
                values = torch.tensor(row, dtype=torch.bfloat16)
                best = int(values.argmax())
                hits.append(bool(values[best] > 0) and best in wanted)
    return sum(hits) / len(hits)
