"""exact_match: the share of answers that are right in every token."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course import metrics
from attention_labs.lab01_preprocessing.strings import PLAIN
from nbjudge import (
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    error_like,
    same_numbers,
    wrong_output,
)

ACCURACIES = "02_encoder_decoder.html#encoder-decoder-two"

# Some of them, put together, make another.
WORDS = ("", "o", "ne", "one", "neo", "on", "e", "n", "eo")


def _use_exact_match(
    exact_match: Callable[..., Any], predictions: Tensor, references: Tensor
) -> Tensor | None:
    said, right = (
        [tuple(WORDS[i] for i in row if i) for row in x.tolist()]
        for x in (predictions, references)
    )
    share = exact_match(said, right)
    return None if share is None else torch.tensor(float(share), dtype=torch.float64)


def _answers(
    g: torch.Generator,
    right: int,
    wrong: Callable[[Tensor, int], Tensor],
    rows: int = 7,
) -> Request:
    """Draw different tokens per row, and make all but some of the rows wrong, each in
    its way."""
    references = torch.stack(
        [torch.randperm(len(WORDS) - 1, generator=g)[:5] + 1 for _ in range(rows)]
    )
    order = torch.randperm(rows, generator=g).tolist()
    predictions = references.clone()
    for row in order[right:]:
        predictions[row] = wrong(references[row], row)
    return Request((predictions, references))


def _one_wrong(row: Tensor, number: int) -> Tensor:
    place = number % 5
    return row.index_fill(0, torch.tensor(place), int(row[(place + 1) % 5]))


def _right_and_wrong(g: torch.Generator) -> Iterator[Request]:
    yield _answers(g, 3, _one_wrong)
    yield _answers(g, 5, lambda row, _: row.roll(1))
    yield _answers(g, 0, _one_wrong)
    yield _answers(g, 4, _one_wrong, rows=4)
    predictions, references = _answers(g, 7, _one_wrong).inputs
    assert predictions is not None
    yield Request(
        (torch.cat([predictions[:3].roll(1, dims=0), predictions[3:]]), references)
    )


def _too_long_or_short(g: torch.Generator) -> Iterator[Request]:
    def short_or_wrong(row: Tensor, number: int) -> Tensor:
        return F.pad(row[:-1], (0, 1)) if number % 2 else _one_wrong(row, number)

    predictions, references = _answers(g, 2, short_or_wrong).inputs
    yield Request((predictions, references))
    yield Request((references, predictions))
    yield Request(
        (torch.tensor([[3, 6], [2, 4]]), torch.tensor([[1, 2, 6], [2, 4, 0]]))
    )


def _right_share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := same_numbers(request, reply, reference):
        return (
            finding
            if reply.error
            else Finding("another share", "the share of right answers")
        )
    return None


def _tokenwise(predictions: Any, references: Any) -> float:
    hits = [a == b for p, r in zip(predictions, references) for a, b in zip(p, r)]
    return sum(hits) / len(hits)


def _share(test: Callable[[Any, Any], Any]) -> Callable[..., float]:
    return lambda predictions, references: (
        sum(map(test, predictions, references)) / len(references)
    )


EXACT_MATCH = Question(
    name="exact_match",
    reference=metrics.exact_match,
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
            _tokenwise,
        ),
        Mistake(
            "right tokens counted, not right answers",
            "An answer is right or wrong as a whole: one wrong token is enough.",
            ACCURACIES,
            _share(lambda p, r: sum(a == b for a, b in zip(p, r)) / max(len(r), 1)),
        ),
        Mistake(
            "compared only as far as the shorter one goes",
            "zip stops with the shorter: an answer that breaks off is not right.",
            ACCURACIES,
            _share(lambda p, r: all(a == b for a, b in zip(p, r))),
        ),
        Mistake(
            "the order of the tokens does not count",
            "A set or a sorted list of tokens has forgotten where they stood.",
            ACCURACIES,
            _share(lambda p, r: sorted(p) == sorted(r)),
        ),
        Mistake(
            "the order of the tokens does not count",
            "A set of tokens has forgotten where they stood.",
            ACCURACIES,
            _share(lambda p, r: set(p) == set(r)),
        ),
        Mistake(
            "an answer compared with another example's",
            "The first prediction belongs to the first reference, and so on.",
            ACCURACIES,
            lambda predictions, references: (
                sum(p in references for p in predictions) / len(references)
            ),
        ),
        Mistake(
            "tokens run together before they are compared",
            "Put together without anything between them, different tokens can make the"
            " same text.",
            made_by=_share(lambda p, r: "".join(p) == "".join(r)),
        ),
        Mistake(
            "one right token is enough",
            "All tokens of an answer have to be right: all, not any.",
            ACCURACIES,
            _share(lambda p, r: any(a == b for a, b in zip(p, r))),
        ),
        Mistake(
            "wrong answers counted",
            "What is wanted is the share of right ones.",
            ACCURACIES,
            _share(lambda p, r: p != r),
        ),
        Mistake(
            "right answers counted, not their share",
            "Divide by the number of examples.",
            ACCURACIES,
            lambda predictions, references: sum(
                map(tuple.__eq__, predictions, references)
            ),
        ),
        Mistake(
            "all or nothing over all examples",
            "Each answer counts by itself: what is wanted is the share of right ones.",
            ACCURACIES,
            lambda predictions, references: float(predictions == references),
        ),
        Mistake(
            "a share in percent",
            "A share is a number between 0 and 1.",
            made_by=_share(lambda p, r: 100 * (p == r)),
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
