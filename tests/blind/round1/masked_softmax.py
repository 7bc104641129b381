from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


@right('minus infinity, with dead rows mended before the softmax')
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    mask = mask.broadcast_to(scores.shape)
    dead = ~mask.any(-1, keepdim=True)
    low = scores.masked_fill(~mask, -math.inf).masked_fill(dead, 0.0)
    return low.softmax(-1).masked_fill(~mask, 0.0)


@right('exponentials by hand, logarithm of the sum taken out, divisor of dead rows set to one')
def masked_softmax(scores, mask=None):

    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    low = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    top = low.detach().logsumexp(-1, keepdim=True)
    e = torch.where(mask, (low - top).exp(), 0.0)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


@right('log-softmax, then a product with the mask as numbers')
def masked_softmax(scores, mask=None):

    if mask is None:
        return torch.exp(torch.log_softmax(scores, dim=-1))
    low = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    return torch.exp(torch.log_softmax(low, dim=-1)) * mask.to(scores.dtype)


@right('row by row: softmax over the allowed scores only, written into zeros')
def masked_softmax(scores, mask=None):

    flat = scores.reshape(-1, scores.size(-1))
    keep = torch.ones_like(flat, dtype=torch.bool)
    if mask is not None:
        keep = mask.expand(scores.shape).reshape(flat.shape)
    out = torch.zeros_like(flat)
    for i in range(flat.size(0)):
        j = keep[i].nonzero()[:, 0]
        if j.numel():
            out[i, j] = flat[i, j].softmax(0)
    return out.view(scores.shape)


@wrong(
    'softmax over all, then zeros at the forbidden positions',
    breaks='a forbidden position has weight exactly 0, and the allowed ones of its row still sum to one;',
    name='masked the weights, not the scores',
    subtle=False,
)
def masked_softmax(scores, mask=None):

    weights = scores.softmax(-1)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


@wrong(
    'softmax over the queries',
    breaks='Weights (..., T, S): each row sums to one; a row that may attend to nothing is zero.',
    name='softmax over the wrong axis',
    subtle=False,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-2)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(-2).masked_fill(~mask, 0.0)


@wrong(
    'the mask read the other way round',
    breaks='mask: True = may attend, broadcastable to `scores`; None allows everything.',
    name='mask inverted: True taken as forbidden',
    subtle=False,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    low = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return low.softmax(-1).masked_fill(mask, 0.0)


@wrong(
    'minus infinity, then nan_to_num: the gradient of a dead row is nan',
    breaks='a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient;',
    name='nan patched in the weights, not in the gradient',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    bias = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -math.inf)
    return (scores + bias).softmax(-1).nan_to_num(0.0)


@wrong(
    'lowest finite number and nothing after: a dead row is uniform',
    breaks='a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient;',
    name='uniform weights where nothing is allowed',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)


@wrong(
    "writes the low number into the caller's scores",
    breaks='the scores that came in are unchanged afterwards.',
    name='input changed in place',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    scores.detach().masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return weights.masked_fill(~mask, 0.0)


@wrong(
    'fills with -100: allowed scores lower than that lose their shares to forbidden ones',
    breaks='a forbidden position has weight exactly 0, and the allowed ones of its row still sum to one;',
    name='fill value not low enough',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -100.0).softmax(-1).masked_fill(~mask, 0.0)


@wrong(
    '1e-9 in the denominator, exponentials not shifted: rows of low scores do not sum to one',
    breaks='Weights (..., T, S): each row sums to one; a row that may attend to nothing is zero.',
    name='epsilon in the denominator',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    e = scores.clamp(max=80.0).exp()
    if mask is not None:
        e = e * mask
    return e / (e.sum(-1, keepdim=True) + 1e-9)


@wrong(
    'takes every mask of two axes as (B, S)',
    breaks='`mask` may have fewer axes than `scores`, or axes of length one: (B, 1, S) is common;',
    name='guesses what the axes of the mask are',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    if mask is None:
        return scores.softmax(-1)
    if mask.dim() == 2:
        mask = mask[:, None]
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(-1).masked_fill(~mask, 0.0)


@wrong(
    'takes a row of equal scores for a dead row',
    breaks='Weights (..., T, S): each row sums to one; a row that may attend to nothing is zero.',
    name='dead rows told by the scores, not by the mask',
    subtle=True,
)
def masked_softmax(scores, mask=None):

    low = scores
    if mask is not None:
        low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    dead = low.amax(-1, keepdim=True) == low.amin(-1, keepdim=True)
    weights = low.softmax(-1).masked_fill(dead, 0.0)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)
