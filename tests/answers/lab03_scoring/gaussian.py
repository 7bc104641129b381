"""Answers to gaussian."""

import torch
from answers.core import right, wide, with_part, wrong
from answers.lab03_scoring.shapes import draw, shapes
from answers.signs import (
    AXES,
    EXCHANGED,
    FACTOR,
    FITS,
)

from attention_course.scores import Score
from nbjudge.question import Request


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


@right("gaussian")
@with_part(Gaussian, "forward")
def differences(self, query, projected):
    x = query.unsqueeze(-2) - projected.unsqueeze(-3)
    return -x.square().sum(-1) / (2 * self.bandwidth**2)


@right("gaussian")
@with_part(Gaussian, "forward")
def scaled_first(self, query, projected):
    x = (query / self.bandwidth)[..., None, :] - (projected / self.bandwidth)[
        ..., None, :, :
    ]
    return (x**2).sum(-1).mul(-0.5)


@right("gaussian")
@with_part(Gaussian, "forward")
def the_norm_squared(self, query, projected):
    distance = torch.linalg.vector_norm(
        query.unsqueeze(-2) - projected.unsqueeze(-3), dim=-1
    )
    return -0.5 * (distance / self.bandwidth) ** 2


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
@with_part(Gaussian, "forward")
def differences_with_einsum(self, query, projected):
    x = query.unsqueeze(-2) - projected.unsqueeze(-3)
    return torch.einsum("...d,...d->...", x, x) / (-2 * self.bandwidth**2)


@right("gaussian")
@with_part(Gaussian, "forward")
def log_of_the_kernel(self, query, projected):
    x = (query.unsqueeze(-2) - projected.unsqueeze(-3)) / self.bandwidth
    return torch.log(torch.exp(-x * x / 2)).sum(-1)


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


@wrong("gaussian", "sign turned around", "the further, the more alike")
@with_part(Gaussian, "forward")
def no_minus(self, query, projected):
    return torch.cdist(query, projected).square() / (2 * self.bandwidth**2)


@wrong("gaussian", "distance not squared")
@with_part(Gaussian, "forward")
def root_left(self, query, projected):
    return -torch.cdist(query, projected) / (2 * self.bandwidth**2)


@wrong("gaussian", FACTOR)
@with_part(Gaussian, "forward")
def half_forgotten(self, query, projected):
    return (
        -(query.unsqueeze(-2) - projected.unsqueeze(-3)).square().sum(-1)
        / self.bandwidth**2
    )


@wrong("gaussian", FACTOR)
@with_part(Gaussian, "forward")
def times_the_bandwidth(self, query, projected):
    return (
        -(query.unsqueeze(-2) - projected.unsqueeze(-3)).square().sum(-1)
        * self.bandwidth**2
        / 2
    )


@wrong("gaussian", FACTOR)
@with_part(Gaussian, "forward")
def precedence(self, query, projected):
    return (
        -(query.unsqueeze(-2) - projected.unsqueeze(-3)).square().sum(-1)
        / 2
        * self.bandwidth**2
    )


@wrong("gaussian")
@with_part(Gaussian, "forward")
def city_blocks(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).abs().sum(-1) / (
        2 * self.bandwidth**2
    )


@wrong("gaussian")
@with_part(Gaussian, "forward")
def square_of_the_sum(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).sum(-1).square() / (
        2 * self.bandwidth**2
    )


@wrong("gaussian", FITS)
@with_part(Gaussian, "forward")
def without_axes(self, query, projected):
    return -((query - projected) ** 2).sum(-1) / (2 * self.bandwidth**2)


@wrong("gaussian", "the kernel, where its exponent is meant")
@with_part(Gaussian, "forward")
def exponential_taken(self, query, projected):
    return torch.exp(
        -((query.unsqueeze(-2) - projected.unsqueeze(-3)) ** 2).sum(-1)
        / (2 * self.bandwidth**2)
    )


@wrong("gaussian", "weights, where scores are meant")
@with_part(Gaussian, "forward")
def normalised(self, query, projected):
    return (
        -((query.unsqueeze(-2) - projected.unsqueeze(-3)) ** 2).sum(-1)
        / (2 * self.bandwidth**2)
    ).softmax(-1)


@wrong("gaussian", "rows and columns exchanged", EXCHANGED)
@with_part(Gaussian, "forward")
def keys_down(self, query, projected):
    return -((query.unsqueeze(-3) - projected.unsqueeze(-2)) ** 2).sum(-1) / (
        2 * self.bandwidth**2
    )


@wrong("gaussian", "mean over the width, where the sum is meant", FACTOR)
@with_part(Gaussian, "forward")
def mean_squared(self, query, projected):
    return (
        -((query.unsqueeze(-2) - projected.unsqueeze(-3)) ** 2).mean(-1)
        / 2
        / self.bandwidth**2
    )


@wrong("gaussian", AXES, FITS)
@with_part(Gaussian, "forward")
def in_three_axes(self, query, projected):
    return -((query[:, :, None] - projected[:, None]) ** 2).sum(-1) / (
        2 * self.bandwidth**2
    )
