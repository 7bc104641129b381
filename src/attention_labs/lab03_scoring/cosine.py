"""Question `cosine`: cosine similarity, the dot product of normalized vectors."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from attention_course import scores
from attention_course.scores import CosineScore, DotScore
from attention_labs.lab03_scoring.dot import KEYS_ASK, NOT_TRANSPOSED
from attention_labs.lab03_scoring.shared import keys_as_they_came, score_question
from attention_labs.pages import SCORING
from nbjudge import Mistake, Request, edit
from nbjudge.edits import Edit

SECTION = SCORING + "cosine"
DIRECTION = "F.normalize(x, dim=-1, eps=1e-3 if x.dtype == torch.float16 else 1e-6)"
PROJECT, FORWARD = CosineScore.project_keys, CosineScore.forward
COMPARED = "super().forward(_direction(query), projected)"


def _directions_by(how: str) -> Edit:
    """Make a mistake in how both a query and a key lose their length."""
    return edit(scores._direction, DIRECTION, how)


def _zeros_and_short_ones(request: Request) -> list[Request]:
    """Make the first query and the last key vectors of zeros, and all others short.

    With zeros, the entries of all other keys sum to zero. Short vectors are hardly
    longer than the text allows.
    """
    short = tuple(3e-6 * F.normalize(x, dim=-1) for x in request.inputs)
    query, key = request.inputs
    query, key = query.clone(), key - key.mean(-1, keepdim=True)
    query[..., 0, :], key[..., -1, :] = 0.0, 0.0
    about = "the first query and the last key are vectors of zeros"
    # what the gradient of a vector of zeros is, the text does not say
    plain = replace(request, gradients=False)
    small = replace(plain, inputs=short, about="vectors of length 3e-6")
    return [
        replace(plain, inputs=(query, key), about=about),
        *(replace(small, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)),
    ]


QUESTION = score_question(
    "cosine",
    CosineScore,
    lambda d: (),
    (1, 1, 1),
    (
        replace(NOT_TRANSPOSED, section=SECTION),
        replace(KEYS_ASK, section=SECTION),
        Mistake(
            "neither queries nor keys are normalized",
            "This is the dot product. Divide the queries and the keys by their"
            " lengths.",
            SECTION,
            DotScore,
        ),
        Mistake(
            "the queries are not normalized",
            "The keys are divided by their lengths. Divide the queries, too: otherwise"
            " a query that is twice as long gets scores twice as large.",
            SECTION,
            edit(FORWARD, "_direction(query)", "query"),
        ),
        Mistake(
            "the keys are not normalized",
            "The queries are divided by their lengths. Divide the keys, too: otherwise"
            " a long key wins over a short one that points in the same direction.",
            SECTION,
            edit(PROJECT, "_direction(key)", "key"),
        ),
        Mistake(
            "keys normalized in forward, not in project_keys",
            "The length of a key depends on the source alone: `project_keys` divides by"
            " it once per sentence, and `forward` gets keys of length one.",
            SECTION,
            edit(PROJECT, "_direction(key)", "key")
            & edit(
                FORWARD,
                COMPARED,
                COMPARED.replace("projected", "_direction(projected)"),
            ),
            keys_as_they_came,
        ),
        Mistake(
            "normalized along the wrong axis",
            "The length of a vector is the square root of the sum over its own"
            " entries, the last axis. The axis before it counts the queries or the"
            " keys.",
            SECTION,
            (
                _directions_by("F.normalize(x, dim=-2)"),
                edit(FORWARD, "_direction(query)", "F.normalize(query, dim=-2)"),
                edit(PROJECT, "_direction(key)", "F.normalize(key, dim=-2)"),
            ),
        ),
        Mistake(
            "all vectors divided by one common norm",
            "Every vector has a length of its own: `norm(dim=-1, keepdim=True)`.",
            SECTION,
            _directions_by("x / x.norm().clamp(min=1e-6)"),
        ),
        Mistake(
            "zero vectors are divided by zero",
            "The length of a vector of zeros is 0, and 0 / 0 is not a number. Keep the"
            " divisor away from zero, with `clamp(min=...)` for example.",
            SECTION,
            (
                _directions_by("x / x.norm(dim=-1, keepdim=True)"),
                edit(
                    FORWARD,
                    "_direction(query)",
                    "query / query.norm(dim=-1, keepdim=True)",
                ),
                edit(
                    PROJECT, "_direction(key)", "key / key.norm(dim=-1, keepdim=True)"
                ),
            ),
        ),
        Mistake(
            "short vectors are taken for vectors of zeros",
            "A short vector has a direction, too. Only a vector of zeros needs another"
            " divisor than its length: take a limit no larger than 1e-6.",
            SECTION,
            tuple(
                _directions_by(f"x / x.norm(dim=-1, keepdim=True).clamp(min=1e-{n})")
                for n in (5, 4)
            ),
        ),
        Mistake(
            "divided by the squared norms",
            "The length is the square root of the sum of squares.",
            SECTION,
            _directions_by(
                "x / x.square().sum(dim=-1, keepdim=True).clamp(min=1e-6)",
            ),
        ),
        Mistake(
            "L1 norm instead of the L2 norm",
            "The length of a vector is the square root of the sum of its squared"
            " entries, not the sum of their magnitudes.",
            SECTION,
            _directions_by("F.normalize(x, p=1, dim=-1)"),
        ),
        Mistake(
            "divided by the square root of the width, too",
            "The lengths already take the width into account. The cosine needs no other"
            " scale.",
            SECTION,
            edit(FORWARD, COMPARED, f"{COMPARED} / query.size(-1) ** 0.5"),
        ),
        Mistake(
            "the angle instead of its cosine",
            "The score is the cosine itself: it is high where the angle is small.",
            SECTION,
            edit(FORWARD, COMPARED, f"{COMPARED}.clamp(-1, 1).acos()"),
        ),
        Mistake(
            "one minus the cosine instead of the cosine",
            "That is a distance: it is small where query and key match. A score is"
            " large there.",
            SECTION,
            edit(FORWARD, COMPARED, f"1 - {COMPARED}"),
        ),
    ),
    {
        "scores": "Score every query (..., T, D) against every key of length one: (...,"
        " T, S).",
        "keys": "Divide every key (..., S, D) by its length: (..., S, D).",
        "once": "Divide each key by its length in `project_keys`, which is called once"
        " for each source, so that `forward` gets keys of length one. Divide each query"
        " by its length in `forward`.",
        "zeros": "A vector of zeros has no direction. Leave it as it is. All its"
        " scores must be 0. You may assume that all other vectors are longer than"
        " 1e-6. The gradients of a vector of zeros do not matter.",
    },
    projects=True,
    large=(0.0, 3e-4, 1e5),
    gradients=False,  # those of a vector of zeros do not matter
    also=_zeros_and_short_ones,
)
