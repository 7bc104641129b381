from blind import bugs


def make(bug):
    def alignment_hit_rate(weights, gold):
        hits = total = 0
        rates = []
        for rows, sets in zip(weights, gold):
            before = hits, total
            if bug == "examples of one target position left out" and len(sets) == 1:
                continue
            if bug == "sets from the end":
                rows = rows[len(rows) - len(sets) :]
            for t, row in enumerate(rows):
                if t >= len(sets):
                    if bug == "additional rows count":
                        total += 1
                    continue
                places = sets[t]
                if bug == "empty sets removed from the list":
                    while set() in sets:
                        sets.remove(set())
                    places = sets[t] if t < len(sets) else set()
                if not places:
                    total += bug == "empty sets count as misses"
                    hits += bug == "empty sets count as hits"
                    total += bug == "empty sets count as hits"
                    continue
                if not any(row) and bug == "rows of zeros do not count":
                    continue
                total += 1
                best = max(range(len(row)), key=row.__getitem__) if row else -1
                if bug == "the last of the largest":
                    best = max(range(len(row)), key=lambda s: (row[s], s))
                    hits += best in places and any(row)
                elif bug == "rows of zeros point at 0":
                    hits += best in places
                elif bug == "at least half of the weight":
                    hits += sum(row[s] for s in places if s < len(row)) >= 0.5
                elif bug == "largest weight above one half":
                    hits += best in places and row[best] > 0.5
                elif bug == "the smallest gold position alone":
                    hits += best == min(places) and any(row)
                elif bug == "one position off is near enough":
                    hits += any(abs(best - s) <= 1 for s in places) and any(row)
                elif bug == "gold weight in place of hits":
                    hits += sum(row[s] for s in places)
                elif bug == "weights below 1e-3 are zeros":
                    hits += best in places and row[best] > 1e-3
                elif bug == "all gold positions must lead":
                    order = sorted(range(len(row)), key=lambda s: -row[s])
                    hits += set(order[: len(places)]) == set(places) and any(row)
                else:
                    hits += best in places and any(row)
            if total > before[1]:
                rates.append((hits - before[0]) / (total - before[1]))
        if bug == "mean of the examples":
            return sum(rates) / len(rates)
        if bug == "a percentage":
            return 100 * hits / total
        if bug == "misses":
            return 1 - hits / total
        return hits / total

    return alignment_hit_rate


RATE = "the share of target positions whose largest weight is on one of their gold positions, over all examples together"
EMPTY = "A position with an empty gold set (a hyphen came from nowhere) does not count at all."
ZERO = "A row in which all weights are zero points nowhere. That is not a hit."
bugs(
    make,
    {
        "examples of one target position left out": RATE,
        "sets from the end": "the additional rows do not count (the last row is EOS's)",
        "additional rows count": "the additional rows do not count",
        "empty sets removed from the list": "The lists that come in are drawn later: leave them as they are.",
        "empty sets count as misses": EMPTY,
        "empty sets count as hits": EMPTY,
        "rows of zeros do not count": ZERO,
        "rows of zeros point at 0": ZERO,
        "at least half of the weight": RATE,
        "largest weight above one half": RATE,
        "the smallest gold position alone": RATE,
        "one position off is near enough": RATE,
        "gold weight in place of hits": RATE,
        "weights below 1e-3 are zeros": RATE,
        "all gold positions must lead": RATE,
        "mean of the examples": RATE,
        "a percentage": "a float in [0, 1]",
        "misses": RATE,
    },
)
