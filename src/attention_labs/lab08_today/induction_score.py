"""Question `induction_score`: the weight on what followed the same token before."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attention_course.heads import induction_score
from attention_labs.lab08_today.shared import EVERYWHERE, LEAVES_OUT
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    normal,
    wrong_output,
)


def _looked(d: Draw, tokens: Tensor) -> Request:
    scores = normal(d, *tokens.shape[:1], d.H, *tokens.shape[1:], tokens.size(1))
    return Request((tokens, scores.abs() if d.whole else (2 * scores).softmax(dim=-1)))


def _repeated(d: Draw) -> Request:
    """Draw tokens of which some occur often, and some once or never."""
    return _looked(d, torch.randint(d.V, (d.B, d.T), generator=d))


def _with_zeros(d: Draw, tokens: Tensor) -> Request:
    """Draw weights of which every other one is zero."""
    _, weights = _looked(d, tokens).inputs
    return Request((tokens, weights * (torch.rand(weights.shape, generator=d) < 0.5)))


def _late(d: Draw, parity: int) -> Request:
    """Draw a row whose last token has occurred once, beyond what bfloat16 can count.

    What followed has the only weights with those of every other key.
    """
    tokens = torch.randperm(300, generator=d)[None]
    place = 256 + 2 * d.number(0, 15) + parity
    tokens[0, -1] = tokens[0, place]
    weights = 1 - torch.rand(1, d.H, 300, 300, generator=d, dtype=torch.float64) / 2
    weights[..., parity::2] = 0.0
    about = f"one token occurs twice, at {place} and at 299; in bfloat16"
    return Request((tokens, weights), dtype=torch.bfloat16, about=about)


def _far_back(d: Draw) -> Request:
    """Draw a row whose last token has occurred at its start alone."""
    tokens = torch.randperm(200, generator=d)[None]
    tokens[0, -1] = tokens[0, d.number(0, 3)]
    request = _looked(d, tokens)
    return replace(request, about="the last of 200 tokens has occurred at the start")


def _many(d: Draw) -> Request:
    """Draw more positions that count than bfloat16 can, with large weights."""
    tokens = torch.randint(d.V, (4, 110), generator=d)
    weights = torch.rand(4, d.H, 110, 110, generator=d, dtype=torch.float64)
    about = "over 400 positions that count, in bfloat16, which counts up to 256"
    return Request((tokens, weights), dtype=torch.bfloat16, about=about)


def _rare(d: Draw) -> list[Request]:
    """Draw rows of which none has a token twice, or one has it once, or all have."""
    different = torch.stack(
        [torch.randperm(d.T, generator=d) + 7 for _ in range(d.B + 1)]
    )
    several = different.clone()
    several[0] = torch.randint(2, (d.T,), generator=d)
    once, twice = different[:1].clone(), different.repeat(1, 2)
    once[0, -1] = once[0, 0]
    return [
        _looked(d, once),
        _looked(d, different),
        _looked(d, several),
        _looked(d, 0 * different),
        _looked(d, twice),
        _looked(d, twice + 2**26),
        _looked(d, twice * 2**16),
        _with_zeros(d, twice),
        _late(d, 0),
        _late(d, 1),
        _far_back(d),
        _many(d),
    ]


BATTERY = Battery(
    FUNCTION,
    _repeated,
    {
        "B": Axis("sentences", most=4),
        "T": Axis("tokens", long=150),
        "H": Axis("heads", most=5),
        "V": Axis("tokens in the vocabulary", most=6),
    },
    gradients=False,  # none are needed
    leaves_out=LEAVES_OUT,
)


def _all_occurrences(tokens: Tensor, weights: Tensor) -> Tensor:
    """Add the weights on what followed every earlier occurrence."""
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    asked = (weights * same.roll(1, dims=-1)[:, None]).sum(dim=(0, 2, 3))
    return asked / same.any(dim=-1).sum().clamp(min=1)


def _hits(tokens: Tensor, weights: Tensor) -> Tensor:
    """Count how often the largest weight lies on what followed."""
    largest = torch.nn.functional.one_hot(weights.argmax(dim=-1), tokens.size(1))
    return induction_score(tokens, largest.to(weights.dtype))


SCORES = "20_what_a_head_learns.html#what-a-head-learns-scores"

change = partial(edit, induction_score)
AFTER = "(same * place).amax(dim=-1)"
INDEX = "after[:, None, :, None]"
MEAN = "asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)"
LATEST = "Of several earlier positions with the same token, the latest one is s."
COUNTED = "The mean is over the positions that count, of all rows together."

QUESTION = Question(
    name="induction_score",
    reference=induction_score,
    use=lambda induction_score, tokens, weights: induction_score(tokens, weights),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "counts": "Count a position t only if its token has occurred earlier in the"
        " same row. Let s be the latest earlier position with this token.",
        "mean": "The score of a head is the mean of the weights that the queries t"
        " give to the keys s + 1. Take one mean over all positions that count, in all"
        " rows together.",
        "none": "If no position counts, return a score of 0 for each head. You need no"
        " gradients here: the score only measures.",
        "tokens": "tokens: token ids (B, T).",
        "weights": "weights: (B, H, T, T), queries by keys, of one layer.",
        "returns": "The scores (H,), of the dtype of the weights.",
    },
    properties=(
        BATTERY.numbers(
            "for each head, the mean weight on the token after the latest occurrence",
            2,
            checks=("counts", "mean", "tokens", "weights", "returns"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            checks=("lengths", "counts", "none"),
            claim="rows without a repetition, rows of one token; edges: length one,"
            " equal lengths, long inputs, large numbers, repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners", "returns")),
    ),
    mistakes=(
        Mistake(
            "weight on the same token, not the next one",
            "An induction head attends to the token that followed, key s + 1.",
            SCORES,
            change(INDEX, "(after - 1).clamp(min=0)[:, None, :, None]"),
        ),
        Mistake(
            "weight on the token before the same one",
            "An induction head attends to the token that followed, key s + 1.",
            SCORES,
            change(INDEX, "(after - 2).clamp(min=0)[:, None, :, None]"),
        ),
        Mistake(
            "the earliest occurrence instead of the latest",
            LATEST,
            SCORES,
            change(AFTER, "same.int().argmax(dim=-1).add(1) * same.any(dim=-1)"),
        ),
        Mistake(
            "summed over all earlier occurrences",
            LATEST,
            SCORES,
            _all_occurrences,
        ),
        Mistake(
            "a position counts as its own earlier occurrence",
            "The earlier position must be before t. Leave the diagonal out.",
            SCORES,
            (
                change(".tril(-1)", ".tril()")
                & change(AFTER, f"{AFTER}.clamp(max=tokens.size(1) - 1)"),
                change(".tril(-1)", ".tril()")
                & change(AFTER, f"{AFTER} % tokens.size(1)"),
            ),
        ),
        Mistake(
            "later occurrences instead of earlier ones",
            "Rows are queries, and columns are keys. Earlier keys are below the"
            " diagonal.",
            SCORES,
            change(".tril(-1)", ".triu(1)")
            & change(AFTER, f"{AFTER}.clamp(max=tokens.size(1) - 1)"),
        ),
        Mistake(
            "only the nearest of the earlier positions are searched",
            "The earlier occurrence may be any number of positions away.",
            SCORES,
            change(".tril(-1)", ".tril(-1).triu(-100)"),
        ),
        Mistake(
            "an occurrence at position 0 is ignored",
            "Positions count from 0. An occurrence at position 0 counts, too.",
            SCORES,
            change("found = after > 0", "found = after > 1"),
        ),
        Mistake(
            "the denominator counts all positions",
            COUNTED,
            SCORES,
            change("found.sum().clamp(min=1)", "found.numel()"),
        ),
        Mistake(
            "positions without an earlier occurrence are included",
            COUNTED + " At other positions there is no s, and index 0 has no meaning.",
            SCORES,
            change(" * found[:, None]", ""),
        ),
        Mistake(
            "mean of the per-row means",
            COUNTED + " So a row with many such positions counts more than a row with"
            " few.",
            SCORES,
            change(
                MEAN,
                "(asked.sum(dim=2) / found.sum(dim=1, keepdim=True).clamp(min=1))"
                ".mean(dim=0)",
            ),
        ),
        Mistake(
            "sum instead of the mean",
            COUNTED,
            SCORES,
            change(" / found.sum().clamp(min=1)", ""),
        ),
        Mistake(
            "0 divided by 0",
            "If no position counts, the sum and the denominator are 0. Use a"
            " denominator of at least 1.",
            SCORES,
            change(".clamp(min=1)", ""),
        ),
        Mistake(
            "queries and keys swapped",
            "In weights[b, h, t, s], rows are queries and columns are keys.",
            SCORES,
            change("weights.gather", "weights.mT.gather"),
        ),
        Mistake(
            "hits of the largest weight instead of weights",
            "Take the mean of the weights, even where they are not the largest.",
            SCORES,
            _hits,
        ),
        Mistake(
            "positions or counts in the dtype of the weights",
            "bfloat16 cannot tell 256 from 257. Keep positions and counts in whole"
            " numbers.",
            SCORES,
            sign=lambda request, reply, reference: (
                request.dtype == torch.bfloat16
                and not request.variation
                and not reply.error
                and reply.outputs[0].dtype == request.dtype
            ),
        ),
        *ANYWHERE,
        Mistake(
            "a single score for all heads",
            "Return a separate score for each head, (H,).",
            SCORES,
            sign=wrong_output(
                lambda given, wanted: given.numel() == 1 and wanted.numel() > 1
            ),
        ),
    ),
)
