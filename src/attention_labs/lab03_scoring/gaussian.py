"""gaussian: the nearer, the more alike."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attention_course import scores
from attention_labs.lab03_scoring.score_question import (
    no_parameters,
    score_question,
)
from nbjudge import Mistake

NEAREST = "04_soft_lookup.html#soft-lookup-1964"


def _gaussian_with(compare: Callable[[Tensor, float], Tensor]) -> type[nn.Module]:
    """Make a score of the differences q - k (..., T, S, D) and the bandwidth."""

    class Wrong(scores.Score):
        def __init__(self, bandwidth: float):
            super().__init__()
            self.bandwidth = bandwidth

        def forward(self, query: Tensor, projected: Tensor) -> Tensor:
            return compare(
                query.unsqueeze(-2) - projected.unsqueeze(-3), self.bandwidth
            )

    return Wrong


GAUSSIAN = score_question(
    "gaussian",
    scores.GaussianScore,
    (3,),
    no_parameters,
    (1, 1, 1),
    (
        Mistake(
            "the further, the more alike",
            "The kernel falls with the distance: its exponent is negative.",
            NEAREST,
            _gaussian_with(lambda x, b: x.square().sum(-1) / (2 * b**2)),
        ),
        Mistake(
            "distance not squared",
            "The exponent holds the squared distance; without the square the kernel is"
            " another one.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.norm(dim=-1) / (2 * b**2)),
        ),
        Mistake(
            "bandwidth not squared",
            "Both the distance and the bandwidth are squared, so that their ratio has"
            " no unit.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.square().sum(-1) / (2 * b)),
        ),
        Mistake(
            "the kernel, where its exponent is meant",
            "The softmax takes the exponential itself: the score is what stands in the"
            " exponent.",
            NEAREST,
            _gaussian_with(lambda x, b: torch.exp(-x.square().sum(-1) / (2 * b**2))),
        ),
        Mistake(
            "mean over the width, where the sum is meant",
            "The squared distance of two points is the sum of the squares over all D"
            " directions.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.square().mean(-1) / (2 * b**2)),
        ),
        Mistake(
            "bandwidth left out",
            "Divide by 2 b squared: a wide kernel lets distant points count, too.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.square().sum(-1) / 2),
        ),
    ),
    make=lambda score, bandwidth: score(float(bandwidth)),
)
