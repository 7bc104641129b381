"""Answers to exact_match."""

import itertools
from collections import Counter

import torch
from answers.core import right, right_edits, wide, wrong_edits
from answers.lab01_preprocessing.shared import draw

from nbjudge import Request, edit


def texts(g, count):
    return tuple("abcdefgh"[i] for i in draw(g, count, low=0, high=8))


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
    right = [p == r for p, r in zip(predictions, references)]
    return sum(right) / len(right)


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
def as_a_tensor(predictions, references):
    right = [p == r for p, r in zip(predictions, references)]
    return torch.tensor(right).float().mean().item()


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


OTHER, TOKENS = "divided by the wrong number", "token accuracy instead of exact match"
FAR = "compared only up to the shorter length"
ALL = "all examples are compared as one"


def compared(test):
    return edit(equal_tuples, "p == r", test)


right_edits(
    "exact_match",
    equal_tuples,
    as_tuples=compared("tuple(p) == tuple(r)"),
    as_text=compared("' '.join(p) == ' '.join(r)"),
)
wrong_edits(
    "exact_match",
    equal_tuples,
    token_share=(
        compared("a == b")
        & edit(equal_tuples, "references)]", "references) for a, b in zip(p, r)]")
        & edit(equal_tuples, "len(right)", "sum(map(len, references))"),
        TOKENS,
    ),
    any_token=(
        compared("any(t in r for t in p)"),
        "one right token is enough",
        TOKENS,
    ),
    starts_alike=(compared("r[: len(p)] == p"), FAR, OTHER),
    tensor_comparison=(
        compared("torch.equal(torch.tensor(p), torch.tensor(r))"),
        "an operation does not fit lists and strings",
    ),
    a_list=(
        edit(equal_tuples, "sum(right) / len(right)", "right"),
        "the result is not a number",
    ),
    a_tensor=(
        edit(
            equal_tuples,
            "sum(right) / len(right)",
            "torch.tensor(sum(right) / len(right))",
        ),
        "a type other than a float",
    ),
    all_at_once=(
        edit(equal_tuples, "sum(right) / len(right)", "float(all(right))"),
        ALL,
    ),
    four_digits=(
        edit(
            equal_tuples, "sum(right) / len(right)", "round(sum(right) / len(right), 4)"
        ),
        "the share is rounded",
    ),
    begun_alike=(compared("len(p) == len(r) and all(map(str.startswith, r, p))"),),
    floor_divided=(edit(equal_tuples, "/", "//"),),
)
