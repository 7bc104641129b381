import operator
import statistics
from fractions import Fraction
from itertools import zip_longest

import numpy as np
import torch

from blind import right, wrong

STRICT = (
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order."
)
SHARE = "Compute the share of predictions in which every token is right."
EMPTY = (
    "predictions: a tuple of tokens for each example, in a list that is not empty; a"
    " tuple may be empty."
)
SAME_ORDER = "references: the correct answers, in the same order."
FLOAT = "The share of examples that are right, a float in [0, 1]."
PREFIX = (
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although"
    " each of its tokens is right."
)
INPUTS = "Do not change the inputs."


@right("maps operator.eq over both lists and averages with numpy")
def exact_match(predictions, references):
    return float(np.mean(list(map(operator.eq, predictions, references))))


@right("adds up exact fractions")
def exact_match(predictions, references):
    part = Fraction(1, len(predictions))
    return float(
        sum((part for p, r in zip(predictions, references) if p == r), Fraction(0))
    )


@right("compares token by token with zip_longest and a filler that is no token")
def exact_match(predictions, references):
    hits = 0
    for p, r in zip(predictions, references):
        hits += all(a == b for a, b in zip_longest(p, r, fillvalue=None))
    return hits / len(references)


@right("counts the wrong ones by index and subtracts them, with a float64 tensor")
def exact_match(predictions, references):
    misses = torch.zeros(len(predictions), dtype=torch.float64)
    for i in range(len(predictions)):
        misses[i] = predictions[i] != references[i]
    return 1.0 - misses.mean().item()


@wrong(
    "computes the share of tokens that are right",
    breaks=SHARE,
    name="accuracy per token",
)
def exact_match(predictions, references):
    hits = total = 0
    for p, r in zip(predictions, references):
        hits += sum(a == b for a, b in zip(p, r))
        total += max(len(p), len(r))
    return hits / total if total else 1.0


@wrong(
    "compares with zip, which stops at the end of the shorter one",
    breaks=PREFIX,
    name="a prefix counts as right",
)
def exact_match(predictions, references):
    hits = [
        all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)
    ]
    return sum(hits) / len(hits)


@wrong(
    "sorts the tokens before it compares them",
    breaks=STRICT,
    name="the order does not matter",
)
def exact_match(predictions, references):
    hits = [sorted(p) == sorted(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "looks whether the answer is among all references",
    breaks=SAME_ORDER,
    name="the correct answer to another example counts",
)
def exact_match(predictions, references):
    return sum(p in references for p in predictions) / len(predictions)


@wrong(
    "joins the tokens without a separator, so ('a', 'b') equals ('ab',)",
    breaks=STRICT,
    name="the borders between tokens get lost",
)
def exact_match(predictions, references):
    hits = sum("".join(p) == "".join(r) for p, r in zip(predictions, references))
    return hits / len(predictions)


@wrong(
    "counts an empty answer as wrong even if the target is empty",
    breaks=EMPTY,
    name="an empty answer is never right",
)
def exact_match(predictions, references):
    hits = [bool(p and p == r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "makes a dictionary from references to predictions, so equal references collapse",
    breaks=SHARE,
    name="repeated examples count once",
)
def exact_match(predictions, references):
    answers = dict(zip(references, predictions))
    return sum(p == r for r, p in answers.items()) / len(answers)


@wrong(
    "takes the references out of the caller's list",
    breaks=INPUTS,
    name="the list of references is empty afterwards",
)
def exact_match(predictions, references):
    hits = 0
    for p in predictions:
        hits += p == references.pop(0)
    return hits / len(predictions)


@wrong(
    "averages booleans with statistics.mean, which gives the int 0 or 1 at the ends",
    breaks=FLOAT,
    name="an int if all or none are right",
)
def exact_match(predictions, references):
    return statistics.mean([p == r for p, r in zip(predictions, references)])


@wrong(
    "skips <unk> on both sides before it compares",
    breaks=STRICT,
    name="unknown tokens are left out of the comparison",
)
def exact_match(predictions, references):
    def known(tokens):
        return [token for token in tokens if token != "<unk>"]

    hits = [known(p) == known(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)
