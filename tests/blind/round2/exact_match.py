import operator
from collections import Counter
from statistics import fmean

from blind import right, wrong

STRICT = "*Exact match* is strict: an answer counts if all of its tokens are right, in number and in order."
SAME = "Both lists stay as they are."
EMPTY = "a list with a tuple of tokens per example, at least one; a tuple may\n            be empty."
ORDER = "the right ones, in the same order."
SHARE = "The share of examples that are right, a float in [0, 1]."


@right("a counter of comparisons")
def exact_match(predictions, references):
    return Counter(map(operator.eq, predictions, references))[True] / len(references)


@right("token by token, with a look at the lengths")
def exact_match(predictions, references):
    hits = 0
    for said, gold in zip(predictions, references):
        if len(said) != len(gold):
            continue
        for a, b in zip(said, gold):
            if a != b:
                break
        else:
            hits += 1
    return hits / len(predictions)


@right("fmean of floats")
def exact_match(predictions, references):
    return fmean(float(p == r) for p, r in zip(predictions, references, strict=True))


@right("one minus the share of the wrong ones")
def exact_match(predictions, references):
    n = len(predictions)
    return (n - len([i for i in range(n) if predictions[i] != references[i]])) / n


@wrong("the share of tokens", breaks=STRICT, name="token accuracy")
def exact_match(predictions, references):
    pairs = [a == b for p, r in zip(predictions, references) for a, b in zip(p, r)]
    return sum(pairs) / max(1, len(pairs))


@wrong("order makes no difference", breaks=STRICT, name="bags of tokens compared")
def exact_match(predictions, references):
    return sum(Counter(p) == Counter(r) for p, r in zip(predictions, references)) / len(references)


@wrong("percent", breaks=SHARE, name="per cent in place of a share")
def exact_match(predictions, references):
    return 100.0 * sum(p == r for p, r in zip(predictions, references)) / len(references)


@wrong("zip stops at the shorter", breaks=STRICT, name="a beginning counts as the whole", subtle=True)
def exact_match(predictions, references):
    hits = [all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong("an empty answer is never right", breaks=EMPTY, name="empty tuple is falsy", subtle=True)
def exact_match(predictions, references):
    return sum(bool(p) and p == r for p, r in zip(predictions, references)) / len(references)


@wrong("joined to one string", breaks=STRICT, name="borders of tokens lost", subtle=True)
def exact_match(predictions, references):
    return sum("".join(p) == "".join(r) for p, r in zip(predictions, references)) / len(references)


@wrong("both lists are emptied", breaks=SAME, name="input changed", subtle=True)
def exact_match(predictions, references):
    count, hits = len(references), 0
    while references:
        hits += predictions.pop() == references.pop()
    return hits / count


@wrong("each different pair once", breaks=SHARE, name="repeated examples counted once", subtle=True)
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong("right if it is anybody's reference", breaks=ORDER, name="order of examples ignored", subtle=True)
def exact_match(predictions, references):
    known = set(references)
    return sum(p in known for p in predictions) / len(predictions)


@wrong("capitals make no difference", breaks=STRICT, name="case ignored", subtle=True)
def exact_match(predictions, references):
    small = [[[token.lower() for token in answer] for answer in some] for some in (predictions, references)]
    return sum(map(operator.eq, *small)) / len(references)
