"""Question `exact_match`: the share of answers that are right in every token."""

from collections.abc import Callable
from typing import Any

import torch

from attention_course.metrics import exact_match
from attention_labs.lab01_preprocessing.shared import (
    draw_lengths,
    draw_words,
)
from nbjudge import (
    PLAIN,
    PLAIN_SIGNS,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    another_kind,
    each_of,
    edit,
    error_like,
    left_alone,
    same_kind,
    same_numbers,
    with_kind,
)
from nbjudge.edits import Edit

ACCURACIES = "02_encoder_decoder.html#encoder-decoder-two"

Words = tuple[str, ...]


def _use_exact_match(exact_match: Callable[..., Any], *sides: Any) -> Any:
    share = exact_match(*sides)
    if share is None:
        return None
    return with_kind(torch.tensor(float(share), dtype=torch.float64), share)


def _answers(
    d: Draw, change: Callable[[Words], Words], right: int, least: int = 1
) -> tuple[list[Words], list[Words]]:
    """Draw different words per row, and change all rows but some."""
    lengths = draw_lengths(d, d.N, d.T, min(least, d.T))
    references = [tuple(draw_words(d, n)) for n in lengths]
    kept = torch.randperm(d.N, generator=d).tolist()[:right]
    predictions = [r if n in kept else change(r) for n, r in enumerate(references)]
    return [_made_anew(row) for row in predictions], references


def _made_anew(row: Words) -> Words:
    """Make other strings of the same letters: a model's tokens are not the text's."""
    return tuple("".join([*word]) for word in row)


def _one_wrong(row: Words) -> Words:
    """Put another word into a place, or at the end of nothing."""
    place = sum(map(len, row)) % max(len(row), 1)
    return (*row[:place], f"{''.join(row)}x", *row[place + 1 :])


