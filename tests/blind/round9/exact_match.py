from collections import Counter
from fractions import Fraction
from itertools import zip_longest
from operator import eq
from statistics import fmean

import torch

from blind import right, wrong


@right("statistics.fmean of the comparisons")
def exact_match(predictions, references):
    return fmean(map(eq, predictions, references))


@right("compares token by token with zip_longest and a marker, in nested loops")
def exact_match(predictions, references):
    nothing, hits, total = object(), 0, 0
    for prediction, reference in zip(predictions, references):
        total += 1
        for a, b in zip_longest(prediction, reference, fillvalue=nothing):
            if a is nothing or b is nothing or a != b:
                break
        else:
            hits += 1
    return hits / total


@right("counts the mistakes as an exact fraction and takes them away from one")
def exact_match(predictions, references):
    mistakes = [i for i, p in enumerate(predictions) if p != references[i]]
    return float(1 - Fraction(len(mistakes), len(predictions)))


@right("counts the two answers of == with a Counter")
def exact_match(predictions, references):
    outcome = Counter(p == r for p, r in zip(predictions, references))
    return outcome[True] / outcome.total()


@wrong(
    "the share of right tokens, not of right answers",
    "an answer is right only if it has the same tokens as the target, in the same number and"
    " order.",
    "share of tokens instead of share of answers",
)
def exact_match(predictions, references):
    hits = total = 0
    for prediction, reference in zip(predictions, references):
        hits += sum(a == b for a, b in zip(prediction, reference))
        total += max(len(prediction), len(reference))
    return hits / total if total else 1.0


@wrong(
    "zip stops at the shorter one: quatre-vingt counts as right for quatre-vingt-dix, and an"
    " empty answer is always right",
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although each of"
    " its tokens is right.",
    "compares only up to the shorter length",
)
def exact_match(predictions, references):
    hits = 0
    for prediction, reference in zip(predictions, references):
        hits += all(a == b for a, b in zip(prediction, reference))
    return hits / len(references)


@wrong(
    "the same tokens in another order count as right",
    "an answer is right only if it has the same tokens as the target, in the same number and"
    " order.",
    "order is ignored",
)
def exact_match(predictions, references):
    pairs = list(zip(predictions, references))
    return sum(sorted(p) == sorted(r) for p, r in pairs) / len(pairs)


@wrong(
    "an empty answer is never right, even if the correct answer is empty",
    "a tuple of tokens for each example, in a list that is not empty; a tuple may be empty.",
    "empty answers count as wrong",
)
def exact_match(predictions, references):
    hits = 0
    for prediction, reference in zip(predictions, references):
        if prediction and prediction == reference:
            hits += 1
    return hits / len(predictions)


@wrong(
    "joins the tokens to a text: ('vingt', 'et') and ('ving', 'tet') are equal then",
    "an answer is right only if it has the same tokens as the target, in the same number and"
    " order.",
    "joined texts hide where tokens end",
)
def exact_match(predictions, references):
    hits = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "empties the caller's lists while it counts",
    "Do not change the inputs.",
    "pop removes the caller's entries",
)
def exact_match(predictions, references):
    total, hits = len(predictions), 0
    while predictions:
        hits += predictions.pop() == references.pop()
    return hits / total


@wrong(
    "returns a tensor without axes instead of a Python float",
    "The share of examples that are right, a float in [0, 1].",
    "tensor instead of float",
)
def exact_match(predictions, references):
    hits = [p == r for p, r in zip(predictions, references)]
    return torch.tensor(hits, dtype=torch.float64).mean()


@wrong(
    "finds the reference with predictions.index: if the model gives the same answer twice, the"
    " second one is compared with the reference of the first",
    "references: the correct answers, in the same order.",
    "index finds the first of equal predictions",
)
def exact_match(predictions, references):
    hits = 0
    for prediction in predictions:
        hits += references[predictions.index(prediction)] == prediction
    return hits / len(predictions)


@wrong(
    "compares tokens with `is`: works for strings that Python has interned or that come from"
    " the same vocabulary, fails for equal strings made at run time",
    "an answer is right only if it has the same tokens as the target, in the same number and"
    " order.",
    "`is` compares objects, not texts",
)
def exact_match(predictions, references):
    hits = 0
    for prediction, reference in zip(predictions, references):
        if len(prediction) == len(reference):
            hits += all(a is b for a, b in zip(prediction, reference))
    return hits / len(predictions)


@wrong(
    "a dictionary from references to predictions holds a reference only once: if two examples"
    " have the same correct answer, only the last of them counts",
    "The share of examples that are right, a float in [0, 1].",
    "examples with equal references are merged",
)
def exact_match(predictions, references):
    answers = dict(zip(references, predictions))
    return sum(p == r for r, p in answers.items()) / len(answers)
