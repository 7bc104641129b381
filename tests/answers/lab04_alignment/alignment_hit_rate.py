"""Answers to alignment_hit_rate."""

import dataclasses
import itertools
from statistics import fmean

import torch
from answers.core import draw, right, wide, wrong, wrong_edits
from answers.lab04_alignment.shared import sizes
from answers.signs import NOTHING

from nbjudge import edit
from nbjudge.question import Request


@wide("alignment_hit_rate")
def any_maps(g):
    for n, s, t, *_ in sizes(g):
        weights = draw(g, n, t, s).relu()
        gold = torch.rand(n, t, s, generator=g) < 0.4
        gold[0, 0, 0] = True
        counts = torch.randint(1, t + 1, (n,), generator=g).tolist()
        places = [
            [[i for i, named in enumerate(row) if named] for row in rows[:count]]
            for rows, count in zip(gold.tolist(), counts)
        ]
        yield Request((weights, places))


@right("alignment_hit_rate")
def with_a_list(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            if marked:
                hits.append(max(row) > 0 and row.index(max(row)) in marked)
    return sum(hits) / len(hits)


@right("alignment_hit_rate")
def with_two_counts(weights, gold):
    hits = total = 0
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            if len(marked) > 0:
                total += 1
                best = max(range(len(row)), key=lambda s: row[s])
                if best in marked and row[best] > 0:
                    hits += 1
    return hits / total


@right("alignment_hit_rate")
def with_indices(weights, gold):
    hits, total = 0.0, 0.0
    for i in range(len(gold)):
        for t in range(len(gold[i])):
            if not gold[i][t]:
                continue
            total = total + 1.0
            largest = 0.0
            where = None
            for s in range(len(weights[i][t])):
                if weights[i][t][s] > largest:
                    largest, where = weights[i][t][s], s
            hits = hits + (1.0 if where in gold[i][t] else 0.0)
    return hits / total


@right("alignment_hit_rate")
def in_one_expression(weights, gold):
    pairs = [
        pair
        for rows, positions in zip(weights, gold)
        for pair in zip(rows, positions)
        if pair[1]
    ]
    return sum(
        max(row) > 0 and row.index(max(row)) in marked for row, marked in pairs
    ) / len(pairs)


@right("alignment_hit_rate")
def with_tensors(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        best = torch.tensor(rows).argmax(-1).tolist()
        hits += [b in g and row[b] > 0 for b, g, row in zip(best, positions, rows) if g]
    return torch.tensor(hits).float().mean().item()


@right("alignment_hit_rate")
def with_chain(weights, gold):
    rows = itertools.chain.from_iterable(w[: len(g)] for w, g in zip(weights, gold))
    marked = itertools.chain.from_iterable(gold)
    hits = [any(row) and row.index(max(row)) in g for row, g in zip(rows, marked) if g]
    return len([hit for hit in hits if hit]) / len(hits)


@right("alignment_hit_rate")
def by_comparing_maxima(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            if marked:
                inside = max(row[s] for s in marked)
                outside = max(
                    [row[s] for s in range(len(row)) if s not in marked], default=0.0
                )
                hits.append(inside > outside)
    return sum(hits) / len(hits)


@right("alignment_hit_rate")
def by_enumeration(weights, gold):
    found = []
    for number, positions in enumerate(gold):
        for t, marked in enumerate(positions):
            if marked:
                weight, where = max((w, -s) for s, w in enumerate(weights[number][t]))
                found.append(weight > 0 and -where in marked)
    return found.count(True) / len(found)


@right("alignment_hit_rate")
def by_sorting(weights, gold):
    hits, misses = 0, 0
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            order = sorted(range(len(row)), key=row.__getitem__, reverse=True)
            if marked and row[order[0]] > 0 and order[0] in marked:
                hits += 1
            elif marked:
                misses += 1
    return hits / (hits + misses)


@right("alignment_hit_rate")
def recursively(weights, gold):
    def hits_of(row, marked):
        if not marked:
            return []
        return [bool(sum(row)) and row.index(max(row)) in marked]

    flat = sum(
        (
            sum((hits_of(*pair) for pair in zip(w, g)), [])
            for w, g in zip(weights, gold)
        ),
        [],
    )
    return sum(flat) / len(flat)


@right("alignment_hit_rate")
def with_a_helper(weights, gold):
    @dataclasses.dataclass
    class Tally:
        hits: int = 0
        seen: int = 0

    tally = Tally()
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            tally.seen += bool(marked)
            tally.hits += bool(
                marked and max(row) > 0 and row.index(max(row)) in marked
            )
    return tally.hits / tally.seen


@wrong("alignment_hit_rate", "mean of the per-sentence hit rates")
def mean_of_means(weights, gold):
    return fmean(with_a_list([rows], [places]) for rows, places in zip(weights, gold))


@wrong("alignment_hit_rate", "an operation does not fit lists or sets")
def expects_tensors(weights, gold):
    best = weights.argmax(-1)
    return (gold.gather(-1, best[..., None])).float().mean()


@wrong("alignment_hit_rate", "wrong when some gold sets are empty")
def mean_of_means_by_counts(weights, gold):
    rates, counts = [], []
    for rows, positions in zip(weights, gold):
        if positions:
            counts.append(sum(map(bool, positions)))
            rates.append(with_a_list([rows], [positions]) * counts[-1])
    return sum(rates) / sum(counts)


@wrong("alignment_hit_rate")
def first_example_has_as_many_rows_beyond(weights, gold):
    beyond = len(weights[0]) - len(gold[0])
    rows = [row for rows in weights for row in rows[: len(rows) - beyond]]
    return with_a_list([rows], [[x for positions in gold for x in positions]])


@wrong("alignment_hit_rate", "wrong when some rows are equal")
def finds_the_row_again(weights, gold):
    rows = [
        (row, positions[all_rows.index(row)])
        for all_rows, positions in zip(weights, gold)
        for row in all_rows[: len(positions)]
    ]
    return with_a_list([[row for row, _ in rows]], [[marked for _, marked in rows]])


@wrong("alignment_hit_rate", "wrong when some rows are equal")
def finds_the_example_again(weights, gold):
    return with_a_list(weights, [gold[weights.index(rows)] for rows in weights])


EVERY_ROW = edit(with_a_list, "if marked:", "if True:")
HIT = "max(row) > 0 and row.index(max(row)) in marked"
SHARE = "sum(hits) / len(hits)"
ROWS = "for row, marked in zip(rows, positions):"
COUNTED = "wrong when some gold sets are empty"

wrong_edits(
    "alignment_hit_rate",
    with_a_list,
    hyphens_missed=(EVERY_ROW, "positions with empty gold sets count as misses"),
    zeros_point=(
        edit(with_a_list, "max(row) > 0 and ", ""),
        "a row of zeros points to position 0",
    ),
    mass=(
        edit(with_a_list, HIT, "sum(row[s] for s in marked)"),
        "the weight on gold positions instead of hits",
    ),
    counted=(
        edit(with_a_list, SHARE, "sum(hits)"),
        "the number of hits instead of their share",
    ),
    more_than_half=(edit(with_a_list, HIT, "sum(row[s] for s in marked) > 0.5"),),
    both_counts=(
        edit(with_a_list, SHARE, "sum(hits), len(hits)"),
        "the result is not a number",
    ),
    stumbles_over_hyphens=(
        EVERY_ROW
        & edit(with_a_list, HIT, "max(row[s] for s in marked) == max(row) > 0"),
        COUNTED,
    ),
    one_column_points=(
        edit(with_a_list, "max(row) > 0", "(len(row) == 1 or max(row) > min(row))"),
    ),
    below_epsilon=(
        edit(with_a_list, "max(row) > 0", "max(row) > 2.2e-16"),
        "small weights are treated as zero",
    ),
    rounded_to_four=(
        edit(with_a_list, SHARE, f"round({SHARE}, 4)"),
        "the share is rounded",
    ),
    a_tensor=(
        edit(with_a_list, SHARE, f"torch.tensor({SHARE})"),
        "a type other than a float",
    ),
    a_string=(edit(with_a_list, SHARE, f"str({SHARE})"), "a type other than a float"),
    printed=(edit(with_a_list, f"return {SHARE}", f"print({SHARE})"), NOTHING),
    hyphens_hit=(EVERY_ROW & edit(with_a_list, HIT, f"not marked or {HIT}"), COUNTED),
    one_row_late=(edit(with_a_list, "zip(rows,", "zip(rows[1:],"),),
    rows_beyond_popped=(
        edit(
            with_a_list,
            ROWS,
            f"while len(rows) > len(positions):\n            rows.pop()\n        {ROWS}",
        ),
        "the input lists are changed",
    ),
)
