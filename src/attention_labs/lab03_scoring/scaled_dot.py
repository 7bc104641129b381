"""Question `scaled_dot`: the dot product, divided by the square root of the width.

The unscaled dot product is in `dot`.
"""

import math
from dataclasses import replace

from attention_course.scores import DotScore, ScaledDotScore
from attention_labs.lab03_scoring.dot import KEYS_ASK, NOT_TRANSPOSED
from attention_labs.lab03_scoring.shared import COMPARES, score_question
from attention_labs.pages import SCORING
from nbjudge import Mistake, comparable, edit, scaled_by

FORWARD = ScaledDotScore.forward

QUESTION = score_question(
    "scaled_dot",
    ScaledDotScore,
    lambda d: (),
    (1, 1, 1),
    (
        replace(NOT_TRANSPOSED, made_by=edit(FORWARD, "projected.mT", "projected")),
        replace(
            KEYS_ASK,
            made_by=edit(FORWARD, "return (", "return projected @ (")
            & edit(FORWARD, ") @ projected.mT", ").mT"),
        ),
        Mistake(
            "scale factor missing",
            "The products of wide vectors are large, and a softmax of large scores has"
            " no gradient to learn from.",
            SCORING + "scale",
            DotScore,
            comparable(
                lambda request, reply, reference: math.isclose(
                    scaled_by(reply.outputs[0], reference.outputs[0]) or 0.0,
                    math.sqrt(request.inputs[0].size(-1)),
                    rel_tol=1e-3,
                )
            ),
        ),
        Mistake(
            "divided by the width, not by its square root",
            "The variance of the product is the width, so its standard deviation is"
            " the square root of the width.",
            SCORING + "scale",
            edit(FORWARD, "math.sqrt(query.size(-1))", "query.size(-1)"),
        ),
        Mistake(
            "multiplied by the square root of the width",
            "The scale makes scores smaller, not larger.",
            SCORING + "scale",
            edit(FORWARD, "query / math", "query * math"),
        ),
        Mistake(
            "scaled by the number of keys",
            "The product is a sum over the width of the vectors; how many keys there"
            " are does not matter.",
            SCORING + "scale",
            edit(FORWARD, "sqrt(query.size(-1))", "sqrt(projected.size(-2))"),
        ),
        Mistake(
            "scaled by the number of queries",
            "The product is a sum over the width of the vectors; how many queries there"
            " are does not matter.",
            SCORING + "scale",
            edit(FORWARD, "sqrt(query.size(-1))", "sqrt(query.size(-2))"),
        ),
    ),
    {"scores": COMPARES},
)
