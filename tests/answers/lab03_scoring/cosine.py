"""Answers to cosine."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, with_part, wrong, wrong_edits
from answers.lab03_scoring.shared import PRODUCTS, draw, shapes
from answers.signs import (
    AXES,
    CUT,
    EXCHANGED,
    FACTOR,
    FITS,
    NAN,
    NONE,
    NOTHING,
    ONE_AXIS,
)

from attention_course.scores import Score
from nbjudge import Request, edit


@wide("cosine")
def any_directions(g):
    for leading, t, s, d in shapes(g):
        query, key = draw(g, *leading, t, d), draw(g, *leading, s, d)
        yield Request((query, key), (), gradients=True)
        for factor in (0.0, 1e-3, 1e4):
            yield Request((factor * query, key), ())
            yield Request((query, factor * key), ())


class Cosine(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-9)

    def forward(self, query, projected):
        q = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        return q @ projected.mT


def with_a_where(x):
    length = x.square().sum(-1, keepdim=True).sqrt()
    return x / torch.where(length == 0, torch.ones_like(length), length)


def by_the_inverse_root(x):
    return x * torch.einsum("...d,...d->...", x, x).clamp(min=1e-20).rsqrt()[..., None]


def with_linalg(x):
    return x / torch.linalg.vector_norm(x, dim=-1).clamp(min=1e-9).unsqueeze(-1)


def filled(x):
    length = x.norm(dim=-1, keepdim=True)
    return x / length.masked_fill(length == 0, 1)


def a_little_added(x):
    return x / ((x * x).sum(-1, keepdim=True) ** 0.5 + 1e-9)


DIRECTIONS = (
    lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-9),
    lambda x: F.normalize(x, dim=-1),
    with_a_where,
    by_the_inverse_root,
    with_linalg,
    filled,
    a_little_added,
)
for number, product in enumerate(PRODUCTS):
    direction = DIRECTIONS[number % len(DIRECTIONS)]
    body = {
        "project_keys": lambda self, key, f=direction: f(key),
        "forward": lambda self, query, projected, f=direction, product=product: product(
            f(query), projected
        ),
    }
    right("cosine", product.__name__)(type("Answer", (Score,), body))


@right("cosine")
@with_part(Cosine, "forward")
def lengths_taken_out_later(self, query, projected):
    length = query.norm(dim=-1).clamp(min=1e-9)
    return query @ projected.mT / length.unsqueeze(-1)


@right("cosine")
@with_part(Cosine, "forward")
def similarity(self, query, projected):
    return F.cosine_similarity(query.unsqueeze(-2), projected.unsqueeze(-3), dim=-1)


LATER = "keys normalized in forward, not in project_keys"


@wrong("cosine", LATER)
class SimilarityAlone(Cosine):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return F.cosine_similarity(query.unsqueeze(-2), projected.unsqueeze(-3), dim=-1)


@wrong("cosine", LATER)
class ProductOfLengths(Cosine):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        lengths = query.norm(dim=-1).unsqueeze(-1) * projected.norm(dim=-1).unsqueeze(
            -2
        )
        return query @ projected.mT / lengths.clamp(min=1e-9)


@wrong("cosine", "the keys are not normalized")
class OnlyTheQuery(Cosine):
    def project_keys(self, key):
        return key


PROJECT, FORWARD = Cosine.project_keys, Cosine.forward
KEY = "key / key.norm(dim=-1, keepdim=True).clamp(min=1e-9)"
QUERY = "query / query.norm(dim=-1, keepdim=True).clamp(min=1e-9)"
ZEROS = "zero vectors are divided by zero"
AXIS = "normalized along the wrong axis"
wrong_edits(
    "cosine",
    Cosine,
    QueryAsItIs=(edit(FORWARD, QUERY, "query"), "the queries are not normalized"),
    KeysUnguarded=(edit(PROJECT, ".clamp(min=1e-9)", ""), ZEROS, NAN),
    QueriesUnguarded=(edit(FORWARD, ".clamp(min=1e-9)", ""), ZEROS, NAN),
    AlongTheSource=(edit(PROJECT, "dim=-1", "dim=-2"), AXIS),
    AlongTheSecondAxis=(
        edit(PROJECT, "dim=-1", "dim=1") & edit(FORWARD, "dim=-1", "dim=1"),
        AXIS,
        AXES,
        FITS,
    ),
    LengthsSummed=(
        edit(PROJECT, KEY, "key")
        & edit(
            FORWARD,
            "q @ projected.mT",
            "query @ projected.mT"
            " / (query.norm(dim=-1)[..., None] + projected.norm(dim=-1)[..., None, :])",
        ),
    ),
    AxisDropped=(
        edit(PROJECT, "(dim=-1, keepdim=True)", "(dim=-1)"),
        FITS,
        ONE_AXIS,
    ),
    ClampedAtOne=(edit(PROJECT, "1e-9", "1") & edit(FORWARD, "1e-9", "1"),),
    KeysTwice=(
        edit(FORWARD, QUERY, "query / projected.norm(dim=-1, keepdim=True)"),
        FITS,
        "the queries are not normalized",
    ),
    LengthDetached=(
        edit(PROJECT, "keepdim=True)", "keepdim=True).detach()"),
        CUT,
    ),
    Halved=(edit(FORWARD, "q @", "(q + 0) / 2 @"), FACTOR),
    Distance=(
        edit(FORWARD, "q @ projected.mT", "1 - q @ projected.mT"),
        "one minus the cosine instead of the cosine",
    ),
    Turned=(
        edit(FORWARD, "q @ projected.mT", "projected @ q.mT"),
        "the scores are transposed",
        EXCHANGED,
    ),
    Softmaxed=(
        edit(FORWARD, "q @ projected.mT", "(q @ projected.mT).softmax(-1)"),
        "weights instead of scores",
    ),
    ClampedTooEarly=(
        edit(PROJECT, "1e-9", "1e-5") & edit(FORWARD, "1e-9", "1e-5"),
        "short vectors are taken for vectors of zeros",
    ),
    SquaresClamped=(
        edit(PROJECT, KEY, "key * key.square().sum(-1, True).clamp(min=1e-8).rsqrt()"),
    ),
    OneQueryUnguarded=(
        edit(FORWARD, "min=1e-9", "min=1e-9 * (query.size(-2) > 1)"),
        NAN,
    ),
    NoReturn=(edit(FORWARD, "return ", ""), NOTHING, NONE),
)
