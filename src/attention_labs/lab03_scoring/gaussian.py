"""gaussian: the nearer, the more alike."""

from attention_course.scores import GaussianScore
from attention_labs.lab03_scoring.shared import COMPARES, score_question
from nbjudge import Axis, Mistake, edit
from nbjudge.edits import Edit

NEAREST = "04_soft_lookup.html#soft-lookup-1964"


def _made_of_the_score(step: str) -> Edit:
    """Let the right score go through one more step."""
    return edit(GaussianScore.forward, ".to(query.dtype)", f"{step}.to(query.dtype)")


GAUSSIAN = score_question(
    "gaussian",
    GaussianScore,
    lambda d: (d.b**2 / 40,),
    (1, 1, 1),
    (
        Mistake(
            "the further, the more alike",
            "The kernel falls with the distance: its exponent is negative.",
            NEAREST,
            _made_of_the_score(".neg()"),
        ),
        Mistake(
            "distance not squared",
            "The exponent holds the squared distance; without the square the kernel is"
            " another one.",
            NEAREST,
            _made_of_the_score(".mul(-2).sqrt().div(-2 * self.bandwidth)"),
        ),
        Mistake(
            "bandwidth not squared",
            "Both the distance and the bandwidth are squared, so that their ratio has"
            " no unit.",
            NEAREST,
            _made_of_the_score(".mul(self.bandwidth)"),
        ),
        Mistake(
            "the kernel, where its exponent is meant",
            "The softmax takes the exponential itself: the score is what stands in the"
            " exponent.",
            NEAREST,
            _made_of_the_score(".exp()"),
        ),
        Mistake(
            "mean over the width, where the sum is meant",
            "The squared distance of two points is the sum of the squares over all D"
            " directions.",
            NEAREST,
            _made_of_the_score(".div(query.size(-1))"),
        ),
        Mistake(
            "bandwidth left out",
            "Divide by twice the square of the bandwidth: a wide kernel lets distant"
            " points count, too.",
            NEAREST,
            _made_of_the_score(".mul(self.bandwidth**2)"),
        ),
    ),
    {"scores": COMPARES},
    {"b": Axis("root of 40 bandwidths", fixed=True)},
)
