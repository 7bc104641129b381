import operator
from collections import Counter
from fractions import Fraction
from itertools import zip_longest
from statistics import fmean

from blind import right, wrong


@right("fmean over operator.eq of the two lists")
def exact_match(predictions, references):
    return fmean(map(operator.eq, predictions, references))


@right("compares token by token, with a sentinel where one tuple is shorter")
def exact_match(predictions, references):
    missing = object()
    count = 0
    for said, wanted in zip(predictions, references):
        for a, b in zip_longest(said, wanted, fillvalue=missing):
            if a != b:
                break
        else:
            count += 1
    return count / len(references)


@right("counts the mistakes and takes their share off, with exact fractions")
def exact_match(predictions, references):
    wrong_ones = sum(
        len(p) != len(r) or any(p[i] != r[i] for i in range(len(r)))
        for p, r in zip(predictions, references)
    )
    return float(1 - Fraction(wrong_ones, len(predictions)))


@right("counts each kind of pair with a Counter and adds up the pairs whose halves agree")
def exact_match(predictions, references, *, key=tuple):
    pairs = Counter((key(p), key(r)) for p, r in zip(predictions, references))
    good = sum(n for (p, r), n in pairs.items() if p == r)
    return good / sum(pairs.values())


@wrong(
    "compares only up to the shorter tuple: ('quatre', '-', 'vingt') counts for a longer answer",
    "*Exact match* is strict: an answer counts if all of its tokens are right, in number and in order.",
    "zip stops early: a beginning counts as right",
)
def exact_match(predictions, references):
    hits = [
        all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)
    ]
    return sum(hits) / len(hits)


@wrong(
    "returns the share of right tokens, not of right answers",
    "*quatre-vingt* for *quatre-vingt-dix* is a wrong answer, although each of its tokens is right.",
    "token accuracy in place of exact match",
)
def exact_match(predictions, references):
    hits = total = 0
    for p, r in zip(predictions, references):
        hits += sum(a == b for a, b in zip(p, r))
        total += max(len(p), len(r))
    return hits / total if total else 1.0


@wrong(
    "returns the number of right answers, not their share",
    "The share of examples that are right, a float in [0, 1].",
    "count in place of the share",
)
def exact_match(predictions, references):
    return float(sum(p == r for p, r in zip(predictions, references)))


@wrong(
    "an empty prediction never counts, not even if the right answer is empty",
    "predictions: a list with a tuple of tokens per example, at least one; a",
    "an empty answer never counts as right",
)
def exact_match(predictions, references):
    hits = 0
    for p, r in zip(predictions, references):
        if p and p == r:
            hits += 1
    return hits / len(references)


@wrong(
    "compares sorted tokens: an answer in another order counts",
    "*Exact match* is strict: an answer counts if all of its tokens are right, in number and in order.",
    "order of tokens ignored",
)
def exact_match(predictions, references):
    hits = [sorted(p) == sorted(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "takes the pairs off the lists with pop: both lists are empty after the call",
    "Both lists stay as they are.",
    "empties the caller's lists",
)
def exact_match(predictions, references):
    total, hits = len(references), 0
    while references:
        if predictions.pop() == references.pop():
            hits += 1
    return hits / total


@wrong(
    "rounds to two digits: one right answer of three gives 0.33, one of 500 gives 0.0",
    "The share of examples that are right, a float in [0, 1].",
    "share rounded to two digits",
)
def exact_match(predictions, references):
    hits = sum(p == r for p, r in zip(predictions, references))
    return round(hits / len(references), 2)


@wrong(
    "joins the tokens before it compares: ('ab', 'c') equals ('a', 'bc')",
    "*Exact match* is strict: an answer counts if all of its tokens are right, in number and in order.",
    "joined strings hide the borders of tokens",
)
def exact_match(predictions, references):
    hits = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "collects right pairs in a set: an answer that is right in two examples counts once",
    "The share of examples that are right, a float in [0, 1].",
    "repeated right answers count once",
)
def exact_match(predictions, references):
    right_ones = {(p, r) for p, r in zip(predictions, references) if p == r}
    return len(right_ones) / len(references)


@wrong(
    "compares tokens with `is`: equal strings that were made separately (by join, split or lower) count as different",
    "*Exact match* is strict: an answer counts if all of its tokens are right, in number and in order.",
    "identity of tokens in place of equality",
)
def exact_match(predictions, references):
    hits = [
        len(p) == len(r) and all(a is b for a, b in zip(p, r))
        for p, r in zip(predictions, references)
    ]
    return sum(hits) / len(hits)
