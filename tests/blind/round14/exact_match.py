"""Answers to `exact_match`."""
import operator
import statistics
from fractions import Fraction
from itertools import zip_longest

from blind import right, wrong


@right('adds up booleans of operator.eq')
def exact_match_right1(predictions, references):
    return sum(map(operator.eq, predictions, references)) / len(predictions)


@right('an exact fraction, turned into a float at the end')
def exact_match_right2(predictions, references):
    hits = Fraction(0)
    for said, wanted in zip(predictions, references):
        hits += Fraction(int(tuple(said) == tuple(wanted)), len(predictions))
    return float(hits)


@right('compares token by token and fills the shorter tuple with something that equals no token')
def exact_match_right3(predictions, references):
    nothing = object()
    wrong_ones = 0
    for pair in zip(predictions, references):
        if any(a is nothing or b is nothing or a != b for a, b in zip_longest(*pair, fillvalue=nothing)):
            wrong_ones += 1
    return (len(predictions) - wrong_ones) / len(predictions)


@right('the mean of floats from the statistics module')
def exact_match_right4(predictions, references):
    return float(
        statistics.fmean(
            1.0 if len(p) == len(r) and all(map(operator.eq, p, r)) else 0.0
            for p, r in zip(predictions, references)
        )
    )


@wrong(
    'Compares only as many tokens as the shorter of the two has.',
    '*Exact match* is strict: an answer is right only if it has the same tokens as the target, in the same number and order.',
    'prefix counts as right',
)
def exact_match_wrong1(predictions, references):
    hits = [all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    'Computes the share of right tokens.',
    'The share of examples that are right, a float in [0, 1].',
    'share of tokens, not answers',
)
def exact_match_wrong2(predictions, references):
    right_tokens = sum(a == b for p, r in zip(predictions, references) for a, b in zip(p, r))
    return right_tokens / max(1, sum(max(len(p), len(r)) for p, r in zip(predictions, references)))


@wrong(
    'Ignores the order of the tokens.',
    '*Exact match* is strict: an answer is right only if it has the same tokens as the target, in the same number and order.',
    'order of tokens ignored',
)
def exact_match_wrong3(predictions, references):
    return sum(sorted(p) == sorted(r) for p, r in zip(predictions, references)) / len(predictions)


@wrong(
    'Returns per cent.',
    'The share of examples that are right, a float in [0, 1].',
    'percentage instead of share',
)
def exact_match_wrong4(predictions, references):
    return 100 * sum(p == r for p, r in zip(predictions, references)) / len(predictions)


@wrong(
    'Glues the tokens together before the comparison, so other tokens that spell the same text count as right.',
    '*Exact match* is strict: an answer is right only if it has the same tokens as the target, in the same number and order.',
    'compares joined text',
)
def exact_match_wrong5(predictions, references):
    hits = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    'Never counts an empty answer as right, even if the target is empty too.',
    'tuple may be empty.',
    'empty answer never right',
)
def exact_match_wrong6(predictions, references):
    hits = [bool(p) and p == r for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    'Rounds the share to two decimals.',
    'The share of examples that are right, a float in [0, 1].',
    'share is rounded',
)
def exact_match_wrong7(predictions, references):
    return round(sum(p == r for p, r in zip(predictions, references)) / len(predictions), 2)


@wrong(
    'Puts the pairs into a dictionary, so of several examples with the same answer only the last counts.',
    'The share of examples that are right, a float in [0, 1].',
    'equal answers counted once',
)
def exact_match_wrong8(predictions, references):
    pairs = dict(zip(predictions, references))
    return sum(p == r for p, r in pairs.items()) / len(pairs)


@wrong(
    'Removes special tokens such as `<eos>` and `<unk>` before the comparison.',
    '*Exact match* is strict: an answer is right only if it has the same tokens as the target, in the same number and order.',
    'special tokens removed first',
)
def exact_match_wrong9(predictions, references):
    specials = ("<pad>", "<bos>", "<eos>", "<unk>")

    def clean(tokens):
        return [token for token in tokens if token not in specials]

    return sum(clean(p) == clean(r) for p, r in zip(predictions, references)) / len(predictions)


@wrong(
    'Compares without regard to capitals, so two different tokens may count as equal.',
    '*Exact match* is strict: an answer is right only if it has the same tokens as the target, in the same number and order.',
    'capitals are ignored',
)
def exact_match_wrong10(predictions, references):
    hits = 0
    for p, r in zip(predictions, references):
        hits += tuple(a.lower() for a in p) == tuple(b.lower() for b in r)
    return hits / len(predictions)
