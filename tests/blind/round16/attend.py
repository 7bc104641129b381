import torch
import torch.nn.functional as F
from torch import nn
from attention_course.attention import masked_softmax
from blind import right, wrong

GRAD = "Gradients must be right, too."
CALL = "Call it on the weights, and compute the context from what it returns."
BEFORE = "Return the weights as they were *before* dropout, because we want to look at them."
MODULE = "If `dropout` is not None, it is a module that returns a new tensor."
SUM = "The *context* of a query is the sum of all values, each multiplied by its weight:"
DOC = "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are zero for a query that may attend to nothing."
MASK = "mask: True = may attend, broadcastable to `scores`; None allows everything."


@right("einsum over the source positions")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return torch.einsum("...ts,...sd->...td", used, value), weights


@right("adds up weighted values over the source positions in float64")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(used)
    context = 0
    for w, v in zip(used.double().unbind(dim=-1), value.double().unbind(dim=-2)):
        context = context + w.unsqueeze(-1) * v.unsqueeze(-2)
    return context.to(value.dtype), weights


@right("multiplies from the other side: (V^T A^T)^T")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = dropout(weights) if dropout is not None else weights
    return value.mT.matmul(used.mT).mT, weights


@right("one query after the other, but the dropout module is called once, on all weights")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    rows = [(row.unsqueeze(-1) * value).sum(dim=-2) for row in kept.unbind(dim=-2)]
    return torch.stack(rows, dim=-2), weights


@wrong("returns the weights after dropout", breaks=BEFORE, name="weights after dropout")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong("drops entries of the context instead of weights", breaks=CALL, name="dropout on the context")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong("drops scores before the softmax", breaks=CALL, name="dropout on the scores")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores), mask) @ value, weights


@wrong("skips the module in eval mode: wrong for a module which is not nn.Dropout and does something in eval mode, too", breaks=MODULE, name="dropout skipped in eval mode")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = dropout(weights) if dropout is not None and dropout.training else weights
    return used @ value, weights


@wrong("reads p from the module and drops by itself: the module is never called, and a module without p is ignored", breaks=CALL, name="own dropout with the module's p")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    used = F.dropout(weights, getattr(dropout, "p", 0.0), training=dropout.training)
    return used @ value, weights


@wrong("makes the rows sum to one again after dropout", breaks=CALL, name="dropped weights renormalized")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    used = dropout(weights)
    total = used.sum(dim=-1, keepdim=True)
    return used / total.masked_fill(total == 0, 1) @ value, weights


@wrong("returns detached weights, 'which are only looked at': a loss on the weights has no gradient", breaks=GRAD, name="returned weights detached")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights.detach()


@wrong("inserts an axis for the heads into every mask when there are heads: wrong for a mask that already has one, such as (B, 1, 1, S)", breaks=MASK, name="an axis for the heads too many")
def attend(scores, value, mask=None, dropout=None):
    if mask is not None and scores.dim() == 4 and mask.dim() > 2:
        mask = mask.unsqueeze(1)
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong("fills the scores with the lowest number instead of using masked_softmax: a query that may attend to nothing gets the mean of all values", breaks=DOC, name="mean of all values in an empty row")
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong("uses a weight only if it is larger than 0.001: the many small weights of a long source are left out of the context", breaks=SUM, name="small weights left out")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    used = used.masked_fill(used < 1e-3, 0)
    return used @ value, weights
