"""scaled_dot: the product, divided by the root of the width."""

import math

from torch import Tensor

from attention_course import scores
from attention_labs.lab03_scoring.dot import (
    KEYS_ASK,
    NOT_TRANSPOSED,
    dot_with,
)
from attention_labs.lab03_scoring.score_question import (
    no_parameters,
    score_question,
)
from attention_labs.lab03_scoring.weights import D
from attention_labs.pages import SCORING
from nbjudge import Mistake, Reply, Request, scaled_by, wrong_output


def _root_of_width_missing(request: Request, reply: Reply, reference: Reply) -> bool:
    def sign(given: Tensor, wanted: Tensor) -> bool:
        factor = scaled_by(given, wanted)
        return factor is not None and math.isclose(factor, math.sqrt(D), rel_tol=1e-3)

    return wrong_output(sign)(request, reply, reference)


SCALED_DOT = score_question(
    "scaled_dot",
    scores.ScaledDotScore,
    (),
    no_parameters,
    (1, 1, 1),
    (
        NOT_TRANSPOSED,
        KEYS_ASK,
        Mistake(
            "scale missing",
            "The products of wide vectors are large, and a softmax of large scores has"
            " no gradient to learn from.",
            SCORING + "scale",
            scores.DotScore,
            _root_of_width_missing,
        ),
        Mistake(
            "divided by the width, not by its root",
            "The variance of the product is the width, so its standard deviation is the"
            " root of it.",
            SCORING + "scale",
            dot_with(lambda query, key: query @ key.mT / query.size(-1)),
        ),
        Mistake(
            "multiplied by the root of the width",
            "The scale makes scores smaller, not larger.",
            SCORING + "scale",
            dot_with(lambda query, key: query @ key.mT * math.sqrt(query.size(-1))),
        ),
        Mistake(
            "scaled by the number of keys",
            "The product is a sum over the width of the vectors; how many keys there"
            " are does not matter.",
            SCORING + "scale",
            dot_with(lambda query, key: query @ key.mT / math.sqrt(key.size(-2))),
        ),
        Mistake(
            "scaled by the number of queries",
            "The product is a sum over the width of the vectors; how many queries there"
            " are does not matter.",
            SCORING + "scale",
            dot_with(lambda query, key: query @ key.mT / math.sqrt(query.size(-2))),
        ),
    ),
)
