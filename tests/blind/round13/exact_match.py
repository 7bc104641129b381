import operator
from fractions import Fraction
from itertools import zip_longest
from statistics import fmean

import torch

from blind import right, wrong


@right("statistics.fmean of operator.eq")
def exact_match(predictions, references):
    return fmean(map(operator.eq, predictions, references))


@right("compares lengths and single tokens in loops, and counts the wrong answers")
def exact_match(predictions, references):
    n, wrong_ones = len(predictions), 0
    for i in range(n):
        said, wanted = predictions[i], references[i]
        if len(said) != len(wanted):
            wrong_ones += 1
            continue
        for j in range(len(said)):
            if said[j] != wanted[j]:
                wrong_ones += 1
                break
    return (n - wrong_ones) / n


@right("zip_longest with a filler that equals no token, and an exact fraction")
def exact_match(predictions, references):
    nothing = object()

    def same(said, wanted):
        pairs = zip_longest(said, wanted, fillvalue=nothing)
        return all(a == b for a, b in pairs)

    right_ones = sum(map(same, predictions, references))
    return float(Fraction(right_ones, len(references)))


@right("a list of booleans and count; a float64 tensor for the mean")
def exact_match(predictions, references):
    marks = [tuple(a) == tuple(b) for a, b in zip(predictions, references)]
    counts = torch.tensor([marks.count(True), len(marks)], dtype=torch.float64)
    return (counts[0] / counts[1]).item()


@wrong(
    "computes the share of right tokens",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "share of tokens instead of answers",
)
def exact_match(predictions, references):
    right_tokens = total = 0
    for prediction, reference in zip(predictions, references):
        right_tokens += sum(a == b for a, b in zip(prediction, reference))
        total += max(len(prediction), len(reference))
    return right_tokens / max(total, 1)


@wrong(
    "sorts the tokens before comparing, so their order does not matter",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "order of the tokens ignored",
)
def exact_match(predictions, references):
    marks = [sorted(a) == sorted(b) for a, b in zip(predictions, references)]
    return sum(marks) / len(marks)


@wrong(
    "returns a percentage",
    "The share of examples that are right, a float in [0, 1].",
    "0 to 100 instead of 0 to 1",
)
def exact_match(predictions, references):
    marks = [a == b for a, b in zip(predictions, references)]
    return 100 * sum(marks) / len(marks)


@wrong(
    "returns a tensor, not a float",
    "The share of examples that are right, a float in [0, 1].",
    "item() forgotten",
)
def exact_match(predictions, references):
    marks = [a == b for a, b in zip(predictions, references)]
    return torch.tensor(marks, dtype=torch.float64).mean()


@wrong(
    "compares only as many tokens as the shorter of the two has, so a prefix is right",
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although each"
    " of its tokens is right.",
    "zip stops at the shorter one",
    subtle=True,
)
def exact_match(predictions, references):
    marks = [
        all(a == b for a, b in zip(prediction, reference))
        for prediction, reference in zip(predictions, references)
    ]
    return sum(marks) / len(marks)


@wrong(
    "compares the joined texts, so ('vingt', 'dix') equals ('vingtdix',)",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "boundaries of the tokens ignored",
    subtle=True,
)
def exact_match(predictions, references):
    marks = ["".join(a) == "".join(b) for a, b in zip(predictions, references)]
    return sum(marks) / len(marks)


@wrong(
    "asks whether a prediction is among all references, not whether it is its own one",
    "references: the correct answers, in the same order.",
    "prediction compared with all references",
    subtle=True,
)
def exact_match(predictions, references):
    marks = [prediction in references for prediction in predictions]
    return sum(marks) / len(marks)


@wrong(
    "an empty prediction is never right, even if the correct answer is empty",
    "predictions: a tuple of tokens for each example, in a list that is not empty; a"
    " tuple may be empty.",
    "empty answers always wrong",
    subtle=True,
)
def exact_match(predictions, references):
    right_ones = 0
    for prediction, reference in zip(predictions, references):
        if prediction and prediction == reference:
            right_ones += 1
    return right_ones / len(predictions)


@wrong(
    "puts the pairs into a set, so that equal pairs count once",
    "The share of examples that are right, a float in [0, 1].",
    "repeated examples counted once",
    subtle=True,
)
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(a == b for a, b in pairs) / len(pairs)


@wrong(
    "takes the answers off the caller's lists with pop",
    "Do not change the inputs.",
    "lists emptied",
    subtle=True,
)
def exact_match(predictions, references):
    total, right_ones = len(predictions), 0
    while predictions:
        right_ones += predictions.pop() == references.pop()
    return right_ones / total
