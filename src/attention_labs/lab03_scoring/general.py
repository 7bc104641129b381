"""Question `general`: a dot product with a learned linear map between query and key."""

from attention_course.scores import DotScore, GeneralScore
from attention_labs.lab03_scoring.shared import (
    keys_as_they_came,
    score_question,
)
from attention_labs.pages import SCORING
from nbjudge import Axis, Mistake, edit

QUESTION = score_question(
    "general",
    GeneralScore,
    lambda d: (d.D, d.DK),
    (2, 1, 1),
    (
        Mistake(
            "keys not projected",
            "`project_keys` applies the learned map W to every key; without it queries"
            " and keys differ in width.",
            SCORING + "general",
            edit(GeneralScore.project_keys, "self.key_proj(key)", "key"),
        ),
        Mistake(
            "keys projected twice",
            "`forward` gets keys that `project_keys` has already mapped.",
            SCORING + "general",
            (
                edit(DotScore.forward, "projected.mT", "self.key_proj(projected).mT"),
                edit(
                    DotScore.forward,
                    "projected.mT",
                    "(self.key_proj(projected) if projected.size(-1) =="
                    " self.key_proj.in_features else projected).mT",
                ),
            ),
        ),
        Mistake(
            "a nonlinearity after the map",
            "The map of the keys is linear, without a tanh after it.",
            SCORING + "general",
            edit(
                GeneralScore.project_keys,
                "self.key_proj(key)",
                "self.key_proj(key).tanh()",
            ),
        ),
        Mistake(
            "the projected keys of an earlier source are kept",
            "`project_keys` is called once for each source, and every source has keys"
            " of its own. Keep nothing on self.",
            SCORING + "interface",
            edit(
                GeneralScore.project_keys,
                "return self.key_proj(key)",
                "kept = self.__dict__.setdefault('kept', {})\n"
                "    if key.shape not in kept:\n"
                "        kept[key.shape] = self.key_proj(key)\n"
                "    return kept[key.shape]",
            ),
        ),
        Mistake(
            "keys projected in forward, not in project_keys",
            "The map depends on the source alone: `project_keys` applies it once per"
            " sentence, and `forward` gets the mapped keys.",
            SCORING + "general",
            edit(GeneralScore.project_keys, "self.key_proj(key)", "key")
            & edit(DotScore.forward, "projected.mT", "self.key_proj(projected).mT")
            & edit(
                DotScore.forward, "check_width(projected, query.size(-1), _HINT)", "0"
            ),
            keys_as_they_came,
        ),
        Mistake(
            "scaled instead of the plain product",
            "The general score is a dot product after the map W, without a scale.",
            SCORING + "general",
            edit(DotScore.forward, "query @", "query / query.size(-1) ** 0.5 @"),
        ),
    ),
    {
        "scores": "Score every query (..., T, query_dim) against every projected key:"
        " (..., T, S).",
        "maps": "Map every key (..., S, key_dim) into the space of the queries: (...,"
        " S, query_dim).",
    },
    {"DK": Axis("width of a key", fixed=True)},
    projects=True,
)
