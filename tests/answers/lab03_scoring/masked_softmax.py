"""Answers to masked_softmax."""

import math
import sys
import warnings

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.lab03_scoring.shapes import draw, masks, shapes
from answers.signs import (
    AXES,
    CUT,
    DEVICE,
    DTYPE,
    FITS,
    IN_PLACE,
    NAN,
    REQUIRED,
    TAKEN_OUT,
    WEIGHT,
)

from nbjudge.question import Request


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


@right("masked_softmax")
def stable_by_hand(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    scores = torch.where(mask, scores, -1e30)
    e = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


@right("masked_softmax")
def infinite_then_mended(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~mask & ~empty, float("-inf")).softmax(-1)
    return torch.where(empty | ~mask, torch.zeros_like(weights), weights)


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


@right("masked_softmax")
def with_logsumexp(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return weights if mask is None else weights.masked_fill(~mask, 0)


@right("masked_softmax")
def row_by_row(scores, mask=None):
    mask = (
        torch.ones_like(scores, dtype=torch.bool)
        if mask is None
        else mask.expand(scores.shape)
    )
    rows = []
    for t in range(scores.size(-2)):
        row, allowed = scores[..., t, :], mask[..., t, :]
        rows.append(
            row.masked_fill(~allowed, torch.finfo(row.dtype).min).softmax(-1) * allowed
        )
    return torch.stack(rows, dim=-2)


@right("masked_softmax")
def with_a_bias(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    bias = (~mask).to(scores.dtype) * torch.finfo(scores.dtype).min
    return (scores + bias).softmax(-1) * mask


@right("masked_softmax")
def with_log_softmax(scores, mask=None):
    if mask is None:
        return scores.log_softmax(-1).exp()
    return scores.masked_fill(mask.logical_not(), -1e30).log_softmax(-1).exp().mul(mask)


@right("masked_softmax")
def in_double_precision(scores, mask=None):
    weights = scores.double()
    if mask is None:
        return weights.softmax(-1).to(scores.dtype)
    weights = weights.masked_fill(~mask, -1e300).softmax(-1)
    return torch.where(
        mask, weights, torch.zeros((), dtype=torch.float64, device=scores.device)
    ).to(scores.dtype)


@right("masked_softmax")
def the_other_way_up(scores, mask=None):
    mask = torch.ones_like(scores).bool() if mask is None else mask.expand_as(scores)
    weights = scores.mT.masked_fill(~mask.mT, torch.finfo(scores.dtype).min).softmax(-2)
    return weights.masked_fill(~mask.mT, 0.0).mT


@right("masked_softmax")
def subtracting_the_maximum_in_place_of_a_copy(scores, mask=None):
    e = scores.clone()
    if mask is not None:
        e = e.masked_fill_(~mask, -1e30)
    e = e.sub(e.max(dim=-1, keepdim=True).values).exp()
    if mask is not None:
        e = e.mul(mask)
    return e.div(e.sum(-1, keepdim=True).clamp_min(1e-30))


@wrong("masked_softmax", "softmax over the queries")
def over_axis_one(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    return F.softmax(scores, dim=1)


@wrong("masked_softmax", "forbidden scores set to zero")
def scores_times_mask(scores, mask=None):
    return torch.softmax(scores if mask is None else scores * mask, dim=-1)


@wrong("masked_softmax", "mask after the softmax")
def weights_times_mask(scores, mask=None):
    weights = F.softmax(scores, dim=-1)
    return weights if mask is None else weights * mask.float().to(weights.dtype)


@wrong("masked_softmax", "mask after the softmax")
def renormalised_afterwards(scores, mask=None):
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return weights


@right("masked_softmax")  # the gradient that masked_fill stops is not a number, either
def not_a_number_replaced(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.nan_to_num(scores.softmax(-1))


@wrong("masked_softmax", "exponentials that overflow")
def no_maximum_subtracted(scores, mask=None):
    e = torch.exp(scores)
    if mask is not None:
        e = e.masked_fill(~mask, 0)
    return e / (e.sum(-1, keepdim=True) + 1e-9)


@wrong("masked_softmax", NAN, "forbidden scores set to minus infinity")
def logarithm_of_the_mask(scores, mask=None):
    return (scores if mask is None else scores + mask.to(scores.dtype).log()).softmax(
        -1
    )


@wrong("masked_softmax", WEIGHT, "forbidden scores set to zero")
def low_but_not_low_enough(scores, mask=None):
    return (scores if mask is None else scores.masked_fill(~mask, -20.0)).softmax(-1)


@wrong("masked_softmax", IN_PLACE)
def filled_in_place(scores, mask=None):
    if mask is not None:
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


@wrong("masked_softmax", CUT)
def detached(scores, mask=None):
    return masked_softmax(scores.detach(), mask)


@wrong("masked_softmax", DTYPE)
def single_precision(scores, mask=None):
    return masked_softmax(scores.float(), mask)


@wrong("masked_softmax", DEVICE)
def on_the_cpu(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.full(scores.shape, torch.finfo(scores.dtype).min, dtype=scores.dtype)
    return torch.where(mask, scores, lowest).softmax(-1) * mask


@wrong("masked_softmax", REQUIRED)
def mask_required(scores, mask):
    return masked_softmax(scores, mask)


@wrong("masked_softmax", FITS)
def picked_with_the_mask(scores, mask=None):
    scores = scores.clone()
    if mask is not None:
        scores[~mask] = torch.finfo(scores.dtype).min
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


@wrong("masked_softmax", TAKEN_OUT)
def if_any(scores, mask=None):
    if mask is None or mask.all():
        return scores.softmax(-1)
    return masked_softmax(scores, mask)


@wrong("masked_softmax", "the rows do not sum to one")
def over_the_whole_map(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    return scores.flatten(-2).softmax(-1).view(scores.shape)


@wrong("masked_softmax", "the rows do not sum to one")
def sigmoid(scores, mask=None):
    return scores.sigmoid() if mask is None else scores.sigmoid() * mask


@wrong("masked_softmax", AXES)
def three_axes(scores, mask=None):
    b, t, s = scores.shape
    return masked_softmax(scores, mask)


@wrong("masked_softmax", FITS, AXES)
def axis_put_behind_the_first(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    mask = mask.unsqueeze(1) if mask.dim() < scores.dim() else mask
    return (
        scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        .softmax(-1)
        .masked_fill(~mask, 0)
    )
