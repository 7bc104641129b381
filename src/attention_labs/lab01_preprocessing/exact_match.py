"""exact_match: the share of answers that are right in every token."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_course.metrics import exact_match
from attention_labs.lab01_preprocessing.shared import PLAIN
from nbjudge import (
    Finding,
    Mistake,
    Property,
    Question,
    Request,
    edit,
    error_like,
    in_words,
    same_numbers,
    wrong_output,
)
from nbjudge.edits import Edit

ACCURACIES = "02_encoder_decoder.html#encoder-decoder-two"

# Some of them, put together, make another.
WORDS = ("o", "ne", "one", "neo", "on", "e", "n", "eo")
Words = list[str]


def _use_exact_match(exact_match: Callable[..., Any], *sides: Any) -> Tensor | None:
    share = exact_match(*([tuple(words) for words in side] for side in sides))
    return None if share is None else torch.tensor(float(share), dtype=torch.float64)


def _answers(
    g: torch.Generator, right: int, wrong: Callable[[Words, int], Words], rows: int = 7
) -> tuple[list[Words], list[Words]]:
    """Draw different words per row, and make all rows wrong but some."""
    drawn = [torch.randperm(len(WORDS), generator=g)[:5].tolist() for _ in range(rows)]
    references = [[WORDS[i] for i in row] for row in drawn]
    changed = torch.randperm(rows, generator=g).tolist()[right:]
    predictions = [
        wrong(row, n) if n in changed else row for n, row in enumerate(references)
    ]
    return predictions, references


def _one_wrong(row: Words, number: int) -> Words:
    place = number % 5
    return [*row[:place], row[(place + 1) % 5], *row[place + 1 :]]


def _right_and_wrong(g: torch.Generator) -> list[Request]:
    asked = [
        _answers(g, 3, _one_wrong),
        _answers(g, 5, lambda row, _: [*row[-1:], *row[:-1]]),
        _answers(g, 0, _one_wrong),
        _answers(g, 4, _one_wrong, rows=4),
    ]
    rows, _ = _answers(g, 7, _one_wrong)
    exchanged = [rows[2], *rows[:2], *rows[3:]]
    return [Request(sides) for sides in (*asked, (exchanged, rows))]


def _too_long_or_short(g: torch.Generator) -> list[Request]:
    predictions, references = _answers(
        g, 2, lambda row, n: row[:-1] if n % 2 else _one_wrong(row, n)
    )
    run_together = ([["one", "e"], ["ne", "neo"]], [["o", "ne", "e"], ["ne", "neo"]])
    asked = ((predictions, references), (references, predictions), run_together)
    return [Request(sides) for sides in asked]


_right_share = in_words(
    same_numbers, lambda *_: Finding("another share", "the share of right answers")
)


def _compared(test: str) -> Edit:
    """Compare a prediction p with its reference r in another way."""
    return edit(exact_match, "tuple(p) == tuple(r)", test)


EXACT_MATCH = Question(
    name="exact_match",
    reference=exact_match,
    use=_use_exact_match,
    plain=True,
    properties=(
        Property(
            "the share of answers that are right in every token",
            2,
            _right_and_wrong,
            _right_share,
        ),
        Property(
            "a token too many or too few is wrong", 1, _too_long_or_short, _right_share
        ),
    ),
    mistakes=(
        Mistake(
            "right tokens counted, not right answers",
            "An answer is right or wrong as a whole: one wrong token is enough.",
            ACCURACIES,
            (
                edit(exact_match, "tuple(p) == tuple(r)", "a == b")
                & edit(
                    exact_match,
                    "zip(predictions, references)",
                    "zip(predictions, references) for a, b in zip(p, r)",
                )
                & edit(
                    exact_match,
                    "        references\n",
                    "        [1 for p, r in zip(predictions, references)"
                    " for _ in zip(p, r)]\n",
                ),
                _compared("sum(a == b for a, b in zip(p, r)) / max(len(r), 1)"),
            ),
        ),
        Mistake(
            "compared only as far as the shorter one goes",
            "zip stops with the shorter: an answer that breaks off is not right.",
            ACCURACIES,
            _compared("all(a == b for a, b in zip(p, r))"),
        ),
        Mistake(
            "the order of the tokens does not count",
            "A set or a sorted list of tokens has forgotten where they stood.",
            ACCURACIES,
            (_compared("sorted(p) == sorted(r)"), _compared("set(p) == set(r)")),
        ),
        Mistake(
            "an answer compared with another example's",
            "The first prediction belongs to the first reference, and so on.",
            ACCURACIES,
            _compared("p in references"),
        ),
        Mistake(
            "tokens run together before they are compared",
            "Put together without anything between them, different tokens can make the"
            " same text.",
            made_by=_compared("''.join(p) == ''.join(r)"),
        ),
        Mistake(
            "one right token is enough",
            "All tokens of an answer have to be right: all, not any.",
            ACCURACIES,
            _compared("any(a == b for a, b in zip(p, r))"),
        ),
        Mistake(
            "wrong answers counted",
            "What is wanted is the share of right ones.",
            ACCURACIES,
            _compared("p != r"),
        ),
        Mistake(
            "right answers counted, not their share",
            "Divide by the number of examples.",
            ACCURACIES,
            edit(exact_match, " / len(\n        references\n    )", ""),
        ),
        Mistake(
            "all or nothing over all examples",
            "Each answer counts by itself: what is wanted is the share of right ones.",
            ACCURACIES,
            _compared("predictions == references"),
        ),
        Mistake(
            "a share in percent",
            "A share is a number between 0 and 1.",
            made_by=_compared("100 * (p == r)"),
        ),
        Mistake(
            "no number is returned",
            "The share of right answers is one number.",
            sign=error_like(r"float\(\) argument|only be converted to"),
        ),
        Mistake(
            "tensors expected, where tuples of strings come",
            "Tokens are strings here: compare them in Python.",
            sign=error_like(
                "too many dimensions|'(list|tuple|str|bool)' object|can't"
                " convert|unsupported operand"
            ),
        ),
        *PLAIN,
        Mistake(
            "divided by something else",
            "The share is that of the examples.",
            ACCURACIES,
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape and bool((given > 0) & (given < wanted))
                )
            ),
        ),
    ),
)
