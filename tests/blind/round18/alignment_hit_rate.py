from fractions import Fraction
from itertools import chain

import torch

from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("one list of True and False, as the hints suggest")
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                largest = max(row)
                hits.append(largest > 0 and row.index(largest) in positions)
    return sum(hits) / len(hits)


@right("never looks for a position: the best weight inside against the best outside")
def alignment_hit_rate(weights, gold):
    def hit(row, inside):
        best = {True: 0.0, False: 0.0}
        for s, weight in enumerate(row):
            best[s in inside] = max(best[s in inside], weight)
        return best[True] > best[False]

    pairs = chain.from_iterable(map(zip, weights, gold))
    hits = [hit(row, inside) for row, inside in pairs if len(inside) > 0]
    return hits.count(True) / len(hits)


@right("0/1 matrices of the gold sets and one-hot rows in float64 tensors")
def alignment_hit_rate(weights, gold):
    hits = counted = 0
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            row = torch.tensor(row, dtype=torch.float64)
            frame = torch.zeros(len(row), dtype=torch.bool)
            frame[sorted(positions)] = True
            largest = (row == row.max()) & (row > 0)
            hits += int((largest & frame).any())
            counted += int(frame.any())
    return float(hits / counted)


class Tally:
    """Counts hits and misses as an exact fraction."""

    def __init__(self):
        self.hits, self.total = 0, 0

    def add(self, row, positions):
        order = sorted(range(len(row)), key=lambda s: -row[s])
        self.total += 1
        self.hits += bool(row[order[0]]) and order[0] in positions

    def rate(self):
        return float(Fraction(int(self.hits), self.total))


@right("a class that counts, sorted positions, indices, and an exact fraction")
def alignment_hit_rate(weights, gold):
    tally = Tally()
    for n in range(len(gold)):
        for t in range(len(gold[n])):
            if gold[n][t] != set():
                tally.add(weights[n][t], gold[n][t])
    return tally.rate()


# ---------------------------------------------------------------- wrong answers


@wrong(
    "averages the hit rates of the examples",
    breaks="Compute it over all examples together.",
    name="mean of means",
)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, golds in zip(weights, gold):
        hits = [
            max(row) > 0 and row.index(max(row)) in positions
            for row, positions in zip(rows, golds)
            if positions
        ]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates)


@wrong(
    "takes position 0 for the largest weight of a row of zeros",
    breaks="A row in which all weights are zero is not a hit.",
    name="a row of zeros can be a hit",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                hits.append(row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "compares the position with the first gold position only",
    breaks="The **hit rate** is the share of target positions whose largest weight is"
    " on one of their gold positions.",
    name="only the first gold position",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                hits.append(max(row) > 0 and row.index(max(row)) == min(positions))
    return sum(hits) / len(hits)


@wrong(
    "calls it a hit if more than half of a row's weight lies in the frames",
    breaks="Write `alignment_hit_rate`, which measures how often the largest weight of"
    " a row lies in a frame.",
    name="mass instead of the largest weight",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                hits.append(sum(row[s] for s in positions) > sum(row) / 2)
    return sum(hits) / len(hits)


@wrong(
    "stops at the first empty gold set of an example instead of skipping it",
    breaks="A target position counts only if its gold set is not empty.",
    name="break instead of continue",
)
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if not positions:
                break
            total += 1
            hits += max(row) > 0 and row.index(max(row)) in positions
    return hits / max(total, 1)


@wrong(
    "always drops the last row, even where there is no additional one",
    breaks="An example never has fewer rows of weights than gold sets, but it may have"
    " more, for example a last row for the end-of-sequence token.",
    name="last row always dropped",
)
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows[:-1], golds):
            if positions:
                total += 1
                hits += max(row) > 0 and row.index(max(row)) in positions
    return hits / max(total, 1)


@wrong(
    "puts the rows into bfloat16 tensors, where a thousandth makes no difference",
    breaks="In every other row, one weight is larger than all others, by at least a"
    " thousandth of this weight.",
    name="too coarse a dtype",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                row = torch.tensor(row, dtype=torch.bfloat16)
                hits.append(bool(row.max() > 0) and row.argmax().item() in positions)
    return sum(hits) / len(hits)


@wrong(
    "deletes the additional rows from the caller's lists",
    breaks="Do not change the inputs.",
    name="shortens the caller's lists",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        del rows[len(golds) :]
        for row, positions in zip(rows, golds):
            if positions:
                hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "collects the hits in a default argument, which lives on to the next call",
    breaks="The result of a call must not depend on earlier calls or on other objects"
    " of the same class.",
    name="mutable default argument",
)
def alignment_hit_rate(weights, gold, hits=[]):
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                hits.append(max(row) > 0 and row.index(max(row)) in positions)
    return sum(hits) / len(hits)


@wrong(
    "takes every row that contains a zero for a row of zeros",
    breaks="A row in which all weights are zero is not a hit.",
    name="any zero instead of all zeros",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, golds in zip(weights, gold):
        for row, positions in zip(rows, golds):
            if positions:
                hits.append(all(row) and row.index(max(row)) in positions)
    return sum(hits) / len(hits)
