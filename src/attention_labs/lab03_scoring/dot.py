"""Question `dot`: the dot product of a query and a key.

The scaled dot product is in `scaled_dot`.
"""

from attention_course.scores import CosineScore, DotScore, ScaledDotScore
from attention_labs.lab03_scoring.shared import COMPARES, score_question
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

QUESTION = score_question(
    "dot",
    DotScore,
    lambda d: (),
    (1, 1, 1),
    (
        NOT_TRANSPOSED,
        KEYS_ASK,
        Mistake(
            "all axes of the keys are reversed",
            ".T turns all axes of a tensor around, also those of the batch. mT turns"
            " the last two.",
            SCORING + "dot",
            edit(DotScore.forward, "projected.mT", "projected.T"),
        ),
        Mistake(
            "axes counted from the front",
            "The axes before the last two may be (B,), (B, H) or none: count axes"
            " from the end.",
            SCORING + "interface",
            edit(DotScore.forward, "projected.mT", "projected.transpose(1, 2)"),
        ),
        Mistake(
            "queries scored against the keys of other sentences",
            "tensordot pairs every query with every key of the batch. Only keys of the"
            " query's own sentence count: `@` keeps the axes in front apart.",
            SCORING + "dot",
            edit(
                DotScore.forward,
                "query @ projected.mT",
                "torch.tensordot(query, projected, dims=([-1], [-1]))",
            ),
        ),
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
)
