import operator
from fractions import Fraction

import torch

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "computes the share of tokens that are right",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "share of tokens, not of answers",
)
def exact_match(predictions, references):
    right_ones = sum(
        p == r for pair in zip(predictions, references) for p, r in zip(*pair)
    )
    tokens = sum(max(len(p), len(r)) for p, r in zip(predictions, references))
    return right_ones / max(tokens, 1)


@wrong(
    "compares as many tokens as the shorter of the two has",
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although"
    " each of its tokens is right.",
    "zip ignores missing tokens",
)
def exact_match(predictions, references):
    right_ones = sum(
        all(p == r for p, r in zip(prediction, reference))
        for prediction, reference in zip(predictions, references)
    )
    return right_ones / len(references)


@wrong(
    "returns the number of right answers",
    "The share of examples that are right, a float in [0, 1].",
    "count instead of share",
)
def exact_match(predictions, references):
    return float(sum(p == r for p, r in zip(predictions, references)))


@wrong(
    "compares sets of tokens",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "number and order ignored",
)
def exact_match(predictions, references):
    return sum(set(p) == set(r) for p, r in zip(predictions, references)) / len(
        references
    )


@wrong(
    "joins the tokens without a blank: ('ab', 'c') equals ('a', 'bc')",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "compares joined texts",
    subtle=True,
)
def exact_match(predictions, references):
    right_ones = 0
    for prediction, reference in zip(predictions, references):
        right_ones += "".join(prediction) == "".join(reference)
    return right_ones / len(references)


@wrong(
    "an empty answer is always wrong, even if the target is empty too",
    "predictions: a tuple of tokens for each example, in a list that is not empty; a"
    " tuple may be empty.",
    "empty answer never right",
    subtle=True,
)
def exact_match(predictions, references):
    right_ones = 0
    for prediction, reference in zip(predictions, references):
        if prediction and prediction == reference:
            right_ones += 1
    return right_ones / len(references)


@wrong(
    "keeps the pairs in a set: an example that comes twice counts once",
    "The share of examples that are right, a float in [0, 1].",
    "repeated examples counted once",
    subtle=True,
)
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong(
    "asks whether the answer is among the references, anywhere",
    "references: the correct answers, in the same order.",
    "answer of another example accepted",
    subtle=True,
)
def exact_match(predictions, references):
    known = set(references)
    return sum(p in known for p in predictions) / len(predictions)


@wrong(
    "compares in lower case",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "upper and lower case alike",
    subtle=True,
)
def exact_match(predictions, references):
    right_ones = 0
    for prediction, reference in zip(predictions, references):
        said = [token.lower() for token in prediction]
        right_ones += said == [token.lower() for token in reference]
    return right_ones / len(references)


@wrong(
    "pops the examples off the caller's lists",
    "Do not change the inputs.",
    "lists emptied",
    subtle=True,
)
def exact_match(predictions, references):
    number, right_ones = len(references), 0
    while predictions:
        right_ones += predictions.pop() == references.pop()
    return right_ones / number


# ---------------------------------------------------------------- right answers


@right("map and operator.eq")
def exact_match(predictions, references):
    return sum(map(operator.eq, map(tuple, predictions), map(tuple, references))) / len(
        predictions
    )


@right("counts the wrong ones, token by token, with for ... else")
def exact_match(predictions, references):
    mistakes = 0
    for i in range(len(predictions)):
        if len(predictions[i]) != len(references[i]):
            mistakes += 1
            continue
        for j in range(len(references[i])):
            if predictions[i][j] != references[i][j]:
                mistakes += 1
                break
    return (len(predictions) - mistakes) / len(predictions)


@right("the mean of a float64 tensor")
def exact_match(predictions, references):
    hits = [p == r for p, r in zip(predictions, references, strict=True)]
    return torch.tensor(hits, dtype=torch.float64).mean().item()


@right("a fraction, made a float at the end")
def exact_match(predictions, references):
    wrong_ones = [r for p, r in zip(predictions, references) if p != r]
    return float(1 - Fraction(len(wrong_ones), len(references)))
