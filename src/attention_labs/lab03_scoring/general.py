"""general: a learned map between queries and keys."""

import math

import torch
from torch import Tensor

from attention_course import scores
from attention_labs.lab03_scoring.score_question import score_question
from attention_labs.lab03_scoring.weights import DK, D
from attention_labs.pages import SCORING
from nbjudge import Mistake, normal


def _general_parameters(g: torch.Generator) -> dict[str, Tensor]:
    return {"key_proj.weight": normal(g, D, DK) / 2}


class _Unprojected(scores.GeneralScore):
    def project_keys(self, key: Tensor) -> Tensor:
        return key


class _ProjectedTwice(scores.GeneralScore):
    def forward(self, query: Tensor, projected: Tensor) -> Tensor:
        return query @ self.key_proj(projected).mT


class _ScaledGeneral(scores.GeneralScore):
    def forward(self, query: Tensor, projected: Tensor) -> Tensor:
        return query @ projected.mT / math.sqrt(query.size(-1))


GENERAL = score_question(
    "general",
    scores.GeneralScore,
    (D, DK),
    _general_parameters,
    (2, 1, 1),
    (
        Mistake(
            "keys not projected",
            "`project_keys` applies the learned map W to every key; without it queries"
            " and keys differ in width.",
            SCORING + "general",
            _Unprojected,
        ),
        Mistake(
            "keys projected twice",
            "`forward` is handed keys that `project_keys` has already mapped.",
            SCORING + "general",
            _ProjectedTwice,
        ),
        Mistake(
            "scaled, where the plain product is meant",
            "The general score is a dot product after the map W, without a scale.",
            SCORING + "general",
            _ScaledGeneral,
        ),
    ),
    key_dim=DK,
)
