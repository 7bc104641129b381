"""Question `additive`: the additive score, a small network of query and key."""

from attention_course.scores import AdditiveScore
from attention_labs.lab03_scoring.shared import keys_as_they_came, score_question
from attention_labs.pages import SCORING
from nbjudge import Axis, Mistake, edit

FORWARD = AdditiveScore.forward
UP, DOWN = "(q + k).exp()", "(-q - k).exp()"

QUESTION = score_question(
    "additive",
    AdditiveScore,
    lambda d: (d.D, d.DK, d.A),
    (2, 1, 1),
    (
        Mistake(
            "tanh missing",
            "Without it the query adds the same number to every score, and a softmax"
            " does not see that.",
            SCORING + "additive",
            edit(FORWARD, "tanh(q + k)", "q + k"),
        ),
        Mistake(
            "a different nonlinearity instead of tanh",
            "The formula has a hyperbolic tangent.",
            SCORING + "additive",
            (
                edit(FORWARD, "tanh(q + k)", "torch.relu(q + k)"),
                edit(FORWARD, "tanh(q + k)", "torch.sigmoid(q + k)"),
            ),
        ),
        Mistake(
            "tanh applied to the score",
            "The tanh is applied to each hidden unit, before u adds the units up. A"
            " score is not bounded by one.",
            SCORING + "additive",
            edit(
                FORWARD,
                "self.energy_proj(tanh(q + k))",
                "tanh(self.energy_proj(q + k))",
            ),
        ),
        Mistake(
            "the weight vector u is missing",
            "The vector u, here `energy_proj`, weights the hidden units before they"
            " are added up.",
            SCORING + "additive",
            edit(
                FORWARD,
                "self.energy_proj(tanh(q + k)).squeeze(-1)",
                "tanh(q + k).sum(-1)",
            ),
        ),
        Mistake(
            "tanh applied to query and key separately",
            "Query and key are added first; outside the tanh they could not interact.",
            SCORING + "additive",
            edit(FORWARD, "tanh(q + k)", "tanh(q) + tanh(k)"),
        ),
        Mistake(
            "an extra last axis of length one",
            "`energy_proj` makes one number per pair: (..., T, S, 1) still has to lose"
            " its last axis.",
            SCORING + "additive",
            edit(FORWARD, ".squeeze(-1)", ""),
        ),
        Mistake(
            "the scores are transposed",
            "Row t, column s holds the score of query t and key s: queries come first.",
            SCORING + "additive",
            edit(FORWARD, "(query).unsqueeze(-2)", "(query).unsqueeze(-3)")
            & edit(FORWARD, "projected.unsqueeze(-3)", "projected.unsqueeze(-2)"),
        ),
        Mistake(
            "keys not projected",
            "`project_keys` applies U to every key.",
            SCORING + "additive",
            edit(AdditiveScore.project_keys, "self.key_proj(key)", "key")
            & edit(
                FORWARD,
                "check_width(projected, self.query_proj.out_features, _HINT)",
                "pass",
            ),
        ),
        Mistake(
            "axes counted from the front",
            "The axes before the last two may be (B,), (B, H) or none: count axes"
            " from the end.",
            SCORING + "interface",
            edit(FORWARD, "unsqueeze(-2)", "unsqueeze(2)")
            & edit(FORWARD, "unsqueeze(-3)", "unsqueeze(1)"),
        ),
        Mistake(
            "tanh from exponentials overflows",
            "The exponential of a large number is infinite, and infinity divided by"
            " infinity is nan. torch.tanh knows how to avoid that.",
            SCORING + "additive",
            edit(FORWARD, "tanh(q + k)", f"({UP} - {DOWN}) / ({UP} + {DOWN})"),
        ),
        Mistake(
            "the query is added to the keys in place",
            "The projected keys are asked again at the next step, so they stay as they"
            " are: += and add_ change them.",
            SCORING + "interface",
            edit(FORWARD, "(q + k)", "(k.add_(q) if q.size(-3) == 1 else q + k)"),
        ),
        Mistake(
            "the keys are kept on self",
            "`forward` gets the projected keys as an argument. `project_keys` may have"
            " been called for another source in the meantime.",
            SCORING + "interface",
            edit(
                AdditiveScore.project_keys,
                "return self.key_proj(key)",
                "self.kept = self.key_proj(key); return self.kept",
            )
            & edit(FORWARD, "projected.unsqueeze", "self.kept.unsqueeze"),
        ),
        Mistake(
            "keys projected in forward, not in project_keys",
            "U k depends on the source alone: `project_keys` computes it once per"
            " sentence, and `forward` gets the result.",
            SCORING + "additive",
            edit(AdditiveScore.project_keys, "self.key_proj(key)", "key")
            & edit(
                FORWARD,
                "check_width(projected, self.query_proj.out_features, _HINT)",
                "projected = self.key_proj(projected)",
            ),
            keys_as_they_came,
        ),
        Mistake(
            "keys projected twice",
            "`forward` gets keys that `project_keys` has already mapped.",
            SCORING + "additive",
            edit(FORWARD, "projected.unsqueeze", "self.key_proj(projected).unsqueeze"),
        ),
    ),
    {
        "scores": "Score every query (..., T, query_dim) against every projected key"
        " (..., S, A): (..., T, S).",
        "maps": "Compute U k for every key (..., S, key_dim): (..., S, A).",
    },
    {
        "DK": Axis("width of a key", fixed=True),
        "A": Axis("hidden width", fixed=True),
    },
    projects=True,
)
