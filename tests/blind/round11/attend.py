import torch
from torch import nn

from blind import right, wrong


def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1).masked_fill(~mask, 0)


@right("transposed product, and Identity if there is no dropout")
def attend(scores, value, mask=None, dropout=None):
    drop = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask)
    return (value.mT @ drop(weights).mT).mT, weights


@right("each value multiplied by its weight, then the sum over the keys")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask=mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
    parts = used[..., :, :, None] * value[..., None, :, :]
    return parts.sum(dim=-2), weights


@right("a loop over the keys, summed up in float64")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    context = 0.0
    for share, v in zip(used.double().unbind(-1), value.double().unbind(-2)):
        context = context + share.unsqueeze(-1) * v.unsqueeze(-2)
    return context.to(value.dtype), weights


def _mix(weights, value):
    rows = [row.unsqueeze(-2) @ value for row in weights.unbind(dim=-2)]
    return torch.cat(rows, dim=-2)


@right("one query after another; a helper is called with what dropout returns")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return _mix(weights, value), weights
    return _mix(dropout(weights), value), weights


@wrong(
    "returns the weights after dropout",
    "Return the weights as they were *before* dropout, because we want to look at"
    " them.",
    "weights after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "calls dropout on the context",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong(
    "does not hand on the mask",
    "mask: True = may attend, broadcastable to `scores`; None allows everything.",
    "mask forgotten",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "reads the module's probability instead of calling it: any module other than"
    " nn.Dropout fails",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout module not called",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = nn.functional.dropout(weights, dropout.p, training=dropout.training)
    return used @ value, weights


@wrong(
    "calls the module in train mode only: one that also does something in eval mode"
    " has no effect",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout module not called in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None and dropout.training:
        used = dropout(weights)
    return used @ value, weights


@wrong(
    "bmm: only with one axis before the last two",
    "Your code must work in all three cases.",
    "bmm needs three axes",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return torch.bmm(used, value), weights


@wrong(
    "own softmax, which gives uniform weights to a query that may attend to nothing",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are"
    " zero for a query that may attend to nothing.",
    "uniform weights where nothing is allowed",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "divides the weights after dropout by their sum, so that they sum to one again",
    "Call it on the weights, and compute the context from what it returns.",
    "weights renormalised after dropout",
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
    "switches the dropout module to train mode, so it drops in eval mode too, and stays"
    " switched",
    "Do not change the inputs.",
    "dropout switched to train mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout.train()(weights)
    return torch.einsum("...ts,...sv->...tv", used, value), weights


_MASKS = {}


@wrong(
    "without a mask, uses that of the last call with scores of the same shape",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "mask of an earlier call",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is None:
        mask = _MASKS.get(scores.shape)
    else:
        _MASKS[scores.shape] = mask
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights
