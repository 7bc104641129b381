"""Answers to general."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.lab03_scoring.products import PRODUCTS
from answers.lab03_scoring.shapes import draw, shapes
from answers.signs import (
    CUT,
    EXCHANGED,
    FITS,
    NONE,
)
from torch import nn

from attention_course.scores import Score
from nbjudge.question import Request


@wide("general")
def any_map(g):
    for leading, t, s, d in shapes(g):
        for key_dim in (d, d + 1):
            inputs = (draw(g, *leading, t, d), draw(g, *leading, s, key_dim))
            yield Request(
                inputs,
                (d, key_dim),
                {"key_proj.weight": draw(g, d, key_dim)},
                gradients=True,
            )


class General(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


PROJECTIONS = (
    lambda self, key: self.key_proj(key),
    lambda self, key: F.linear(key, self.key_proj.weight),
    lambda self, key: key @ self.key_proj.weight.T,
    lambda self, key: torch.einsum("dk,...sk->...sd", self.key_proj.weight, key),
    lambda self, key: (self.key_proj.weight @ key.mT).mT,
)
for number, product in enumerate(PRODUCTS):
    body = {
        "project_keys": PROJECTIONS[number % len(PROJECTIONS)],
        "forward": lambda self, query, projected, product=product: product(
            query, projected
        ),
    }
    right("general", product.__name__)(type("Answer", (General,), body))


@right("general")
class QueryMapped(General):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj.weight @ projected.mT


@wrong("general", FITS, "keys not projected")
class NotProjected(General):
    def project_keys(self, key):
        return key


@wrong("general", FITS, "keys projected twice")
class ProjectedAgain(General):
    def forward(self, query, projected):
        return torch.matmul(query, self.key_proj(projected).transpose(-1, -2))


@wrong("general", FITS)
class WeightTurned(General):
    def project_keys(self, key):
        return key @ self.key_proj.weight


@wrong("general", FITS)
class QueryThroughTheMap(General):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return self.key_proj(query) @ projected.mT


@wrong("general", "scaled, where the plain product is meant")
class GeneralScaled(General):
    def forward(self, query, projected):
        return query @ projected.mT * query.size(-1) ** -0.5


@wrong("general", CUT)
class MapNotTrained(General):
    def project_keys(self, key):
        return key @ self.key_proj.weight.data.T


@wrong("general", "another answer to the same question")
class MapMadeAnew(General):
    def project_keys(self, key):
        return nn.Linear(key.size(-1), self.key_proj.out_features, bias=False).to(key)(
            key
        )


@wrong("general", "rows and columns exchanged", EXCHANGED)
class GeneralTurned(General):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong("general", "nothing returned", FITS, NONE)
class ProjectedIntoNothing(General):
    def project_keys(self, key):
        self.key_proj(key)


@wrong("general")
class WithTanh(General):
    def project_keys(self, key):
        return torch.tanh(self.key_proj(key))


@wrong("general", "a name that does not exist")
class Misspelt(General):
    def project_keys(self, key):
        return self.key_projection(key)


@wrong("general", "weights, where scores are meant")
class GeneralSoftmaxed(General):
    def forward(self, query, projected):
        return (query @ projected.mT).softmax(-1)
