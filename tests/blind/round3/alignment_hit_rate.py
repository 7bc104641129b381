import itertools
import math

import torch

from blind import right, wrong


@right("fractions of a flat stream of pairs, largest by key")
def hit_rate_stream(weights, gold):
    rows = itertools.chain.from_iterable(map(zip, weights, gold))
    hits = total = 0
    for row, positions in rows:
        if len(positions) == 0:
            continue
        total += 1
        best = max(range(len(row)), key=row.__getitem__)
        hits += row[best] > 0 and best in positions
    return float(hits / total) if total else 0.0


@right("a walk over each row that remembers the largest so far")
def hit_rate_walk(weights, gold):
    answers = []
    for e in range(min(len(weights), len(gold))):
        for t in range(min(len(weights[e]), len(gold[e]))):
            if gold[e][t]:
                largest, where = 0.0, None
                for s, w in enumerate(weights[e][t]):
                    if w > largest:
                        largest, where = w, s
                answers.append(1.0 if where in gold[e][t] else 0.0)
    return math.fsum(answers) / max(1, len(answers))


@right("float64 tensors row by row, and the mean of a tensor")
def hit_rate_tensor(weights, gold):
    hits = [
        bool(any(row)) and int(torch.tensor(row, dtype=torch.float64).argmax()) in where
        for rows, sets in zip(weights, gold)
        for row, where in zip(rows, sets)
        if where
    ]
    return torch.tensor(hits or [False], dtype=torch.float64).mean().item()


@right("deletes the rows that do not count from a list of its own, and counts what is"
       " left")
def hit_rate_filter(weights, gold):
    pairs = [p for w, g in zip(weights, gold) for p in zip(w, g)]
    pairs = list(filter(lambda pair: pair[1] != set(), pairs))
    hits = [row for row, g in pairs if max(row) and row.index(max(row)) in g]
    try:
        return len(hits) / len(pairs)
    except ZeroDivisionError:
        return 0.0


@wrong(
    "the mean over examples of each example's rate",
    breaks="the share of target positions whose largest weight is on one of their gold"
    " positions, over all examples together",
    name="mean of means",
    subtle=True,
)
def hit_rate_macro(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [
            max(row) > 0 and row.index(max(row)) in g for row, g in zip(rows, sets) if g
        ]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates) if rates else 0.0


@wrong(
    "a row of zeros points at position 0",
    breaks="A row in which all weights are zero points nowhere. That is no hit.",
    name="zeros point at the first position",
    subtle=True,
)
def hit_rate_zeros(weights, gold):
    hits = [
        row.index(max(row)) in g
        for rows, sets in zip(weights, gold)
        for row, g in zip(rows, sets)
        if g
    ]
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "a row of zeros does not count at all",
    breaks="A row in which all weights are zero points nowhere. That is no hit.",
    name="rows of zeros left out of the count",
    subtle=True,
)
def hit_rate_skips_zeros(weights, gold):
    hits = [
        row.index(max(row)) in g
        for rows, sets in zip(weights, gold)
        for row, g in zip(rows, sets)
        if g and any(row)
    ]
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "asks any(set) whether a gold set is empty, which {0} seems to be",
    breaks="A position with an empty gold set (a hyphen came from nowhere) does not"
    " count at all.",
    name="any({0}) is False",
    subtle=True,
)
def hit_rate_any(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, g in zip(rows, sets):
            if any(g):
                hits.append(max(row) > 0 and row.index(max(row)) in g)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "takes the row of the end marker off with pop",
    breaks="The lists that come in are drawn later: leave them as they are.",
    name="pop on what came in",
    subtle=True,
)
def hit_rate_pop(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        while len(rows) > len(sets):
            rows.pop()
        for row, g in zip(rows, sets):
            if g:
                hits.append(max(row) > 0 and row.index(max(row)) in g)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "collects hits in a list that is made once, when the function is defined",
    breaks="The share of hits, a float in [0, 1].",
    name="a list as a default argument",
    subtle=True,
)
def hit_rate_default(weights, gold, hits=[]):  # noqa: B006
    for rows, sets in zip(weights, gold):
        for row, g in zip(rows, sets):
            if g:
                hits.append(max(row) > 0 and row.index(max(row)) in g)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "a position without gold counts as a miss",
    breaks="A position with an empty gold set (a hyphen came from nowhere) does not"
    " count at all.",
    name="empty gold sets in the denominator",
)
def hit_rate_empty_counts(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, g in zip(rows, sets):
            hits.append(max(row) > 0 and row.index(max(row)) in g)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "rounds weights to two decimals first, as they are printed: ties go to the left",
    breaks="the share of target positions whose largest weight is on one of their gold"
    " positions",
    name="rounded before they are compared",
    subtle=True,
)
def hit_rate_rounded(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, g in zip(rows, sets):
            if g:
                row = [round(w, 2) for w in row]
                hits.append(max(row) > 0 and row.index(max(row)) in g)
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "a hit if more than half of the weight is on gold positions",
    breaks="the share of target positions whose largest weight is on one of their gold"
    " positions",
    name="share of the weight, not the largest weight",
)
def hit_rate_mass(weights, gold):
    hits = [
        sum(row[s] for s in g) > 0.5
        for rows, sets in zip(weights, gold)
        for row, g in zip(rows, sets)
        if g
    ]
    return sum(hits) / len(hits) if hits else 0.0


@wrong(
    "divides by all rows of weights, those beyond the gold sets too",
    breaks="the rows beyond do not count",
    name="rows of the end marker in the denominator",
    subtle=True,
)
def hit_rate_all_rows(weights, gold):
    hits = empty = 0
    for rows, sets in zip(weights, gold):
        for row, g in zip(rows, sets):
            empty += not g
            hits += max(row) > 0 and row.index(max(row)) in g
    total = sum(len(rows) for rows in weights) - empty
    return hits / total if total else 0.0
