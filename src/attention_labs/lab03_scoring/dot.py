"""dot: the product of a query and a key."""

from attention_course.scores import CosineScore, DotScore, ScaledDotScore
from attention_labs.lab03_scoring.shared import (
    COMPARES,
    long_and_short,
    score_question,
)
from attention_labs.pages import SCORING
from nbjudge import Mistake, edit

NOT_TRANSPOSED = Mistake(
    "keys not transposed",
    "A score compares every query with every key, (..., T, D) with (..., S, D): the"
    " result is (..., T, S).",
    SCORING + "dot",
    edit(DotScore.forward, "projected.mT", "projected"),
)
KEYS_ASK = Mistake(
    "the scores are transposed",
    "Row t, column s holds the score of query t and key s: queries come first.",
    SCORING + "dot",
    edit(DotScore.forward, "query @ projected.mT", "projected @ query.mT"),
)

DOT = score_question(
    "dot",
    DotScore,
    lambda d: (),
    (1, 1, 1),
    (
        NOT_TRANSPOSED,
        KEYS_ASK,
        Mistake(
            "scaled instead of the plain product",
            "The dot score leaves the product as it is; dividing by the square root of"
            " the width is the next question.",
            SCORING + "dot",
            ScaledDotScore,
        ),
        Mistake(
            "cosine instead of the plain product",
            "The dot score does not divide by the lengths of the vectors.",
            SCORING + "dot",
            CosineScore,
        ),
    ),
    {"scores": COMPARES},
    also=(long_and_short,),
)
