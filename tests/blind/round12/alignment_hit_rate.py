from fractions import Fraction

import torch

from blind import right, wrong


@right("torch in float64 for each row, and a tensor of booleans at the end")
def alignment_hit_rate(weights, gold):
    found = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if len(places) == 0:
                continue
            numbers = torch.tensor(row, dtype=torch.float64)
            best = int(numbers.argmax())
            found.append(bool(numbers[best] != 0) and best in places)
    return float(torch.tensor(found, dtype=torch.float64).mean())


@right("compares the largest gold weight with the largest other weight")
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for t, places in enumerate(sets):
            if not places:
                continue
            inside = [w for s, w in enumerate(rows[t]) if s in places]
            outside = [w for s, w in enumerate(rows[t]) if s not in places]
            total += 1
            hits += max(inside, default=0) > max(outside, default=0)
    return hits / total


@right("sorts each row by its weights, counts with fractions")
def alignment_hit_rate(weights, gold):
    def hit(row, places):
        ordered = sorted(range(len(row)), key=lambda s: row[s], reverse=True)
        return any(row) and ordered[0] in places

    pairs = [
        (row, places)
        for rows, sets in zip(weights, gold)
        for row, places in zip(rows[: len(sets)], sets)
        if places
    ]
    return float(Fraction(sum(1 for pair in pairs if hit(*pair)), len(pairs)))


@right("no zip: indices, a while loop and a running mean")
def alignment_hit_rate(weights, gold):
    mean, count = 0.0, 0
    for number in range(len(gold)):
        t = 0
        while t < len(gold[number]):
            places = gold[number][t]
            row = weights[number][t]
            t += 1
            if not places:
                continue
            largest, where = 0, None
            for s in range(len(row)):
                if row[s] > largest:
                    largest, where = row[s], s
            count += 1
            mean += ((where in places) - mean) / count
    return min(max(mean, 0.0), 1.0)


@wrong(
    "counts the positions with an empty gold set as misses",
    "A target position counts only if its gold set is not empty.",
    "empty gold sets are counted",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            largest = max(row)
            hits.append(largest > 0 and row.index(largest) in places)
    return sum(hits) / len(hits)


@wrong(
    "takes the mean of the rates of the examples, so that a short example counts as much as a long one",
    "Compute it over all examples together.",
    "a mean of means",
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
    "calls it a hit if the gold positions together have at least half of the weight",
    "The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.",
    "sums the weights in the frame instead of looking at the largest",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(sum(row[s] for s in places) >= 0.5)
    return sum(hits) / len(hits)


@wrong(
    "compares the largest weight with the first gold position only",
    "The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.",
    "only one position of the gold set is looked at",
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                largest = max(row)
                hits.append(largest > 0 and row.index(largest) == min(places))
    return sum(hits) / len(hits)


@wrong(
    "a row of zeros has its maximum at position 0, and is a hit if 0 is a gold position",
    "A row in which all weights are zero is not a hit.",
    "a row of zeros is a hit at position 0",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                hits.append(row.index(max(row)) in places)
    return sum(hits) / len(hits)


@wrong(
    "leaves rows of zeros out of the count, where each of them should be a miss",
    "The **hit rate** is the share of target positions whose largest weight is on one of their gold positions.",
    "rows of zeros are not counted at all",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = total = 0
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if not places or not any(row):
                continue
            total += 1
            hits += row.index(max(row)) in places
    return hits / total if total else 0.0


@wrong(
    "takes the last rows of an example that has more rows than gold sets, instead of the first",
    "Ignore the rows that have no gold set.",
    "rows and gold sets are aligned at the end",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows[-len(sets) :], sets):
            if places:
                largest = max(row)
                hits.append(largest > 0 and row.index(largest) in places)
    return sum(hits) / len(hits)


@wrong(
    "pops the rows without a gold set from the lists of the caller",
    "Do not change the inputs.",
    "removes rows from the input",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        while len(rows) > len(sets):
            rows.pop()
        for row, places in zip(rows, sets):
            if places:
                largest = max(row)
                hits.append(largest > 0 and row.index(largest) in places)
    return sum(hits) / len(hits)


@wrong(
    "collects the hits in a list that is a default argument and so outlives the call: the second call counts the first one's hits again",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "a mutable default argument",
    subtle=True,
)
def alignment_hit_rate(weights, gold, hits=[]):
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                largest = max(row)
                hits.append(largest > 0 and row.index(largest) in places)
    return sum(hits) / len(hits)


@wrong(
    "takes every row for a row of zeros whose largest weight is below a millionth, such as [0, 3e-8, 0]",
    "In every other row, one weight is larger than all others, by at least a thousandth of this weight.",
    "small weights are taken for zeros",
    subtle=True,
)
def alignment_hit_rate(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        for row, places in zip(rows, sets):
            if places:
                largest = max(row)
                hits.append(largest > 1e-6 and row.index(largest) in places)
    return sum(hits) / len(hits)
