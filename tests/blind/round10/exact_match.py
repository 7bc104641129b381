import re
import statistics
from fractions import Fraction
from itertools import starmap
from operator import eq

from blind import right, wrong


@right("starmap with operator.eq, and a fraction that becomes a float at the end")
def exact_match(predictions, references):
    hits = sum(starmap(eq, zip(predictions, references, strict=True)))
    return float(Fraction(hits, len(references)))


@right("counts the wrong answers by hand, token by token")
def exact_match(predictions, references):
    wrong_answers = 0
    for i in range(len(predictions)):
        said, correct = predictions[i], references[i]
        if len(said) != len(correct):
            wrong_answers += 1
            continue
        for j in range(len(said)):
            if said[j] != correct[j]:
                wrong_answers += 1
                break
    return (len(predictions) - wrong_answers) / len(predictions)


@right("the mean of floats with statistics.fmean")
def exact_match(predictions, references, right=1.0, wrong=0.0):
    return statistics.fmean(
        right if said == correct else wrong
        for said, correct in zip(predictions, references)
    )


@right("recursive: splits both lists in the middle and adds the counts")
def exact_match(predictions, references):
    def count(start, end):
        if end - start == 1:
            return int(predictions[start] == references[start])
        middle = (start + end) // 2
        return count(start, middle) + count(middle, end)

    return count(0, len(predictions)) / len(predictions)


@wrong(
    "counts right tokens, not right answers: ('a', 'b') against ('a', 'c') is half right",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "share of right tokens instead of answers",
)
def exact_match(predictions, references):
    hits = total = 0
    for said, correct in zip(predictions, references):
        hits += sum(a == b for a, b in zip(said, correct))
        total += max(len(said), len(correct))
    return hits / total if total else 1.0


@wrong(
    "zip stops at the shorter tuple, so a prefix of the target counts as right",
    "If the target is *quatre-vingt-dix*, the answer *quatre-vingt* is wrong, although each"
    " of its tokens is right.",
    "a prefix counts as right",
)
def exact_match(predictions, references):
    hits = 0
    for said, correct in zip(predictions, references):
        if all(a == b for a, b in zip(said, correct)):
            hits += 1
    return hits / len(references)


@wrong(
    "compares the sorted tokens: ('b', 'a') counts as ('a', 'b')",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "order of the tokens is ignored",
)
def exact_match(predictions, references):
    hits = [sorted(a) == sorted(b) for a, b in zip(predictions, references)]
    return sum(hits) / len(hits)


@wrong(
    "glues the tokens together before it compares: ('ab',) equals ('a', 'b')",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "glued tokens hide the borders between tokens",
)
def exact_match(predictions, references):
    pairs = zip(predictions, references)
    return sum("".join(a) == "".join(b) for a, b in pairs) / len(predictions)


@wrong(
    "an empty answer never counts, not even if the target is empty too",
    "tuple may be empty.",
    "empty answer to an empty target is wrong",
)
def exact_match(predictions, references):
    hits = sum(bool(a) and a == b for a, b in zip(predictions, references))
    return hits / len(predictions)


@wrong(
    "takes the pairs out of the caller's lists, which are empty afterwards",
    "- Do not change the inputs.",
    "empties the caller's lists",
)
def exact_match(predictions, references):
    total, hits = len(predictions), 0
    while predictions:
        hits += predictions.pop() == references.pop()
    return hits / total


@wrong(
    "leaves <unk> out before it compares, as if it were padding: ('<unk>', 'a') against"
    " ('a',) counts as right",
    "*Exact match* is strict: an answer is right only if it has the same tokens as the"
    " target, in the same number and order.",
    "special tokens are removed before comparing",
)
def exact_match(predictions, references):
    def clean(tokens):
        return [token for token in tokens if not re.fullmatch(r"<\w+>", token)]

    hits = sum(clean(a) == clean(b) for a, b in zip(predictions, references))
    return hits / len(predictions)


@wrong(
    "looks an answer up anywhere among the references: two answers that are swapped both"
    " count as right",
    "references: the correct answers, in the same order.",
    "answer is compared with every reference",
)
def exact_match(predictions, references):
    known = set(references)
    return sum(said in known for said in predictions) / len(predictions)


@wrong(
    "collects the right pairs in a set, so two examples with the same right answer count"
    " once",
    "The share of examples that are right, a float in [0, 1].",
    "equal examples are counted once",
)
def exact_match(predictions, references):
    hits = {(a, b) for a, b in zip(predictions, references) if a == b}
    return len(hits) / len(predictions)


@wrong(
    "makes a dictionary from target to answer: if a target occurs twice, only the last"
    " answer to it is looked at",
    "The share of examples that are right, a float in [0, 1].",
    "dictionary keeps one answer per target",
)
def exact_match(predictions, references):
    answers = dict(zip(references, predictions))
    hits = sum(answers[target] == target for target in references)
    return hits / len(references)
