import torch

from blind import right, wrong


@right("map with an operator, fraction at the end")
def exact_match(predictions, references):
    return sum(map(tuple.__eq__, map(tuple, predictions), map(tuple, references))) / len(references)


@right("compares length and tokens one by one")
def exact_match(predictions, references):
    hits = 0
    for said, wanted in zip(predictions, references):
        same = len(said) == len(wanted)
        for a, b in zip(said, wanted):
            same = same and a == b
        hits += int(same)
    return float(hits / len(predictions))


@right("a tensor of booleans, its mean in double precision")
def exact_match(predictions, references):
    return torch.tensor([p == r for p, r in zip(predictions, references)]).double().mean().item()


@right("one minus the share of wrong answers, counted with indices")
def exact_match(predictions, references, start=0):
    number = len(references)
    return (number - len([i for i in range(start, number) if predictions[i] != references[i]])) / number


@wrong("share of right tokens", "an answer counts as right if it has the same tokens as the target, in the same number and order.", "counts tokens, not answers")
def exact_match(predictions, references):
    pairs = [(a, b) for p, r in zip(predictions, references) for a, b in zip(p, r)]
    return sum(a == b for a, b in pairs) / max(len(pairs), 1)


@wrong("zip stops at the shorter one: a prefix counts as right", "an answer counts as right if it has the same tokens as the target, in the same number and order.", "prefix counts as right")
def exact_match(predictions, references):
    return sum(all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)) / len(references)


@wrong("compares sets: order and number make no difference", "an answer counts as right if it has the same tokens as the target, in the same number and order.", "order and repetitions ignored")
def exact_match(predictions, references):
    return sum(set(p) == set(r) for p, r in zip(predictions, references)) / len(references)


@wrong("joins the tokens without a space: ('a', 'bc') equals ('ab', 'c')", "an answer counts as right if it has the same tokens as the target, in the same number and order.", "tokens joined before comparing")
def exact_match(predictions, references):
    return sum("".join(p) == "".join(r) for p, r in zip(predictions, references)) / len(references)


@wrong("empty predictions never count, also where the target is empty", "a list with a tuple of tokens per example, at least one; a tuple may be empty.", "empty answers never right")
def exact_match(predictions, references):
    return sum(bool(p) and p == r for p, r in zip(predictions, references)) / len(references)


@wrong("looks for the prediction anywhere among the references", "the right ones, in the same order.", "compares with all references")
def exact_match(predictions, references):
    known = set(references)
    return sum(p in known for p in predictions) / len(predictions)


@wrong("pops from both lists", "Your function does not change the two lists.", "empties the given lists")
def exact_match(predictions, references):
    hits, number = 0, len(references)
    while references:
        hits += predictions.pop() == references.pop()
    return hits / number


@wrong("counts each pair once (a set of pairs): repeated examples are lost", "The share of examples that are right, a float in [0, 1].", "repeated examples count once")
def exact_match(predictions, references):
    pairs = set(zip(predictions, references))
    return sum(p == r for p, r in pairs) / len(pairs)


@wrong("rounds to a percentage: 1 of 3 is 0.33", "The share of examples that are right, a float in [0, 1].", "rounded to two digits")
def exact_match(predictions, references):
    return round(sum(p == r for p, r in zip(predictions, references)) / len(references), 2)


@wrong("ignores upper and lower case: 'Un' equals 'un'", "an answer counts as right if it has the same tokens as the target, in the same number and order.", "case ignored")
def exact_match(predictions, references):
    def small(tokens):
        return [token.lower() for token in tokens]

    return sum(small(p) == small(r) for p, r in zip(predictions, references)) / len(references)
