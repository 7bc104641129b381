"""Answers to masked_softmax."""

import math
import sys
import warnings

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong_edits
from answers.lab03_scoring.shared import draw, masks, shapes
from answers.signs import (
    AXES,
    CUT,
    DEVICE,
    DTYPE,
    FITS,
    IN_PLACE,
    NAN,
    REQUIRED,
    WEIGHT,
)

from attention_course import attention
from nbjudge import Request, edit


@wide("masked_softmax")
def any_scores(g):
    for leading, t, s, _ in shapes(g):
        for shape in ((*leading, t, s), (*leading, 1, s), (s,)):
            for mask in masks(g, *shape):
                yield Request((draw(g, *leading, t, s), mask), gradients=True)
                yield Request(
                    (300 * draw(g, *leading, t, s), mask), dtype=torch.float32
                )


@right("masked_softmax")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def allowing(weigh):
    """Enter a right answer that is made for masks: without one, all is allowed."""

    @right("masked_softmax", weigh.__name__)
    def softmax(scores, mask=None):
        everything = torch.ones_like(scores, dtype=torch.bool)
        return weigh(scores, everything if mask is None else mask)


@allowing
def stable_by_hand(scores, mask):
    scores = torch.where(mask, scores, -1e30)
    e = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    return e / e.sum(-1, keepdim=True).clamp_min(1e-30)


@allowing
def infinite_then_mended(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~mask & ~empty, float("-inf")).softmax(-1)
    return torch.where(empty | ~mask, torch.zeros_like(weights), weights)


@allowing
def with_logsumexp(scores, mask):
    scores = scores.masked_fill(~mask, -1e30)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp().masked_fill(~mask, 0)


@allowing
def row_by_row(scores, mask):
    rows = zip(scores.unbind(-2), mask.expand(scores.shape).unbind(-2))
    lowest = torch.finfo(scores.dtype).min
    weights = [row.masked_fill(~m, lowest).softmax(-1) * m for row, m in rows]
    return torch.stack(weights, dim=-2)


@allowing
def with_a_bias(scores, mask):
    bias = (~mask).to(scores.dtype) * torch.finfo(scores.dtype).min
    return (scores + bias).softmax(-1) * mask


@allowing
def with_log_softmax(scores, mask):
    return scores.masked_fill(mask.logical_not(), -1e30).log_softmax(-1).exp().mul(mask)


@allowing
def in_double_precision(scores, mask):
    weights = scores.double().masked_fill(~mask, -1e300).softmax(-1)
    return torch.where(mask, weights, torch.zeros_like(weights)).to(scores.dtype)


@allowing
def the_other_way_up(scores, mask):
    mask = mask.expand_as(scores)
    weights = scores.mT.masked_fill(~mask.mT, torch.finfo(scores.dtype).min).softmax(-2)
    return weights.masked_fill(~mask.mT, 0.0).mT


@allowing
def subtracting_the_maximum_in_place_of_a_copy(scores, mask):
    e = scores.clone().masked_fill_(~mask, -1e30)
    e = e.sub(e.max(dim=-1, keepdim=True).values).exp().mul(mask)
    return e.div(e.sum(-1, keepdim=True).clamp_min(1e-30))


@right("masked_softmax")
def loud(scores, mask=None):
    print("scores", scores.shape)
    print("scores", scores.shape, file=sys.stderr)
    warnings.warn("look at this", stacklevel=1)
    if mask is None:
        return F.softmax(scores, -1)
    return (
        F.softmax(torch.where(mask, scores, torch.full_like(scores, -1e30)), -1) * mask
    )


