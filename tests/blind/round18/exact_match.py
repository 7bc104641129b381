import itertools
from fractions import Fraction

import torch

from blind import right, wrong

STRICT = (
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order."
)
PREFIX = (
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although"
    " each of its tokens is right."
)
REFERENCES = "the correct answers, tuples of tokens in the same order."
EMPTY = (
    "a tuple of tokens for each example, in a list that is not empty; a\n"
    "            tuple may be empty."
)
SHARE = "The share of examples that are right, a float in [0, 1]."
INPUTS = "Do not change the inputs."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("counts in exact fractions")
def exact_match(predictions, references):
    share = sum(
        Fraction(prediction == reference, len(references))
        for prediction, reference in zip(predictions, references, strict=True)
    )
    return float(share)


@right("compares token by token, and a missing token equals nothing")
def exact_match(predictions, references):
    missing = object()

    def same(one, other):
        for a, b in itertools.zip_longest(one, other, fillvalue=missing):
            if a != b:
                return False
        return True

    return len([1 for pair in zip(predictions, references) if same(*pair)]) / len(
        predictions
    )


@right("the mean of a float64 tensor of zeros and ones")
def exact_match(predictions, references):
    hits = torch.zeros(len(references), dtype=torch.float64)
    for i in range(len(references)):
        hits[i] = 1.0 if predictions[i] == references[i] else 0.0
    return hits.mean().item()


@right("one minus nothing: filters out the mistakes and counts what is left")
def exact_match(predictions, references):
    mistakes = [
        i
        for i, (said, wanted) in enumerate(zip(predictions, references))
        if len(said) != len(wanted)
        or any(a != b for a, b in zip(said, wanted))
    ]
    return (len(references) - len(mistakes)) / len(references)


@wrong(
    "compares only as many tokens as the shorter tuple has",
    breaks=PREFIX,
    name="prefix counts as right",
)
def exact_match(predictions, references):
    hits = [
        all(a == b for a, b in zip(prediction, reference))
        for prediction, reference in zip(predictions, references)
    ]
    return sum(hits) / len(hits)


@wrong(
    "sorts the tokens before it compares them",
    breaks=STRICT,
    name="order of the tokens ignored",
)
def exact_match(predictions, references):
    hits = [sorted(p) == sorted(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "looks for a prediction among all references",
    breaks=REFERENCES,
    name="compared with the targets of other examples",
)
def exact_match(predictions, references):
    return sum(p in references for p in predictions) / len(predictions)


@wrong(
    "takes the tuples out of the given lists",
    breaks=INPUTS,
    name="lists emptied",
)
def exact_match(predictions, references):
    hits = []
    while predictions:
        hits.append(predictions.pop() == references.pop())
    return sum(hits) / len(hits)


@wrong(
    "asks with `is` whether the two tuples are the same object",
    breaks=STRICT,
    name="identity instead of equality",
)
def exact_match(predictions, references):
    hits = [p is r for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "never counts an empty prediction as right",
    breaks=EMPTY,
    name="empty answer always wrong",
)
def exact_match(predictions, references):
    hits = [bool(p) and p == r for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "compares the joined texts, in which the borders of the tokens are lost",
    breaks=STRICT,
    name="joined texts compared",
)
def exact_match(predictions, references):
    hits = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "counts equal pairs of prediction and target only once",
    breaks=SHARE,
    name="repeated examples counted once",
)
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(p == r for p, r in pairs) / len(pairs)


_seen = {"right": 0, "all": 0}


@wrong(
    "adds up over all calls",
    breaks=STATE,
    name="counts of earlier calls included",
)
def exact_match(predictions, references):
    _seen["right"] += sum(p == r for p, r in zip(predictions, references))
    _seen["all"] += len(references)
    return _seen["right"] / _seen["all"]


@wrong(
    "leaves out unknown tokens on both sides before it compares",
    breaks=STRICT,
    name="unknown tokens ignored",
)
def exact_match(predictions, references):
    def known(tokens):
        return tuple(token for token in tokens if token != "<unk>")

    hits = [known(p) == known(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)
