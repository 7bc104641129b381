"""Answers to exact_match."""

import itertools
from collections import Counter

import torch
from answers.core import right, wide, wrong
from answers.lab01_preprocessing.texts import draw

from nbjudge.question import Request


def texts(g, count):
    return ["abcdefgh"[i] for i in draw(g, count, low=0, high=8)]


@wide("exact_match")
def any_answers(g):
    for rows in (1, 2, 6):
        for size in (1, 2, 5):
            references = [texts(g, size) for _ in range(rows)]
            right = draw(g, rows, low=0, high=2).tolist()
            predictions = [
                row if is_right else texts(g, size)
                for is_right, row in zip(right, references)
            ]
            yield Request((predictions, references))


@right("exact_match")
def equal_tuples(predictions, references):
    right = [
        prediction == reference
        for prediction, reference in zip(predictions, references)
    ]
    return sum(right) / len(right)


@right("exact_match")
def as_tuples(predictions, references):
    return sum(tuple(p) == tuple(r) for p, r in zip(predictions, references)) / len(
        references
    )


@right("exact_match")
def counted_in_a_loop(predictions, references):
    count = 0
    for prediction, reference in zip(predictions, references):
        if prediction == reference:
            count += 1
    return count / len(predictions)


@right("exact_match")
def by_index(predictions, references):
    return len(
        [
            i
            for i in range(len(references))
            if list(predictions[i]) == list(references[i])
        ]
    ) / len(references)


@right("exact_match")
def by_length_and_tokens(predictions, references):
    def same(p, r):
        return len(p) == len(r) and all(a == b for a, b in zip(p, r))

    return sum(map(same, predictions, references)) / len(references)


@right("exact_match")
def by_zip_longest_tokens(predictions, references):
    hits = [
        all(a == b for a, b in itertools.zip_longest(p, r))
        for p, r in zip(predictions, references)
    ]
    return hits.count(True) / len(hits)


@right("exact_match")
def as_text(predictions, references):
    hits = [" ".join(p) == " ".join(r) for p, r in zip(predictions, references)]
    return float(sum(hits)) / float(len(hits))


@right("exact_match")
def as_a_tensor(predictions, references):
    return (
        torch.tensor([p == r for p, r in zip(predictions, references)]).float().mean()
    )


@right("exact_match")
def one_minus_mistakes(predictions, references):
    mistakes = sum(p != r for p, r in zip(predictions, references))
    return 1 - mistakes / len(references)


@right("exact_match")
def running_mean(predictions, references):
    share = 0.0
    for n, (p, r) in enumerate(zip(predictions, references), start=1):
        share += (float(p == r) - share) / n
    return share


@right("exact_match")
def by_counter(predictions, references):
    count = Counter(p == r for p, r in zip(predictions, references))
    return count[True] / count.total()


@wrong("exact_match", "right tokens counted, not right answers")
def token_share(predictions, references):
    right = total = 0
    for prediction, reference in zip(predictions, references):
        right += sum(p == r for p, r in zip(prediction, reference))
        total += len(reference)
    return right / total


@wrong("exact_match", "compared only as far as the shorter one goes")
def zip_stops(predictions, references):
    right = [all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)]
    return sum(right) / len(right)


@wrong(
    "exact_match",
    "compared only as far as the shorter one goes",
    "divided by something else",
)
def starts_alike(predictions, references):
    return sum(r[: len(p)] == p for p, r in zip(predictions, references)) / len(
        references
    )


@wrong("exact_match", "the order of the tokens does not count")
def same_tokens(predictions, references):
    return sum(Counter(p) == Counter(r) for p, r in zip(predictions, references)) / len(
        references
    )


@wrong("exact_match", "tokens run together before they are compared")
def run_together(predictions, references):
    right = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(right) / len(right)


@wrong("exact_match", "right answers counted, not their share")
def not_divided(predictions, references):
    return sum(p == r for p, r in zip(predictions, references))


@wrong("exact_match", "all or nothing over all examples")
def all_at_once(predictions, references):
    return 1.0 if list(predictions) == list(references) else 0.0


@wrong("exact_match", "divided by something else")
def divided_by_tokens(predictions, references):
    return sum(p == r for p, r in zip(predictions, references)) / sum(
        map(len, references)
    )


@wrong("exact_match", "all or nothing over all examples")
def floor_divided(predictions, references):
    return sum(p == r for p, r in zip(predictions, references)) // len(references)


@wrong("exact_match", "a share in percent")
def percent(predictions, references):
    return 100 * sum(p == r for p, r in zip(predictions, references)) / len(references)


@wrong("exact_match", "no number is returned")
def a_list(predictions, references):
    return [p == r for p, r in zip(predictions, references)]


@wrong("exact_match", "tensors expected, where tuples of strings come")
def tensor_comparison(predictions, references):
    return (torch.tensor(predictions) == torch.tensor(references)).all(1).float().mean()


@wrong(
    "exact_match",
    "one right token is enough",
    "right tokens counted, not right answers",
)
def any_token(predictions, references):
    return sum(any(t in r for t in p) for p, r in zip(predictions, references)) / len(
        references
    )


@wrong("exact_match", "an answer compared with another example's")
def found_anywhere(predictions, references):
    return sum(p in references for p in predictions) / len(predictions)


@wrong("exact_match", "right tokens counted, not right answers")
def mean_of_token_shares(predictions, references):
    shares = []
    for prediction, reference in zip(predictions, references):
        right = sum(a == b for a, b in zip(prediction, reference))
        shares.append(right / max(len(prediction), len(reference)))
    return sum(shares) / len(shares)


@wrong("exact_match", "divided by something else")
def divided_by_one_more(predictions, references):
    right, total = 0, 1
    for prediction, reference in zip(predictions, references):
        right += prediction == reference
        total += 1
    return right / total
