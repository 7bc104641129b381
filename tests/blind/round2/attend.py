import torch
import torch.nn.functional as F

from blind import right, wrong


def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


TRUE = "True = may attend, broadcastable to `scores`; None allows everything."
BEFORE = "The weights that you *return* are those before it: somebody wants to look at them."
MODULE = "`dropout`, where it is given, is a module to be called on the weights that make the context."
ZERO = "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are\n            zero for a query that may attend to nothing."
AXES = "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care."
SUM = "Weights say which share of each value to take; the context is the sum of the shares."
MANNERS = "(what it was handed is unchanged, and the dtype and the device are kept)"


@right("einsum, dropout on a copy")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights.clone())
    return torch.einsum("...ts,...sd->...td", used, value), weights


@right("shares written out and summed, dropout replaced by an identity")
def attend(scores, value, mask=None, dropout=None):
    keep = (lambda w: w) if dropout is None else dropout
    weights = masked_softmax(scores, mask)
    return (keep(weights)[..., None] * value.unsqueeze(-3)).sum(-2), weights


@right("query by query")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores=scores, mask=mask)
    used = dropout(weights) if dropout is not None else weights
    context = value.new_zeros(*scores.shape[:-1], value.size(-1))
    for t in range(scores.size(-2)):
        context[..., t, :] = (used[..., t : t + 1, :] @ value).squeeze(-2)
    return context, weights


@right("values from the left, turned")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    chain = [] if dropout is None else [dropout]
    used = weights
    for module in chain:
        used = module(used)
    return (value.mT @ used.mT).mT, weights


@wrong("weights after dropout returned", breaks=BEFORE, name="weights returned after dropout")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong("dropout on the context", breaks=MODULE, name="dropout at the wrong place")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    return (context if dropout is None else dropout(context)), weights


@wrong("the mask is forgotten", breaks=TRUE, name="mask not used")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("takes the rate out of the module", breaks=MODULE, name="module not called", subtle=True)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = F.dropout(weights, getattr(dropout, "p", 0.0), getattr(dropout, "training", False))
    return used @ value, weights


@wrong("bmm", breaks=AXES, name="right for three axes only", subtle=True)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return torch.bmm(weights if dropout is None else dropout(weights), value), weights


@wrong("what dropout left is made to sum to one again", breaks=MODULE, name="normalised after dropout", subtle=True)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
        total = used.sum(-1, keepdim=True)
        used = used / total.masked_fill(total == 0, 1.0)
    return used @ value, weights


@wrong("a query that may attend to nothing gets the mean of all values", breaks=ZERO, name="uniform where nothing is allowed", subtle=True)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("forbidden values are wiped out in place", breaks=MANNERS, name="input changed", subtle=True)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if mask is not None and mask.dim() == value.dim() and mask.size(-2) == 1:
        value.data.masked_fill_(~mask.mT, 0.0)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("a score of zero is taken for a masked one", breaks=SUM, name="allowed scores of zero lost", subtle=True)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores * mask
        weights = masked_softmax(scores, scores != 0)
    else:
        weights = masked_softmax(scores)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("without a mask the last one of the same shape is used", breaks=TRUE, name="mask kept between calls", subtle=True)
def attend(scores, value, mask=None, dropout=None, kept={}):
    if mask is not None:
        kept[scores.shape, scores.device] = mask
    weights = masked_softmax(scores, kept.get((scores.shape, scores.device)))
    return (weights if dropout is None else dropout(weights)) @ value, weights
