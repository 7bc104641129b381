"""Answers to scaled_dot."""

import math

import torch
from answers.core import right, wrong_edits
from answers.lab03_scoring.shared import PRODUCTS, score
from answers.signs import (
    AXES,
    CUT,
    DTYPE,
    FACTOR,
)

from attention_course.scores import ScaledDotScore
from nbjudge import edit

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


def compared(product):
    whole = "(query / math.sqrt(query.size(-1))) @ projected.mT"
    return edit(ScaledDotScore.forward, whole, product)


wrong_edits(
    "scaled_dot",
    RootOfBatch=(compared("query @ projected.mT / len(query) ** 0.5"), FACTOR),
    FixedWidth=(compared("query @ projected.mT / 8"), FACTOR),
    BothByTheRoot=(compared("query @ projected.mT / query.size(-1) ** 0.75"), FACTOR),
    FourthRoot=(compared("query @ projected.mT / query.size(-1) ** 0.25"), FACTOR),
    ScaledAndSoftmaxed=(
        compared("F.softmax(query @ projected.mT / query.size(-1) ** 0.5, dim=-1)"),
        "weights instead of scores",
    ),
    WidthFromTheFront=(
        compared("query @ projected.mT / math.sqrt(query.shape[2])"),
        FACTOR,
        AXES,
        "scaled by the number of queries",
    ),
    FloorDivision=(compared("query @ projected.mT // query.size(-1) ** 0.5"),),
    ScaledInSingle=(
        compared("query.float() @ projected.float().mT / query.size(-1) ** 0.5"),
        DTYPE,
    ),
    EightAtMost=(
        compared("query @ projected.mT / min(8, query.size(-1) ** 0.5)"),
        FACTOR,
    ),
    RootsInATable=(
        compared("query @ projected.mT / [n**0.5 for n in range(129)][query.size(-1)]"),
        "wrong for long inputs",
    ),
    ScaledWithoutGradient=(
        compared("(query @ projected.mT).detach() / query.size(-1) ** 0.5"),
        CUT,
    ),
)
