import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import masked_softmax
from blind import right, wrong

CONTEXT = "The *context* of a query is the sum of all values, each multiplied by its weight:"
BEFORE = "Return the weights as they were *before* dropout, because we want to look at them."
CALL = "Call it on the weights, and compute the context from what it returns."
NONE = "mask: True = may attend, broadcastable to `scores`; None allows everything."
MODULE = "dropout: a module, called on the weights; None drops nothing."
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
HEADS = (
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none."
)


@right("einsum, with an identity module instead of an if")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = (nn.Identity() if dropout is None else dropout)(weights)
    return torch.einsum("...ts,...sd->...td", used, value), weights


@right("a loop over the source adds one weighted value after the other")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    context = 0
    for share, one in zip(used.unbind(dim=-1), value.unbind(dim=-2)):
        context = context + share.unsqueeze(-1) * one.unsqueeze(-2)
    return context, weights


@right("the product of the transposes, computed in float64")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = dropout(weights) if dropout is not None else weights
    flipped = value.double().transpose(-1, -2) @ used.double().transpose(-1, -2)
    return flipped.transpose(-1, -2).to(value.dtype), weights


@right("bmm after the leading axes have been flattened")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
    *front, count, length = used.shape
    flat = torch.bmm(
        used.reshape(-1, count, length), value.reshape(-1, length, value.shape[-1])
    )
    return flat.view(*front, count, value.shape[-1]), weights


@wrong(
    "returns the weights that dropout has returned",
    breaks=BEFORE,
    name="the weights after dropout are handed back",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "calls dropout on the scores",
    breaks=MODULE,
    name="dropout before the softmax",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores), mask) @ value, weights


@wrong(
    "calls dropout on the context",
    breaks=CALL,
    name="entries of the context are dropped instead of weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong(
    "takes the mean of the weighted values",
    breaks=CONTEXT,
    name="the sum is divided by the number of keys",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    weighted = used.unsqueeze(-1) * value.unsqueeze(-3)
    return weighted.mean(dim=-2), weights


@wrong(
    "does not call the module when it is in eval mode",
    breaks=CALL,
    name="a module in eval mode is taken for one that does nothing",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None and dropout.training:
        used = dropout(weights)
    return used @ value, weights


@wrong(
    "divides the remaining weights by their sum after dropout",
    breaks=CALL,
    name="the weights are normalized again after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    used = dropout(weights)
    total = used.sum(dim=-1, keepdim=True)
    used = used / total.masked_fill(total == 0, 1)
    return used @ value, weights


@wrong(
    "detaches the returned weights, because one only looks at them",
    breaks=GRADIENTS,
    name="no gradient through the returned weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights.detach()


@wrong(
    "averages the returned weights over the heads",
    breaks=HEADS,
    name="the axis of the heads is missing from the weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    context = used @ value
    if weights.dim() == 4:
        weights = weights.mean(dim=1)
    return context, weights


@wrong(
    "overwrites the values of positions that no query may attend to with zeros",
    breaks=INPUTS,
    name="padding is removed from the caller's values",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    if mask is not None:
        unused = ~mask.expand(scores.shape).any(dim=-2)
        value.data[unused] = 0
    return used @ value, weights


@wrong(
    "takes scores of zero for padding if there is no mask",
    breaks=NONE,
    name="a score that happens to be zero is masked",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is None:
        mask = scores != 0
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights
