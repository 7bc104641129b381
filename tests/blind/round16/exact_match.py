from fractions import Fraction
from itertools import zip_longest
from statistics import fmean

import torch
from torch import nn
from blind import right, wrong

STRICT = "an answer is right only if it has the same tokens as the target, in the same number and order."
SHARE = "The share of examples that are right, a float in [0, 1]."
EVERY = "Compute the share of predictions in which every token is right."
SAME_ORDER = "references: the correct answers, in the same order."


@right('fmean of the comparisons')
def exact_match(predictions, references):
    return fmean(tuple(p) == tuple(r) for p, r in zip(predictions, references))


@right('counts the mistakes and divides exactly, with a fraction')
def exact_match(predictions, references):
    wrong_ones = sum(map(tuple.__ne__, predictions, references))
    return float(1 - Fraction(wrong_ones, len(references)))


@right('compares token by token, with a filler that is no token for missing ones')
def exact_match(predictions, references):
    missing = object()
    count = 0
    for p, r in zip(predictions, references):
        count += all(a == b for a, b in zip_longest(p, r, fillvalue=missing))
    return count / len(predictions)


@right('a float64 tensor of comparisons')
def exact_match(predictions, references):
    same = [p == r for p, r in zip(predictions, references)]
    return torch.tensor(same, dtype=torch.float64).mean().item()


@wrong(
    'compares only as many tokens as the shorter one has, so a prefix is right',
    breaks=STRICT,
    name='prefix counts as right',
)
def exact_match(predictions, references):
    same = [all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)]
    return sum(same) / len(same)


@wrong(
    'the share of right tokens instead of right answers',
    breaks=EVERY,
    name='tokens counted instead of answers',
)
def exact_match(predictions, references):
    hits = sum(a == b for p, r in zip(predictions, references) for a, b in zip(p, r))
    return hits / max(1, sum(max(len(p), len(r)) for p, r in zip(predictions, references)))


@wrong(
    'compares sorted tokens, so their order does not matter',
    breaks=STRICT,
    name='order of the tokens ignored',
)
def exact_match(predictions, references):
    same = [sorted(p) == sorted(r) for p, r in zip(predictions, references)]
    return sum(same) / len(same)


@wrong(
    "joins the tokens without a space: ('a', 'bc') equals ('ab', 'c')",
    breaks=STRICT,
    name='joined texts compared',
)
def exact_match(predictions, references):
    same = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(same) / len(same)


@wrong(
    'an empty answer to an empty target counts as wrong, because of `p and ...`',
    breaks=STRICT,
    name='empty answer always wrong',
)
def exact_match(predictions, references):
    same = [bool(p and p == r) for p, r in zip(predictions, references)]
    return sum(same) / len(same)


@wrong(
    'leaves empty predictions out of the denominator, too',
    breaks=SHARE,
    name='empty predictions not counted',
)
def exact_match(predictions, references):
    pairs = [(p, r) for p, r in zip(predictions, references) if p or not r]
    return sum(p == r for p, r in pairs) / max(1, len(pairs))


@wrong(
    'collects pairs in a set, so equal examples count once',
    breaks=SHARE,
    name='repeated examples count once',
)
def exact_match(predictions, references):
    pairs = set(zip(map(tuple, predictions), map(tuple, references)))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong(
    'looks a prediction up among all references, whichever example they belong to',
    breaks=SAME_ORDER,
    name='reference of another example',
)
def exact_match(predictions, references):
    known = set(references)
    return sum(p in known for p in predictions) / len(predictions)


@wrong(
    'rounds the share to two decimals: 1/3 becomes 0.33',
    breaks=SHARE,
    name='share rounded',
)
def exact_match(predictions, references):
    same = [p == r for p, r in zip(predictions, references)]
    return round(sum(same) / len(same), 2)


@wrong(
    'compares with `is`, which is False for equal tuples that were made separately',
    breaks=STRICT,
    name='identity instead of equality',
)
def exact_match(predictions, references):
    same = [p is r for p, r in zip(predictions, references)]
    return sum(same) / len(same)
