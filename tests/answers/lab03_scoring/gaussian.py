"""Answers to gaussian."""

import torch
from answers.core import right, right_edits, wide, with_part, wrong_edits
from answers.lab03_scoring.shared import draw, shapes
from answers.signs import (
    AXES,
    EXCHANGED,
    FACTOR,
    FITS,
    NAN,
)

from attention_course.scores import Score
from nbjudge import Request, edit


@wide("gaussian")
def any_points(g):
    for leading, t, s, d in shapes(g):
        for bandwidth in (1, 2, 5):
            yield Request(
                (draw(g, *leading, t, d), draw(g, *leading, s, d)),
                (bandwidth,),
                gradients=True,
            )


class Gaussian(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        x = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -x.square().sum(-1) / (2 * self.bandwidth**2)


right("gaussian", "differences")(Gaussian)


@right("gaussian")
@with_part(Gaussian, "forward")
def multiplied_out(self, query, projected):
    squares = (
        query.pow(2).sum(-1, keepdim=True) + projected.pow(2).sum(-1, keepdim=True).mT
    )
    return (2 * query @ projected.mT - squares) / (2 * self.bandwidth**2)


@right("gaussian")
@with_part(Gaussian, "forward")
def with_cdist(self, query, projected):
    # torch has none for bfloat16
    return -torch.cdist(query, projected).square() / (2 * self.bandwidth**2)


@right("gaussian")
@with_part(Gaussian, "forward")
def each_query(self, query, projected):
    rows = [
        (projected - query[..., t, None, :]).square().sum(-1)
        for t in range(query.size(-2))
    ]
    return -torch.stack(rows, -2) / 2 / self.bandwidth**2


@right("gaussian")
@with_part(Gaussian, "forward")
def each_key(self, query, projected):
    columns = [
        -(query - key.unsqueeze(-2)).square().sum(-1) for key in projected.unbind(-2)
    ]
    return torch.stack(columns, -1) / (2 * self.bandwidth * self.bandwidth)


@right("gaussian")
@with_part(Gaussian, "forward")
def each_direction(self, query, projected):
    total = 0
    for q, k in zip(query.unbind(-1), projected.unbind(-1)):
        total = total - (q.unsqueeze(-1) - k.unsqueeze(-2)) ** 2
    return total / (2 * self.bandwidth**2)


@right("gaussian")
class CostBesideTheKey(Gaussian):
    def project_keys(self, key):
        k = key / self.bandwidth
        return torch.cat([k, -k.square().sum(-1, keepdim=True) / 2], dim=-1)

    def forward(self, query, projected):
        q = query / self.bandwidth
        return (
            q @ projected[..., :-1].mT
            + projected[..., -1:].mT
            - q.square().sum(-1, keepdim=True) / 2
        )


FORWARD, X = Gaussian.forward, "query.unsqueeze(-2) - projected.unsqueeze(-3)"
SCORES, SUM = "-x.square().sum(-1) / (2 * self.bandwidth**2)", "x.square().sum(-1)"
right_edits(
    "gaussian",
    Gaussian,
    scaled_first=edit(FORWARD, X, f"({X}) / self.bandwidth")
    & edit(FORWARD, SCORES, "(x**2).sum(-1).mul(-0.5)"),
    the_norm_squared=edit(
        FORWARD, SCORES, "-0.5 * (x.norm(dim=-1) / self.bandwidth) ** 2"
    ),
    magnitudes_squared=edit(FORWARD, SUM, "(x.abs() ** 2).sum(-1)"),
    differences_with_einsum=edit(FORWARD, SUM, "torch.einsum('...d,...d->...', x, x)"),
)
wrong_edits(
    "gaussian",
    Gaussian,
    no_minus=(
        edit(FORWARD, "-x", "x"),
        "wrong sign",
        "the score grows with the distance",
    ),
    half_forgotten=(edit(FORWARD, "2 * self", "self"), FACTOR),
    times_the_bandwidth=(
        edit(FORWARD, "/ (2 * self.bandwidth**2)", "* self.bandwidth**2 / 2"),
        FACTOR,
    ),
    precedence=(
        edit(FORWARD, "/ (2 * self.bandwidth**2)", "/ 2 * self.bandwidth**2"),
        FACTOR,
    ),
    city_blocks=(edit(FORWARD, "square()", "abs()"),),
    square_of_the_sum=(edit(FORWARD, "square().sum(-1)", "sum(-1).square()"),),
    without_axes=(edit(FORWARD, X, "query - projected"), FITS),
    normalized=(
        edit(FORWARD, SCORES, f"({SCORES}).softmax(-1)"),
        "weights instead of scores",
    ),
    keys_down=(
        edit(FORWARD, X, "query.unsqueeze(-3) - projected.unsqueeze(-2)"),
        "the scores are transposed",
        EXCHANGED,
    ),
    mean_squared=(
        edit(FORWARD, "sum(-1)", "mean(-1)"),
        "mean over the width instead of the sum",
        FACTOR,
    ),
    root_and_square=(  # the root of zero has no gradient
        edit(FORWARD, SUM, f"{SUM}.sqrt() ** 2"),
        NAN,
    ),
    in_three_axes=(
        edit(FORWARD, X, "query[:, :, None] - projected[:, None]"),
        AXES,
        FITS,
        "axes counted from the front",
    ),
)
