from blind import right, wrong
from collections import Counter
from operator import eq

import torch


@right('map with operator.eq')
def exact_match(predictions, references):
    hits = list(map(eq, map(tuple, predictions), map(tuple, references)))
    return hits.count(True) / len(hits) if hits else 0.0


@right('token by token')
def exact_match(predictions, references):
    right = 0
    for said, wanted in zip(predictions, references):
        right += len(said) == len(wanted) and all(a == b for a, b in zip(said, wanted))
    return float(right) / max(1, len(references))


@right('a count of the wrong ones')
def exact_match(predictions, references):
    wrongs = Counter(tuple(p) != tuple(r) for p, r in zip(predictions, references))
    return wrongs[False] / (wrongs.total() or 1)


@right('mean of a tensor of doubles')
def exact_match(predictions, references):
    hits = [list(p) == list(predictions[i]) == list(references[i]) for i, p in enumerate(predictions)]
    return torch.tensor(hits, dtype=torch.float64).mean().item() if hits else 0.0


@wrong('compares only as far as the shorter one goes', breaks='an answer counts if all of its tokens are right, in number and in order.', name='prefix counts as right', subtle=False)
def exact_match(predictions, references):
    return sum(all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)) / len(references)


@wrong('the share of tokens', breaks='The share of examples that are right', name='token accuracy', subtle=False)
def exact_match(predictions, references):
    hits = sum(a == b for p, r in zip(predictions, references) for a, b in zip(p, r))
    return hits / max(1, sum(len(r) for r in references))


@wrong('same tokens in any order', breaks='an answer counts if all of its tokens are right, in number and in order.', name='order ignored', subtle=False)
def exact_match(predictions, references):
    return sum(sorted(p) == sorted(r) for p, r in zip(predictions, references)) / len(references)


@wrong('tokens joined without a gap: cut elsewhere, they count as right', breaks='an answer counts if all of its tokens are right, in number and in order.', name='strings compared in place of tokens', subtle=True)
def exact_match(predictions, references):
    return sum("".join(p) == "".join(r) for p, r in zip(predictions, references)) / len(references)


@wrong('equal pairs are counted once', breaks='The share of examples that are right, a float in [0, 1].', name='duplicates lost', subtle=True)
def exact_match(predictions, references):
    pairs = set(zip(map(tuple, predictions), map(tuple, references)))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong('right if it is the answer to any of the questions', breaks='references: the right ones, in the same order.', name='looked up among all references', subtle=True)
def exact_match(predictions, references):
    wanted = {tuple(r) for r in references}
    return sum(tuple(p) in wanted for p in predictions) / len(predictions)


@wrong('an empty answer is always wrong, even where nothing was to be said', breaks='an answer counts if all of its tokens are right, in number and in order.', name='empty answer', subtle=True)
def exact_match(predictions, references):
    return sum(bool(p) and p == r for p, r in zip(predictions, references)) / len(references)


@wrong('rounded to two places', breaks='The share of examples that are right, a float in [0, 1].', name='rounded', subtle=True)
def exact_match(predictions, references):
    return round(sum(p == r for p, r in zip(predictions, references)) / len(references), 2)


@wrong('what is said behind the right tokens is not looked at', breaks='an answer counts if all of its tokens are right, in number and in order.', name='answer cut to the length of the reference', subtle=True)
def exact_match(predictions, references):
    return sum(p[: len(r)] == r for p, r in zip(predictions, references)) / len(references)


@wrong('large and small letters are the same', breaks='Count a prediction only if every token is right.', name='case ignored', subtle=True)
def exact_match(predictions, references):
    def small(tokens):
        return [t.lower() for t in tokens]

    return sum(small(p) == small(r) for p, r in zip(predictions, references)) / len(references)
