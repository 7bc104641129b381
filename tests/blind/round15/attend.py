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
BEFORE = (
    "Return the weights as they were *before* dropout, because we want to look at them."
)
CALL = "Call it on the weights, and compute the context from what it returns."
NOTHING = "both are zero for a query that may attend to nothing."


def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    mask = mask.broadcast_to(scores.shape)
    alive = mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~mask & alive, -math.inf).softmax(dim=-1) * alive


@wrong(
    "returns the weights that dropout has changed",
    breaks=BEFORE,
    name="weights after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "calls dropout on the scores, before the softmax",
    breaks=CALL,
    name="dropout on the scores",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores), mask) @ value, weights


@wrong(
    "makes the weights sum to one again after dropout",
    breaks=CALL,
    name="normalises again after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights
    if dropout is not None:
        kept = dropout(weights)
        kept = kept / kept.sum(dim=-1, keepdim=True).clamp(min=1e-9)
    return kept @ value, weights


@wrong(
    "calls dropout on the context",
    breaks=CALL,
    name="dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong(
    "does not call the module if it is in eval mode, whatever it does there",
    breaks=CALL,
    name="assumes that dropout does nothing in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights
    if dropout is not None and dropout.training:
        kept = dropout(weights)
    return kept @ value, weights


@wrong(
    "reads the rate from the module and drops by itself: other modules are ignored",
    breaks=CALL,
    name="only works with nn.Dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    rate = getattr(dropout, "p", 0.0)
    training = dropout is not None and dropout.training
    return F.dropout(weights, rate, training) @ value, weights


@wrong(
    "multiplies in float32 and forgets to convert back",
    breaks=DTYPE,
    name="the context is always float32",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    return kept.float() @ value.float(), weights


@wrong(
    "detaches the returned weights, since they are only looked at",
    breaks=GRADIENTS,
    name="no gradient through the returned weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights.detach()


@wrong(
    "opens all positions to a query that may attend to nothing",
    breaks=NOTHING,
    name="the mean of all values for an empty row",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        mask = mask | ~mask.any(dim=-1, keepdim=True)
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights


@wrong(
    "bmm, which takes exactly one leading axis",
    breaks=THREE,
    name="only with axes (B,)",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    return torch.bmm(kept, value), weights


@right("einsum, with an identity where there is no dropout")
def attend(scores, value, mask=None, dropout=None):
    dropout = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask)
    return torch.einsum("...ts,...sv->...tv", dropout(weights), value), weights


@right("each value times its weight, summed in float64")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = dropout(weights) if dropout is not None else weights
    parts = used.double().unsqueeze(-1) * value.double().unsqueeze(-3)
    return parts.sum(dim=-2).to(value.dtype), weights


@right("a loop over the source positions")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask=mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
    context = used[..., :1] * value[..., :1, :]
    for s in range(1, value.shape[-2]):
        context = context + used[..., s : s + 1] * value[..., s : s + 1, :]
    return context, weights


@right("values transposed times weights transposed, and the result transposed")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return torch.matmul(value.mT, used.mT).mT, weights
