from blind import right, wrong
import functools
import statistics

import numpy

import torch


@right("numpy's argmax, counters")
def alignment_hit_rate(weights, gold):
    hits = count = 0
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if len(places) == 0:
                continue
            row = numpy.asarray(row, dtype=float)
            best = int(row.argmax())
            count += 1
            hits += int(row[best] > 0 and best in places)
    return float(hits / count) if count else 0.0


@right('a generator of pairs, and the mean of ones and zeros')
def alignment_hit_rate(weights, gold):
    def pairs():
        for rows, sets in zip(weights, gold):
            yield from ((r, g) for r, g in zip(rows, sets) if g)
    scores = [1.0 if any(r) and r.index(max(r)) in g else 0.0 for r, g in pairs()]
    return statistics.fmean(scores) if scores else 0.0


@right('indices sorted by weight, misses subtracted from one')
def alignment_hit_rate(weights, gold):
    total, misses = 0, 0
    for i in range(len(gold)):
        for t in range(min(len(gold[i]), len(weights[i]))):
            if not gold[i][t]:
                continue
            total += 1
            row = weights[i][t]
            first = sorted(range(len(row)), key=lambda s: (-row[s], s))[0]
            if row[first] == 0 or first not in gold[i][t]:
                misses += 1
    return (total - misses) / total if total else 0.0


@right('reduce, and its own search for the largest')
def alignment_hit_rate(weights, gold):
    def where(row):
        best, place = 0, None
        for s, w in enumerate(row):
            if w > best:
                best, place = w, s
        return place
    def add(acc, pair):
        row, places = pair
        return (acc[0] + (where(row) in places), acc[1] + 1) if places else acc
    flat = (pair for rows, sets in zip(weights, gold) for pair in zip(rows, sets))
    hits, n = functools.reduce(add, flat, (0, 0))
    return hits / max(n, 1)


@wrong('positions without gold count as misses', breaks='A position with an empty gold set (a hyphen came from nowhere) does not count at all.', name='empty gold sets counted', subtle=False)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if True:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong("mean of the examples' rates", breaks='share of target positions whose largest weight is on one of their gold positions, over all examples together.', name='average of averages', subtle=False)
def alignment_hit_rate(weights, gold):
    rates = []
    for rows, sets in zip(weights, gold):
        hits = [max(r) > 0 and r.index(max(r)) in g for r, g in zip(rows, sets) if g]
        if hits:
            rates.append(sum(hits) / len(hits))
    return sum(rates) / len(rates) if rates else 0.0


@wrong('a row of zeros points at position 0', breaks='A row in which all weights are zero points nowhere. That is no hit.', name='zero row hits position 0', subtle=False)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong('a row of zeros is left out of the count', breaks='A row in which all weights are zero points nowhere. That is no hit.', name='zero rows skipped instead of missed', subtle=True)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places and any(row):
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong('cuts off the surplus rows in place', breaks='The lists that come in are drawn later: leave them as they are.', name='rows deleted from the input', subtle=True)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        del rows[len(sets):]
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong("the last row is always the end marker's", breaks='An example may have more rows of weights than gold sets (the row of the end marker is the last): the rows beyond do not count.', name='last row dropped though it has a gold set', subtle=True)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows[:-1], sets):
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong('a gold set is wanted for every row but one', breaks='the rows beyond do not count.', name='only one row beyond is foreseen; two count as misses', subtle=True)
def alignment_hit_rate(weights, gold):
    hits, n = 0, 0
    for rows, sets in zip(weights, gold):
        n += sum(1 for g in sets if g) + max(len(rows) - len(sets) - 1, 0)
        hits += sum(max(r) > 0 and r.index(max(r)) in g for r, g in zip(rows, sets))
    return hits / n if n else 0.0


@wrong('weights below a thousandth are taken for zero', breaks='A row in which all weights are zero points nowhere.', name='threshold in place of zero', subtle=True)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(max(row) > 1e-3 and row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0


@wrong('a dictionary of rows: equal rows are counted once', breaks='share of target positions whose largest weight is on one of their gold positions, over all examples together.', name='duplicates fall together', subtle=True)
def alignment_hit_rate(weights, gold):
    hits = {}
    for i, (rows, sets) in enumerate(zip(weights, gold)):
        for row, places in zip(rows, sets):
            if places:
                hits[i, tuple(row)] = max(row) > 0 and row.index(max(row)) in places
    return sum(hits.values()) / len(hits) if hits else 0.0


@wrong('as many columns as the first example has', breaks='weights: per example a list of rows, each a list of S numbers.', name='S of the first example for all', subtle=True)
def alignment_hit_rate(weights, gold):
    hits, width = [], None
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            width = width or len(row)
            row = row[:width]
            if places:
                hits.append(max(row) > 0 and row.index(max(row)) in places)
    return sum(hits) / len(hits) if hits else 0.0
