import itertools
import operator
import statistics
from collections import Counter
from fractions import Fraction

import torch
from blind import right, wrong


# Right
@right("a map of ==, and a mean of the standard library")
def r1(predictions, references):
    return statistics.fmean(map(operator.eq, predictions, references))


@right("a fraction, from loops over all places with zip_longest and an own filler")
def r2(predictions, references):
    nothing = object()
    good = 0
    for said, wanted in zip(predictions, references, strict=True):
        for one, other in itertools.zip_longest(said, wanted, fillvalue=nothing):
            if one != other:
                break
        else:
            good += 1
    return float(Fraction(good, len(references)))


@right("one minus the share of mistakes, counted over indices")
def r3(predictions, references):
    count = len(predictions)
    wrong_ones = [i for i in range(count) if predictions[i] != references[i]]
    return (count - len(wrong_ones)) / count


@right("truth values in a tensor of float64, and .item()")
def r4(predictions, references):
    same = [
        len(p) == len(r) and all(a == b for a, b in zip(p, r, strict=True))
        for p, r in zip(predictions, references, strict=True)
    ]
    return torch.tensor(same, dtype=torch.float64).mean().item()


# Wrong
@wrong(
    "compares by zip, which ends with the shorter one",
    breaks="an answer counts if all of its tokens are right, in number and in order",
    name="a beginning counts as the whole",
    subtle=True,
)
def w1(predictions, references):
    good = sum(
        all(a == b for a, b in zip(p, r, strict=False))
        for p, r in zip(predictions, references, strict=True)
    )
    return good / len(references)


@wrong(
    "compares the counts of the tokens",
    breaks="in number and in order",
    name="order does not count",
    subtle=True,
)
def w2(predictions, references):
    pairs = zip(predictions, references, strict=True)
    return sum(Counter(p) == Counter(r) for p, r in pairs) / len(references)


@wrong(
    "an empty answer never counts",
    breaks="a tuple may be empty",
    name="two empty tuples are not equal",
    subtle=True,
)
def w3(predictions, references):
    pairs = zip(predictions, references, strict=True)
    return sum(bool(p) and p == r for p, r in pairs) / len(references)


@wrong(
    "joins the tokens to a text, so that two tokens may equal one",
    breaks="an answer counts if all of its tokens are right, in number and in order",
    name="joined to one text",
    subtle=True,
)
def w4(predictions, references):
    good = 0
    for p, r in zip(predictions, references, strict=True):
        good += "".join(p) == "".join(r)
    return good / len(references)


@wrong(
    "takes the predictions out of the list",
    breaks="Both lists stay as they are.",
    name="pop from the list",
    subtle=True,
)
def w5(predictions, references):
    count, good = len(predictions), 0
    for wanted in reversed(references):
        good += predictions.pop() == wanted
    return good / count


@wrong(
    "an answer counts if it is anywhere among the references",
    breaks="the right ones, in the same order",
    name="any reference will do",
    subtle=True,
)
def w6(predictions, references):
    return sum(p in references for p in predictions) / len(predictions)


@wrong(
    "sets of examples: repeated ones count once",
    breaks="The share of examples that are right",
    name="repeated examples count once",
    subtle=True,
)
def w7(predictions, references):
    pairs = set(zip(predictions, references, strict=True))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong(
    "small letters and no white space before the comparison",
    breaks="an answer counts if all of its tokens are right",
    name="upper and lower case make no difference",
    subtle=True,
)
def w8(predictions, references):
    def tidy(tokens):
        return [token.strip().lower() for token in tokens]

    pairs = zip(predictions, references, strict=True)
    return sum(tidy(p) == tidy(r) for p, r in pairs) / len(references)


@wrong(
    "rounded to two places",
    breaks="The share of examples that are right",
    name="rounded",
    subtle=True,
)
def w9(predictions, references):
    pairs = zip(predictions, references, strict=True)
    return round(sum(p == r for p, r in pairs) / len(references), 2)


@wrong(
    "an answer may go on after the right tokens, and an answer that ends early is wrong",
    breaks="in number and in order",
    name="more than the whole counts as well",
    subtle=True,
)
def w10(predictions, references):
    pairs = zip(predictions, references, strict=True)
    return sum(p[: len(r)] == r for p, r in pairs) / len(references)