def _right_and_wrong(d: Draw) -> list[Request]:
    predictions, references = _answers(d, _one_wrong, d.N)
    asked = (
        _answers(d, _one_wrong, d.N // 2),
        _answers(d, lambda row: (f"x{row[0]}", *row[1:]), d.N // 2),
        _answers(d, lambda row: (*row[:-1], f"{row[-1]}x"), d.N // 2),
        _answers(d, lambda row: (*row[::-1], "x")[: len(row)], 1),
        ([*predictions[1:], predictions[0]], references),
        ([*references, *references], [*predictions[::-1], *references]),
    )
    return [Request(sides) for sides in asked]


def _rare(d: Draw) -> list[Request]:
    a, b, c, *many = draw_words(d, 300)
    short = _answers(d, lambda row: row[:-1], d.N // 2)
    asked = (
        short,
        short[::-1],
        _answers(d, lambda row: row[1:], d.N // 2),
        ([(a, b), (a,), (b, c)], [(a, b, b), (a,), (b, c)]),
        ([(a, a, b), (a,), (b, c)], [(a, b), (a,), (b, c)]),
        ([(a + b, c), (a, b)], [(a, b + c), (a, b)]),
        ([(a + b,), (a, b)], [(a, b), (a, b)]),
        ([(a, b), (b, c)], [(b, a), (b, c)]),
        ([(a.upper(), b), (b, c)], [(a, b), (b, c)]),
        ([(a, c, b), (b, c)], [(a, b, c), (b, c)]),
        ([(a, b), (a + c, b), (b, c)], [(a + c, b), (a, b), (b, c)]),
        ([(a, "-", b), (a, b), (a, ","), (c,)], [(a, b), (a, "-", b), (a,), (c,)]),
        ([("été", "<unk>"), ("été",)], [("été", "<unk>"), ("ete",)]),
        ([("Ⅳ",), ("été",)], [("IV",), ("été",)]),
        ([(*many, a), (*many, b), (many[0],)], [(*many, b), (*many, b), (many[0],)]),
        ([(), (a,)], [(), (b,)]),
        ([("<unk>", a), (b,)], [(a,), (b,)]),
        ([(a, "<pad>"), ("<bos>", b), (c,)], [(a,), (b,), (c,)]),
        ([(), (a,)], [(b,), (a,)]),
        ([(a,), (), (b,)], [(a,), (), (c,)]),
        ([(a,), (a, b), (a,), ()], [(a,), (a, c), (a,), (a,)]),
        ([(a,), (a, b), (a, b), (c,)], [(a,), (a, c), (a, c), (c,)]),
        _answers(d, _one_wrong, d.N),
        _answers(d, _one_wrong, 0),
    )
    return [Request(sides) for sides in asked]


def _compared(test: str) -> Edit:
    """Compare a prediction p with its reference r in another way."""
    return edit(exact_match, "tuple(p) == tuple(r)", test)


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Hold the share to what float32 can tell."""
    if finding := same_numbers(request, reply, reference):
        other = finding.seen.startswith("entries")
        return OTHER_SHARE if other else finding
    away = (reply.outputs[0] - reference.outputs[0]).abs()
    return OTHER_SHARE if away > 1e-6 else None


OTHER_SHARE = Finding("a different share", "the share of right answers")
BATTERY = Battery(
    PLAIN,
    lambda d: Request(_answers(d, _one_wrong, d.number(0, d.N), least=0)),
    {
        "N": Axis("examples", long=1100),
        "T": Axis("tokens in the longest answer", least=0, long=300),
    },
)

QUESTION = Question(
    name="exact_match",
    reference=exact_match,
    use=_use_exact_match,
    battery=BATTERY,
    requirements={
        "all": "*Exact match* is strict: an answer is right only if it has the same"
        " tokens as the target, in the same number and order.",
        "every": "Compute the share of predictions in which every token is right.",
        "predictions": "predictions: a tuple of tokens for each example, in a list"
        " that is not empty; a tuple may be empty.",
        "references": "references: the correct answers, tuples of tokens in the same"
        " order.",
        "unchanged": "Do not change the inputs.",
        "returns": "The share of examples that are right, a float in [0, 1].",
    },
    properties=(
        BATTERY.line(
            "the share of answers that are right in every token",
            1,
            _right_and_wrong,
            _right_share,
            checks=("all", "every", "references", "returns"),
        ),
        BATTERY.edges(
            1,
            each_of(_right_share, same_kind),
            checks=("all", "every", "predictions", "references", "returns"),
            claim="edges: a token too many or too few, empty answers, the same answer"
            " twice, one example, many; the result is a float",
            also=_rare,
        ),
        BATTERY.manners(1, left_alone, checks=("unchanged",)),
    ),
    mistakes=(
        Mistake(
            "token accuracy instead of exact match",
            "An answer is right or wrong as a whole: one wrong token is enough.",
            ACCURACIES,
            (
                *(
                    _compared("a == b")
                    & edit(
                        exact_match,
                        "zip(predictions, references)",
                        "zip(predictions, references) for a, b in zip(p, r)",
                    )
                    & edit(exact_match, "        references\n", f"        {tokens}\n")
                    for tokens in (
                        "[1 for p in zip(predictions, references) for _ in zip(*p)]",
                        "sum(map(tuple, references), ())",
                    )
                ),
                _compared("sum(a == b for a, b in zip(p, r)) / max(len(r), 1)"),
                _compared("sum(a == b for a, b in zip(p, r)) / max(len(r), len(p))"),
            ),
        ),
        Mistake(
            "compared only up to the shorter length",
            "zip stops at the end of the shorter tuple, but an answer that lacks"
            " tokens is wrong.",
            ACCURACIES,
            (
                _compared("all(a == b for a, b in zip(p, r))"),
                _compared("p[: len(r)] == r"),
                _compared("r[: len(p)] == p"),
            ),
        ),
        Mistake(
            "the order of the tokens is ignored",
            "A set or a sorted list of tokens no longer knows their order.",
            ACCURACIES,
            (_compared("sorted(p) == sorted(r)"), _compared("set(p) == set(r)")),
        ),
        Mistake(
            "compared with the references of all examples",
            "The first prediction belongs to the first reference, and so on.",
            ACCURACIES,
            _compared("p in references"),
        ),
        Mistake(
            "tokens are joined before the comparison",
            "If tokens are joined without a separator, different tokens can give the"
            " same text.",
            made_by=_compared("''.join(p) == ''.join(r)"),
        ),
        Mistake(
            "one right token is enough",
            "All tokens of an answer have to be right: all, not any.",
            ACCURACIES,
            (
                _compared("any(a == b for a, b in zip(p, r))"),
                _compared("any(t in r for t in p)"),
            ),
        ),
        Mistake(
            "wrong answers are counted instead of right ones",
            "The function returns the share of right answers.",
            ACCURACIES,
            _compared("p != r"),
        ),
        Mistake(
            "number of right answers instead of their share",
            "Divide by the number of examples.",
            ACCURACIES,
            edit(exact_match, " / len(\n        references\n    )", ""),
        ),
        Mistake(
            "all examples are compared as one",
            "Each answer counts by itself: return the share of right answers.",
            ACCURACIES,
            _compared("predictions == references"),
        ),
        Mistake(
            "the share is in percent",
            "A share is a number between 0 and 1.",
            made_by=_compared("100 * (p == r)"),
        ),
        Mistake(
            "the result is not a number",
            "The share of right answers is one number.",
            sign=error_like(r"float\(\) argument|only be converted to"),
        ),
        Mistake(
            "an operation does not fit lists and strings",
            "Tokens are strings here: compare them in Python.",
            sign=error_like(
                "too many dimensions|'(list|tuple|str|bool)' object|can't"
                " convert|unsupported operand"
            ),
        ),
        Mistake(
            "not all tokens are compared",
            "Every token counts: a symbol, <unk>, and also the last one of a long"
            " answer.",
            ACCURACIES,
            (
                _compared("[*filter(str.isalnum, p)] == [*filter(str.isalnum, r)]"),
                _compared(
                    "[t for t in p if t[0] != '<'] == [t for t in r if t[0] != '<']"
                ),
                _compared("len(p) == len(r) and p[:100] == r[:100]"),
            ),
        ),
        Mistake(
            "divided by the wrong number",
            "Divide by the number of examples.",
            ACCURACIES,
            (
                edit(exact_match, "        references\n", "        references * 2\n"),
                edit(exact_match, "    )", "    + [0])"),
                edit(
                    exact_match,
                    "        references\n",
                    "sum(map(list, references), [])",
                ),
            ),
        ),
        Mistake(
            "duplicate examples are counted once",
            "A set or a dictionary keeps only one of several equal things, but every"
            " example counts, even if it occurs twice.",
            ACCURACIES,
            edit(
                exact_match,
                "zip(predictions, references)",
                "{*zip(predictions, references)}",
            )
            & edit(
                exact_match, "        references\n", "{*zip(predictions, references)}"
            ),
        ),
        Mistake(
            "empty answers always count as wrong",
            "An empty tuple counts as False in Python, but it is the right answer if"
            " the reference is empty.",
            ACCURACIES,
            _compared("bool(p) and tuple(p) == tuple(r)"),
        ),
        Mistake(
            "empty answers always count as right",
            "all() of nothing is True, but an answer without tokens is right only if"
            " the reference is empty.",
            ACCURACIES,
            _compared("not p or tuple(p) == tuple(r)"),
        ),
        Mistake(
            "upper and lower case are not distinguished",
            "Two tokens are the same if they are equal, letter by letter.",
            ACCURACIES,
            _compared("[t.lower() for t in p] == [t.lower() for t in r]"),
        ),
        Mistake(
            "the share is rounded",
            "Round what you print, not what you compute with.",
            made_by=tuple(
                edit(exact_match, "return sum(", "return round(sum(")
                & edit(exact_match, "    )", f"    ), {digits})")
                for digits in (1, 2, 3, 4, 5)
            ),
        ),
        another_kind(
            "a type other than a float",
            "A tensor is not a float. .item() turns it into a number.",
        ),
        *PLAIN_SIGNS,
    ),
)
