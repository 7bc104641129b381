import operator
from fractions import Fraction
from statistics import fmean

from blind import right, wrong

STRICT = "*Exact match* is strict: an answer is right only if it has the same tokens as the target, in the same number and order."
SHARE = "Write `exact_match`, which computes the share of right answers."
RETURNS = "The share of examples that are right, a float in [0, 1]."


@right("map with operator.eq")
def exact_match(predictions, references):
    return sum(map(operator.eq, predictions, references)) / len(predictions)


@right("fmean of floats, tokens compared one by one after the lengths")
def exact_match(predictions, references):
    def same(a, b):
        return len(a) == len(b) and not any(x != y for x, y in zip(a, b))

    return fmean(float(same(p, r)) for p, r in zip(predictions, references))


@right("one minus the share of wrong answers, as a fraction")
def exact_match(predictions, references):
    wrong_ones = [i for i, p in enumerate(predictions) if tuple(p) != tuple(references[i])]
    return float(1 - Fraction(len(wrong_ones), len(predictions)))


@right("a counter in a loop, for/else")
def exact_match(predictions, references):
    good = total = 0
    for prediction, reference in zip(predictions, references, strict=True):
        total += 1
        if len(prediction) != len(reference):
            continue
        for i in range(len(reference)):
            if prediction[i] != reference[i]:
                break
        else:
            good += 1
    return good / total


@wrong("zip ends with the shorter tuple: a prefix counts as right",
       breaks="If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although each of its tokens is right.",
       name="compares only up to the shorter length")
def exact_match(predictions, references):
    hits = [all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong("compares the sorted tokens, so the order plays no role", breaks=STRICT, name="ignores the order")
def exact_match(predictions, references):
    hits = [sorted(p) == sorted(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong("joins the tokens without a separator: ('ab', 'c') equals ('a', 'bc')", breaks=STRICT,
       name="compares joined strings")
def exact_match(predictions, references):
    hits = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong("the mean share of right tokens in an answer", breaks="Compute the share of predictions in which every token is right.",
       name="token accuracy")
def exact_match(predictions, references):
    shares = []
    for p, r in zip(predictions, references):
        longest = max(len(p), len(r))
        shares.append(sum(a == b for a, b in zip(p, r)) / longest if longest else 1.0)
    return sum(shares) / len(shares)


@wrong("a set of pairs: examples that occur twice count once", breaks=RETURNS, name="repeated examples counted once")
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong("an empty answer is never right, not even for an empty target",
       breaks="predictions: a tuple of tokens for each example, in a list that is not empty; a tuple may be empty.",
       name="empty answer counts as wrong")
def exact_match(predictions, references):
    hits = [bool(p) and p == r for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong("an answer is right if it is the target of any example",
       breaks="references: the correct answers, in the same order.", name="looks for the answer anywhere")
def exact_match(predictions, references):
    return sum(p in references for p in predictions) / len(predictions)


@wrong("takes the answers out of the caller's lists", breaks="Do not change the inputs.", name="empties the lists")
def exact_match(predictions, references):
    total, hits = len(predictions), 0
    while predictions:
        hits += predictions.pop() == references.pop()
    return hits / total


@wrong("compares tokens with `is`: equal strings that are different objects count as wrong", breaks=STRICT,
       name="identity instead of equality")
def exact_match(predictions, references):
    hits = [
        len(p) == len(r) and all(a is b for a, b in zip(p, r))
        for p, r in zip(predictions, references)
    ]
    return sum(hits) / len(hits)


@wrong("rounds the share to two digits: a third becomes 0.33", breaks=SHARE, name="rounded share")
def exact_match(predictions, references):
    return round(sum(p == r for p, r in zip(predictions, references)) / len(predictions), 2)
