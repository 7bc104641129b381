"""additive: a small network compares a query and a key."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import scores
from attention_labs.lab03_scoring.score_question import score_question
from attention_labs.lab03_scoring.weights import DK, A, D
from attention_labs.pages import SCORING
from nbjudge import Mistake, normal


def _additive_parameters(g: torch.Generator) -> dict[str, Tensor]:
    return {
        "query_proj.weight": normal(g, A, D) / 2,
        "key_proj.weight": normal(g, A, DK) / 2,
        "energy_proj.weight": normal(g, 1, A),
    }


def _additive_with(forward: Callable[[Any, Tensor, Tensor], Tensor]) -> type[nn.Module]:
    return type("Wrong", (scores.AdditiveScore,), {"forward": forward})


def _pairs(score: Any, query: Tensor, projected: Tensor) -> Tensor:
    return score.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)


class _AdditiveUnprojected(scores.AdditiveScore):
    def project_keys(self, key: Tensor) -> Tensor:
        return key

    def forward(self, query: Tensor, projected: Tensor) -> Tensor:
        return self.energy_proj(torch.tanh(_pairs(self, query, projected))).squeeze(-1)


ADDITIVE = score_question(
    "additive",
    scores.AdditiveScore,
    (D, DK, A),
    _additive_parameters,
    (2, 1, 1),
    (
        Mistake(
            "tanh missing",
            "Without it the query adds the same number to every score, and a softmax"
            " does not see that.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(_pairs(self, q, k)).squeeze(-1)
            ),
        ),
        Mistake(
            "another nonlinearity in place of tanh",
            "The formula has a hyperbolic tangent.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.relu(_pairs(self, q, k))
                ).squeeze(-1)
            ),
        ),
        Mistake(
            "another nonlinearity in place of tanh",
            "The formula has a hyperbolic tangent.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.sigmoid(_pairs(self, q, k))
                ).squeeze(-1)
            ),
        ),
        Mistake(
            "tanh after v",
            "The tanh is taken of each hidden unit, before v adds them up: a score is"
            " not bounded by one.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: torch.tanh(
                    self.energy_proj(_pairs(self, q, k))
                ).squeeze(-1)
            ),
        ),
        Mistake(
            "v missing: summed without weights",
            "The vector v, here `energy_proj`, weighs the hidden units before they are"
            " added up.",
            SCORING + "additive",
            _additive_with(lambda self, q, k: torch.tanh(_pairs(self, q, k)).sum(-1)),
        ),
        Mistake(
            "tanh of the two parts apart",
            "Query and key are added first; outside the tanh they could not interact.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.tanh(self.query_proj(q)).unsqueeze(-2)
                    + torch.tanh(k).unsqueeze(-3)
                ).squeeze(-1)
            ),
        ),
        Mistake(
            "last axis of length one left over",
            "`energy_proj` makes one number per pair: (..., T, S, 1) still has to lose"
            " its last axis.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(torch.tanh(_pairs(self, q, k)))
            ),
        ),
        Mistake(
            "rows and columns exchanged",
            "Row t, column s holds the score of query t and key s: queries come first.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.tanh(self.query_proj(q).unsqueeze(-3) + k.unsqueeze(-2))
                ).squeeze(-1)
            ),
        ),
        Mistake(
            "keys not projected",
            "`project_keys` applies U to every key.",
            SCORING + "additive",
            _AdditiveUnprojected,
        ),
        Mistake(
            "keys projected twice",
            "`forward` is handed keys that `project_keys` has already mapped.",
            SCORING + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.tanh(_pairs(self, q, self.key_proj(k)))
                ).squeeze(-1)
            ),
        ),
    ),
    key_dim=DK,
)
