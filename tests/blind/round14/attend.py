import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.scores import Score
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
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
AXES = "Your code must work in all three cases."
FORMULA = r"$$c_t = \sum_s \alpha_{ts} v_s$$"
CALL = "Call it on the weights, and compute the context from what it returns."
BEFORE = (
    "Return the weights as they were *before* dropout, because we want to look at them."
)
USES = (
    "Write `attend`, which turns scores into weights with your `masked_softmax` and"
    " then computes the context."
)
BROAD = "mask: True = may attend, broadcastable to `scores`; None allows everything."


def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0)


@right("einsum, with an identity in place of no dropout")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = (nn.Identity() if dropout is None else dropout)(weights)
    return torch.einsum("...ts,...sv->...tv", used, value), weights


@right("transposed values times transposed weights")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask=mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
    return (value.mT @ used.mT).mT, weights


@right("adds up the weighted values in a loop over the source, in float64")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    context = 0
    for share, v in zip(used.double().unbind(-1), value.double().unbind(-2)):
        context = context + share.unsqueeze(-1) * v.unsqueeze(-2)
    return context.to(value.dtype), weights


@right("baddbmm over blocks of 48 positions, on flattened leading axes")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    shape = (*used.shape[:-1], value.shape[-1])
    used = used.reshape(-1, *used.shape[-2:]).double()
    value_ = value.reshape(-1, *value.shape[-2:]).double()
    context = used.new_zeros(1, 1, 1)
    context = context.expand(len(used), used.shape[1], value_.shape[2])
    for part, v in zip(used.split(48, dim=2), value_.split(48, dim=1)):
        context = torch.baddbmm(context, part, v)
    return context.reshape(shape).to(value.dtype), weights


@wrong(
    "overwrites the weights, and returns them as they are after dropout",
    BEFORE,
    "returns weights after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "calls dropout on the context instead of the weights",
    CALL,
    "dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    return (context if dropout is None else dropout(context)), weights


@wrong("does not pass the mask on", BROAD, "mask is not used")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "writes the softmax again and forgets the query that may attend to nothing: it gets"
    " the mean of all values",
    "zero for a query that may attend to nothing.",
    "empty row gets uniform weights",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "calls the module only if it is in train mode, although a module may also do"
    " something in eval mode",
    CALL,
    "skips dropout in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None and dropout.training:
        used = dropout(weights)
    return used @ value, weights


@wrong(
    "takes only the probability from the module and drops by itself: the same for"
    " nn.Dropout, but another module is not called",
    CALL,
    "uses dropout.p instead of calling",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = F.dropout(weights, getattr(dropout, "p", 0.0), dropout.training)
    return used @ value, weights


@wrong(
    "divides by the sum of the weights after dropout, so that they sum to one again",
    CALL,
    "renormalises after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
        total = used.sum(dim=-1, keepdim=True)
        used = used / total.masked_fill(total == 0, 1)
    return used @ value, weights


@wrong(
    "detaches the weights that it returns, because they are only looked at: a loss on"
    " the weights has no gradient",
    GRADS,
    "returned weights have no gradient",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights.detach()


@wrong(
    "takes each mask of two axes for (B, S) and inserts an axis, so that a mask (T, S)"
    " is misread",
    BROAD,
    "misreads a mask of two axes",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None and mask.dim() == 2 and scores.dim() > 2:
        mask = mask.unsqueeze(1)
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "flattens the values with view, which raises an error for heads that were split off"
    " with a transpose (not contiguous)",
    AXES,
    "view fails on non-contiguous values",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    flat = used.reshape(-1, *used.shape[-2:])
    context = torch.bmm(flat, value.view(-1, *value.shape[-2:]))
    return context.view(*scores.shape[:-1], -1), weights
