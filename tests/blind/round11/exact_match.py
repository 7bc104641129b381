from fractions import Fraction
from itertools import starmap, zip_longest
from operator import eq
from statistics import fmean

import numpy as np

from attention_course.tasks.core import SPECIALS
from blind import right, wrong


@right("statistics.fmean over operator.eq")
def exact_match(predictions, references):
    return fmean(map(float, starmap(eq, zip(predictions, references))))


@right("compares token by token with zip_longest and a filler that equals no token")
def exact_match(predictions, references):
    hits, filler = 0, object()
    for said, correct in zip(predictions, references):
        hits += all(a == b for a, b in zip_longest(said, correct, fillvalue=filler))
    return hits / len(predictions)


@right("numpy counts the errors")
def exact_match(predictions, references):
    errors = np.array([said != want for said, want in zip(predictions, references)])
    return float(np.count_nonzero(~errors) / errors.size)


@right("an exact fraction, made into a float at the end")
def exact_match(predictions, references):
    share = Fraction(0)
    for i in range(len(predictions)):
        if len(predictions[i]) != len(references[i]):
            continue
        if all(map(eq, predictions[i], references[i])):
            share += Fraction(1, len(predictions))
    return float(share)


@wrong(
    "the share of right tokens",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "token accuracy",
)
def exact_match(predictions, references):
    hits = count = 0
    for said, correct in zip(predictions, references):
        hits += sum(a == b for a, b in zip(said, correct))
        count += max(len(said), len(correct))
    return hits / max(count, 1)


@wrong(
    "zip stops with the shorter of the two, so a beginning of the target is right",
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although"
    " each of its tokens is right.",
    "a prefix counts as right",
)
def exact_match(predictions, references):
    hits = 0
    for said, correct in zip(predictions, references):
        hits += all(a == b for a, b in zip(said, correct))
    return hits / len(references)


@wrong(
    "returns how many answers are right",
    "The share of examples that are right, a float in [0, 1].",
    "count instead of share",
)
def exact_match(predictions, references):
    return float(sum(said == want for said, want in zip(predictions, references)))


@wrong(
    "ignores the order of the tokens",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "order does not matter",
)
def exact_match(predictions, references):
    hits = [sorted(a) == sorted(b) for a, b in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "an empty answer is never right, even if the target is empty",
    "a tuple of tokens for each example, in a list that is not empty; a tuple may be"
    " empty.",
    "empty answers are always wrong",
)
def exact_match(predictions, references):
    hits = 0
    for said, correct in zip(predictions, references):
        if said and said == correct:
            hits += 1
    return hits / len(predictions)


@wrong(
    "glues the tokens together, so other tokens with the same letters are right",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "strings instead of tokens are compared",
)
def exact_match(predictions, references):
    hits = ["".join(a) == "".join(b) for a, b in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "empties both lists while it compares them",
    "Do not change the inputs.",
    "the lists are changed in place",
)
def exact_match(predictions, references):
    total, hits = len(predictions), 0
    while predictions:
        hits += predictions.pop() == references.pop()
    return hits / total


@wrong(
    "an answer is right if it is the target of any example",
    "references: the correct answers, in the same order.",
    "compared with the targets of other examples",
)
def exact_match(predictions, references):
    correct = set(references)
    return sum(said in correct for said in predictions) / len(predictions)


@wrong(
    "the same pair of answer and target counts only once",
    "The share of examples that are right, a float in [0, 1].",
    "repeated examples count once",
)
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(said == correct for said, correct in pairs) / len(pairs)


@wrong(
    "leaves out special tokens such as <unk> before it compares",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "special tokens do not count",
)
def exact_match(predictions, references):
    def plain(tokens):
        return [token for token in tokens if token not in SPECIALS]

    hits = [plain(a) == plain(b) for a, b in zip(predictions, references)]
    return sum(hits) / len(hits)