@right("masked_softmax")  # the gradient that masked_fill stops is not a number, either
def not_a_number_replaced(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.nan_to_num(scores.softmax(-1))


# What the course's own looks like, where there is a mask.
SOFTMAX = attention.masked_softmax
FILLED = "torch.where(mask, scores, lowest)"
MASKED, BARE = f"{FILLED}.softmax(dim=-1) * mask", "return scores.softmax(dim=-1)"
SUMS = "the rows of weights have the wrong sum"


def first(line):
    """Do something before all else."""
    return edit(SOFTMAX, "if mask is None", f"{line}\n    if mask is None")


wrong_edits(
    "masked_softmax",
    over_axis_one=(
        edit(SOFTMAX, BARE, "return scores.softmax(dim=1)")
        & edit(SOFTMAX, MASKED, "torch.where(mask, scores, -1e9).softmax(dim=1)"),
        "softmax over the query axis",
    ),
    renormalized_afterwards=(
        edit(SOFTMAX, MASKED, "F.normalize(scores.softmax(-1) * mask, p=1, dim=-1)"),
        "mask applied after the softmax",
        SUMS,
    ),
    no_maximum_subtracted=(
        edit(SOFTMAX, BARE, "mask = torch.ones_like(scores, dtype=torch.bool)")
        & edit(
            SOFTMAX,
            "lowest = ",
            "e = scores.exp().masked_fill(~mask, 0)\n    lowest = ",
        )
        & edit(SOFTMAX, MASKED, "e / (e.sum(-1, keepdim=True) + 1e-9)"),
        "the exponentials overflow",
        NAN,
    ),
    logarithm_of_the_mask=(
        edit(SOFTMAX, MASKED, "(scores + mask.to(scores.dtype).log()).softmax(-1)"),
        NAN,
        "masked scores set to minus infinity",
    ),
    low_but_not_low_enough=(
        edit(SOFTMAX, MASKED, "scores.masked_fill(~mask, -20.0).softmax(-1)"),
        WEIGHT,
        "masked scores set to zero",
    ),
    filled_in_place=(
        edit(SOFTMAX, FILLED, "scores.masked_fill_(~mask, lowest)"),
        IN_PLACE,
    ),
    detached=(first("scores = scores.detach()"), CUT),
    single_precision=(first("scores = scores.float()"), DTYPE),
    on_the_cpu=(
        edit(
            SOFTMAX, "lowest)", "torch.full(scores.shape, lowest, dtype=scores.dtype))"
        ),
        DEVICE,
    ),
    mask_required=(edit(SOFTMAX, " | None = None", " | None"), REQUIRED),
    picked_with_the_mask=(
        edit(SOFTMAX, "lowest = ", "scores = scores.clone()\n    scores[~mask] = ")
        & edit(SOFTMAX, FILLED, "scores"),
        FITS,
    ),
    over_the_whole_map=(
        edit(SOFTMAX, BARE, "return scores.flatten(-2).softmax(-1).view(scores.shape)")
        & edit(SOFTMAX, MASKED, f"{FILLED}.flatten(-2).softmax(-1).view(scores.shape)"),
        SUMS,
    ),
    sigmoid=(
        edit(SOFTMAX, BARE, "return scores.sigmoid()")
        & edit(SOFTMAX, MASKED, "scores.sigmoid() * mask"),
        SUMS,
    ),
    three_axes=(first("b, t, s = scores.shape"), AXES),
    never_quite_zero=(
        edit(SOFTMAX, MASKED, f"({MASKED}).clamp(min=1e-9)"),
        "a masked position has nonzero weight",
    ),
    a_little_below_the_row=(
        edit(SOFTMAX, "lowest)", "scores.amin(-1, keepdim=True) - 20)")
        & edit(SOFTMAX, " * mask", " * mask.any(-1, keepdim=True)"),
        "a masked position has nonzero weight",
    ),
    the_gradient_overflows=(
        edit(
            SOFTMAX,
            "lowest = ",
            "low = -1e30 * mask.any(-1, keepdim=True)\n"
            "    top = torch.where(mask, scores, low).amax(-1, keepdim=True)\n"
            "    top = torch.where(mask.any(-1, True), top, scores.amax(-1, True))\n"
            "    e = torch.where(mask, (scores - top).exp(), 0.0)\n"
            "    lowest = ",
        )
        & edit(SOFTMAX, MASKED, "e / e.sum(-1, keepdim=True).clamp(min=1e-30)"),
        NAN,
    ),
    one_key_gets_all=(
        first("if scores.size(-1) == 1: return torch.ones_like(scores)"),
        "the mask is ignored",
    ),
    one_query_sees_all=(
        first(
            "if scores.dim() == 2 and mask is not None and not mask.any(): mask = None"
        ),
        "the mask is ignored",
    ),
    cleared_in_three_axes=(
        edit(SOFTMAX, " * mask", " * (mask if scores.dim() == 3 else 1)"),
        "nonzero weights in a fully masked row",
        WEIGHT,
    ),
    masks_of_heads_for_sentences=(
        edit(
            SOFTMAX,
            "check_mask(mask, scores.shape)",
            "mask = mask.unsqueeze(1) if (mask.dim(), scores.dim()) == (3, 4) else mask",
        ),
        FITS,
    ),
    queries_of_the_mask_counted=(
        edit(SOFTMAX, "check_mask(mask, scores.shape)", "mask.size(-2)"),
        AXES,
    ),
    axis_put_behind_the_first=(
        edit(
            SOFTMAX,
            "check_mask(mask, scores.shape)",
            "mask = mask.unsqueeze(1) if mask.dim() < scores.dim() else mask",
        ),
        FITS,
        AXES,
    ),
)
