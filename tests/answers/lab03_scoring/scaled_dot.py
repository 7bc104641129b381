"""Answers to scaled_dot."""

import math

import torch
import torch.nn.functional as F
from answers.core import right, wrong
from answers.lab03_scoring.products import PRODUCTS, score
from answers.signs import (
    AXES,
    CUT,
    DTYPE,
    FACTOR,
)

from attention_course.scores import Score

SCALINGS = (
    lambda product, q, k: product(q, k) / math.sqrt(q.size(-1)),
    lambda product, q, k: product(q / q.size(-1) ** 0.5, k),
    lambda product, q, k: product(q, k * k.size(-1) ** -0.5),
    lambda product, q, k: product(q, k) / torch.sqrt(torch.tensor(q.size(-1))),
    lambda product, q, k: product(q / q.size(-1) ** 0.25, k / k.size(-1) ** 0.25),
)
for number, product in enumerate(PRODUCTS):
    scaling = SCALINGS[number % len(SCALINGS)]
    right("scaled_dot", product.__name__)(
        score(lambda q, k, f=scaling, product=product: f(product, q, k))
    )


@wrong("scaled_dot", "scale missing")
class ScaleForgotten(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@wrong("scaled_dot", "divided by the width, not by its root")
class NoRoot(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(-1, -2)).div(projected.shape[-1])


@wrong("scaled_dot", "scaled by the number of keys")
class RootOfKeys(Score):
    def forward(self, query, projected):
        return query @ projected.mT / projected.size(-2) ** 0.5


@wrong("scaled_dot", FACTOR)
class RootOfBatch(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(len(query))


@wrong("scaled_dot", FACTOR)
class FixedWidth(Score):
    def forward(self, query, projected):
        return query @ projected.mT / 8


@wrong("scaled_dot", FACTOR)
class BothByTheRoot(Score):
    def forward(self, query, projected):
        root = math.sqrt(query.size(-1))
        return (query / root**0.5) @ (projected / root).mT


@wrong("scaled_dot", FACTOR)
class FourthRoot(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.25


@wrong("scaled_dot", "weights, where scores are meant")
class ScaledAndSoftmaxed(Score):
    def forward(self, query, projected):
        return F.softmax(query @ projected.mT / math.sqrt(query.size(-1)), dim=-1)


@wrong("scaled_dot", FACTOR, AXES, "scaled by the number of queries")
class WidthFromTheFront(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[2])


@wrong("scaled_dot")
class FloorDivision(Score):
    def forward(self, query, projected):
        return query @ projected.mT // math.sqrt(query.size(-1))


@wrong("scaled_dot", DTYPE)
class ScaledInSingle(Score):
    def forward(self, query, projected):
        return (query.float() @ projected.float().mT) / math.sqrt(query.size(-1))


@wrong("scaled_dot", CUT)
class ScaledWithoutGradient(Score):
    def forward(self, query, projected):
        with torch.no_grad():
            return query @ projected.mT / math.sqrt(query.size(-1))
