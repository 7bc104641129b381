"""Question `gaussian`: a Gaussian kernel's score, which falls with the distance."""

from dataclasses import replace

import torch

from attention_course.scores import GaussianScore
from attention_labs.lab03_scoring.shared import COMPARES, score_question
from attention_labs.pages import SCORING
from nbjudge import Axis, Mistake, Request, edit
from nbjudge.edits import Edit

ROUNDED = "the squares of close vectors, multiplied out, lose more than the distance"
NEAREST = "04_soft_lookup.html#soft-lookup-1964"


def _made_of_the_score(step: str) -> Edit:
    """Let the right score go through one more step."""
    return edit(GaussianScore.forward, ".to(query.dtype)", f"{step}.to(query.dtype)")


def _rare(request: Request) -> list[Request]:
    """Let the first query be the last key; and let all be a hundred thousandth."""
    query, key = request.inputs
    at_a_key = torch.cat([key[..., -1:, :], query[..., 1:, :]], dim=-2)
    about = "the first query is the same vector as the last key"
    (bandwidth,) = request.init or ()
    tiny, small = (1e-5 * query, 1e-5 * key), (1e-5 * bandwidth,)
    return [
        replace(request, inputs=(at_a_key, key), about=about),
        replace(request, inputs=tiny, init=small, about="distances around 0.00001"),
    ]


FORWARD, SCORED = GaussianScore.forward, "q @ k.mT + cost.mT - _half_square(q)"

QUESTION = score_question(
    "gaussian",
    GaussianScore,
    lambda d: (d.b**2 / 40,),
    (1, 1, 1),
    (
        Mistake(
            "the score grows with the distance",
            "The score falls with the distance, so it is negative.",
            NEAREST,
            _made_of_the_score(".neg()"),
        ),
        Mistake(
            "distance not squared",
            "The formula has the squared distance, not the distance itself.",
            NEAREST,
            _made_of_the_score(".mul(-2).sqrt().div(-2 * self.bandwidth)"),
        ),
        Mistake(
            "bandwidth not squared",
            "The formula divides by the square of the bandwidth: both the distance"
            " and the bandwidth are squared.",
            NEAREST,
            _made_of_the_score(".mul(self.bandwidth)"),
        ),
        Mistake(
            "the kernel instead of its exponent",
            "The softmax computes the exponential. The score is only what stands in"
            " the exponent of the Gaussian.",
            NEAREST,
            _made_of_the_score(".exp()"),
        ),
        Mistake(
            "mean over the width instead of the sum",
            "The squared distance of two vectors is the sum of the squares of all D"
            " differences, not their mean.",
            NEAREST,
            _made_of_the_score(".div(query.size(-1))"),
        ),
        Mistake(
            "low scores are cut off",
            "A score may be any real number: of two distant keys, the nearer one has"
            " the higher score.",
            NEAREST,
            tuple(_made_of_the_score(f".clamp(min=-{n})") for n in (50, 100)),
        ),
        Mistake(
            "the sum of the differences is squared",
            "The squared distance is the sum of the squares of all D differences, not"
            " the square of their sum.",
            NEAREST,
            edit(FORWARD, SCORED, "-torch.cdist(q, k, p=1).square() / 2"),
        ),
        Mistake(
            "axes counted from the front",
            "The axes before the last two may be (B,), (B, H) or none: count axes"
            " from the end.",
            SCORING + "interface",
            edit(
                FORWARD,
                SCORED,
                "-(q[:, :, None] - k[:, None]).square().sum(-1) / 2",
            ),
        ),
        Mistake(
            "the bandwidth is missing",
            "Divide by twice the square of the bandwidth: the larger the bandwidth,"
            " the more do distant keys count.",
            NEAREST,
            _made_of_the_score(".mul(self.bandwidth**2)"),
        ),
    ),
    {"scores": COMPARES},
    {"b": Axis("b, where the bandwidth is b * b / 40", fixed=True)},
    leaves_out={
        "bfloat16": ROUNDED,
        "long in bfloat16": ROUNDED,
    },
    also=_rare,
)
