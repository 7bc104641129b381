"""Answers to general."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong, wrong_edits
from answers.lab03_scoring.shared import PRODUCTS, draw, shapes
from answers.signs import CUT, EXCHANGED, FITS, NO_NAME, NONE, NOTHING
from torch import nn

from attention_course.scores import Score
from nbjudge import Request, edit


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


@wrong("general", "keys projected in forward, not in project_keys")
class QueryMapped(General):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj.weight @ projected.mT


PROJECT, FORWARD = General.project_keys, General.forward
SCORES, KEYS = "query @ projected.mT", "self.key_proj(key)"
wrong_edits(
    "general",
    General,
    NotProjected=(edit(PROJECT, KEYS, "key"), FITS, "keys not projected"),
    WeightTurned=(edit(PROJECT, KEYS, "key @ self.key_proj.weight"), FITS),
    QueryThroughTheMap=(
        edit(PROJECT, KEYS, "key")
        & edit(FORWARD, SCORES, "self.key_proj(query) @ projected.mT"),
        FITS,
    ),
    MapNotTrained=(edit(PROJECT, KEYS, "key @ self.key_proj.weight.data.T"), CUT),
    MapMadeAnew=(
        edit(PROJECT, "self.key_proj(", "nn.Linear(key.size(-1), 7, False).to(key)("),
    ),
    GeneralTurned=(
        edit(FORWARD, SCORES, "projected @ query.mT"),
        "the scores are transposed",
        EXCHANGED,
    ),
    ProjectedIntoNothing=(edit(PROJECT, "return ", ""), NOTHING, FITS, NONE),
    WithTanh=(edit(PROJECT, KEYS, f"torch.tanh({KEYS})"),),
    KeysDetachedForOneQuery=(
        edit(
            FORWARD,
            "projected.mT",
            "(projected.mT if len(query) > 1 else projected.data.mT)",
        ),
        CUT,
    ),
    MapNotTrainedWithoutABatch=(
        edit(
            PROJECT,
            KEYS,
            "key @ (self.key_proj.weight if key.dim() > 2 else self.key_proj.weight.data).T",
        ),
        CUT,
    ),
    Misspelt=(edit(PROJECT, "key_proj", "key_projection"), NO_NAME),
    GeneralSoftmaxed=(
        edit(FORWARD, SCORES, f"({SCORES}).softmax(-1)"),
        "weights instead of scores",
    ),
)
