"""dot: the product of a query and a key."""

from collections.abc import Callable

from torch import Tensor, nn

from attention_course import scores
from attention_labs.lab03_scoring.score_question import (
    no_parameters,
    score_question,
)
from attention_labs.pages import SCORING
from nbjudge import Mistake


def dot_with(compare: Callable[[Tensor, Tensor], Tensor]) -> type[nn.Module]:
    """Make a score of a function of queries and keys."""

    class Wrong(scores.Score):
        def forward(self, query: Tensor, projected: Tensor) -> Tensor:
            return compare(query, projected)

    return Wrong


NOT_TRANSPOSED = Mistake(
    "keys not transposed",
    "A score compares every query with every key, (..., T, D) with (..., S, D): the"
    " result is (..., T, S).",
    SCORING + "dot",
    dot_with(lambda query, key: query @ key),
)
KEYS_ASK = Mistake(
    "rows and columns exchanged",
    "Row t, column s holds the score of query t and key s: queries come first.",
    SCORING + "dot",
    dot_with(lambda query, key: key @ query.mT),
)

DOT = score_question(
    "dot",
    scores.DotScore,
    (),
    no_parameters,
    (1, 1, 1),
    (
        NOT_TRANSPOSED,
        KEYS_ASK,
        Mistake(
            "scaled, where the plain product is meant",
            "The dot score leaves the product as it is; dividing by the root of the"
            " width is the next question.",
            SCORING + "dot",
            scores.ScaledDotScore,
        ),
        Mistake(
            "cosine, where the plain product is meant",
            "The dot score does not divide by the lengths of the vectors.",
            SCORING + "dot",
            dot_with(
                lambda query, key: (
                    nn.functional.normalize(query, dim=-1)
                    @ nn.functional.normalize(key, dim=-1).mT
                )
            ),
        ),
    ),
)
