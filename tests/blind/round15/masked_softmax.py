import math

import torch
from torch import nn
from torch.nn import functional as F

from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."
THREE = "Your code must work in all three cases."
ZERO = "The weight of a forbidden position must be exactly 0."
SUM = "The weights of the allowed positions in its row must still sum to one."
EMPTY = "In a row in which *nothing* is allowed, all weights must be 0, not `nan`."
EMPTY_GRAD = "The gradients of its scores must be 0 as well."
AXES = "`mask` may have fewer axes than `scores`, and some of its axes may have length one."


@wrong(
    "forbidden scores become -1e9, allowed scores may be lower than that",
    breaks=ZERO,
    name="a fill that is not low enough",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1)
    return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


@wrong(
    "minus infinity and no repair: nan in a row that allows nothing",
    breaks=EMPTY,
    name="the empty row is nan",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, dim=-1)


@wrong(
    "adds minus infinity and repairs the weights with nan_to_num: gradients are nan",
    breaks=EMPTY_GRAD,
    name="nan in the gradient of the empty row",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    bias = torch.zeros_like(scores).masked_fill(~mask, -math.inf)
    return torch.softmax(scores + bias, dim=-1).nan_to_num(0.0)


@wrong(
    "softmax over everything, then times the mask",
    breaks=SUM,
    name="masks the weights, not the scores",
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    return weights if mask is None else weights * mask


@wrong(
    "softmax over axis 1, which is the axis of the keys only without a batch",
    breaks=THREE,
    name="normalises over the wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=1)
    mask = mask.broadcast_to(scores.shape)
    dead = ~mask.any(dim=1, keepdim=True)
    filled = scores.masked_fill(~mask & ~dead, -math.inf)
    return filled.softmax(dim=1).masked_fill(~mask, 0.0)


@wrong(
    "overwrites the forbidden scores of the caller",
    breaks=INPUTS,
    name="masked_fill_ on the input",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    scores.data.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong(
    "gives a mask with fewer axes new ones at position 1 instead of in front",
    breaks=AXES,
    name="inserts the mask's missing axes in the wrong place",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    while mask.dim() < scores.dim():
        mask = mask.unsqueeze(1)
    dead = ~mask.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~(mask | dead), -math.inf)
    return filled.softmax(dim=-1).masked_fill(dead, 0.0)


@wrong(
    "repairs only if no row at all allows anything",
    breaks=EMPTY,
    name="repairs all rows or none",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if not mask.any():
        return scores * 0
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)


@wrong(
    "softmax over everything, then divides by the allowed part, which may underflow",
    breaks=SUM,
    name="a large forbidden score swallows the row",
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is None:
        return weights
    weights = weights * mask
    tiny = torch.finfo(weights.dtype).tiny
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=tiny)


@wrong(
    "takes every row with equal weights for an empty one: also S = 1 and equal scores",
    breaks=SUM,
    name="recognises the empty row by its uniform weights",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, low).softmax(dim=-1)
    uniform = (weights == weights[..., :1]).all(dim=-1, keepdim=True)
    return weights.masked_fill(uniform, 0.0)


@right("exponentials by hand, in float64, with the largest allowed score subtracted")
def masked_softmax(scores, mask=None):
    exact = scores.double()
    if mask is not None:
        exact = exact.masked_fill(~mask.broadcast_to(scores.shape), -math.inf)
    top = exact.detach().amax(dim=-1, keepdim=True)
    top = torch.where(top.isinf(), torch.zeros_like(top), top)
    powers = torch.exp(exact - top)
    total = powers.sum(dim=-1, keepdim=True)
    return (powers / torch.where(total > 0, total, 1.0)).to(scores.dtype)


@right("row by row: softmax of the allowed entries only, put back by index")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    width = scores.shape[-1]
    rows = scores.reshape(-1, width)
    allowed = mask.broadcast_to(scores.shape).reshape(-1, width)
    result = []
    for row, ok in zip(rows, allowed):
        places = ok.nonzero().flatten()
        blank = row * 0
        if len(places) > 0:
            blank = blank.index_put((places,), row[places].softmax(dim=0))
        result.append(blank)
    return torch.stack(result).reshape(scores.shape)


@right("minus infinity, but a row that allows nothing is opened and multiplied by 0")
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    mask = mask.broadcast_to(scores.shape)
    alive = mask.any(dim=-1, keepdim=True)
    opened = torch.where(alive, mask, True)
    return scores.masked_fill(~opened, -math.inf).softmax(dim=-1) * alive


@right("exp of log_softmax, in float64, dead rows replaced by zeros before it")
def masked_softmax(scores, mask=None):
    if mask is None:
        return F.log_softmax(scores.double(), dim=-1).exp().to(scores.dtype)
    mask = torch.logical_and(mask, torch.ones_like(scores, dtype=torch.bool))
    dead = mask.logical_not().all(dim=-1, keepdim=True)
    exact = scores.double().masked_fill(~mask, -math.inf).masked_fill(dead, 0.0)
    return F.log_softmax(exact, dim=-1).exp().masked_fill(dead, 0.0).to(scores.dtype)
