import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import masked_softmax
from blind import right, wrong


@right("einsum, dropout replaced by an identity where there is none")
def attend(scores, value, mask=None, dropout=None):
    apply = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask)
    return torch.einsum("...ts,...sd->...td", apply(weights), value), weights


@right("multiplies and adds without a matrix product")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights
    if dropout is not None:
        shares = dropout(weights.clone())
    context = (shares.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
    return context, weights


@right("a loop over the source positions collects the shares")
def attend(scores, value, mask=None, dropout=None, *, softmax=masked_softmax):
    weights = softmax(scores, mask=mask)
    kept = weights if dropout is None else dropout(weights)
    context = value.new_zeros(*scores.shape[:-1], value.size(-1))
    for s in range(scores.size(-1)):
        context = context + kept[..., s, None] * value[..., None, s, :]
    return context, weights


@right("softmax written by hand inside, product of the transposed tensors")
def attend(scores, value, mask=None, dropout=None):
    if mask is None:
        mask = scores.new_ones((), dtype=torch.bool)
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(torch.where(mask, scores, lowest), dim=-1)
    weights = torch.where(mask, weights, torch.zeros_like(weights))
    used = weights if dropout is None else dropout(weights)
    return (value.mT @ used.mT).mT, weights


@wrong(
    "returns the weights after dropout: some are zero or too large where dropout is given",
    "The weights that you *return* are the weights before dropout, because we want to look at them.",
    "returns the weights after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "calls dropout on the scores: a dropped score is 0 and still gets weight, and the returned weights are changed",
    "`dropout`, where it is given, is a module to be called on the weights that make the context.",
    "dropout on the scores",
)
def attend(scores, value, mask=None, dropout=None):
    if dropout is not None:
        scores = dropout(scores)
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


@wrong(
    "returns weights and context in the wrong order",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are\n            zero for a query that may attend to nothing.",
    "weights and context exchanged",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return weights, used @ value


@wrong(
    "softmax with minus infinity: a query that may attend to nothing gets nan, in weights and context",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are\n            zero for a query that may attend to nothing.",
    "query without allowed keys gets nan",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "torch.bmm takes three axes only: raises for (T, S) and for (B, H, T, S)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    "works for exactly three axes",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return torch.bmm(used, value), weights


@wrong(
    "calls dropout only if it is in train mode: a module that also does something in eval mode is left out, and a plain function raises",
    "dropout: called on the weights that form the context, if it is not None.",
    "dropout module skipped in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None and dropout.training:
        return dropout(weights) @ value, weights
    return weights @ value, weights


@wrong(
    "takes only the rate from the module and drops by itself: in eval mode it still drops, and a module without a rate raises",
    "`dropout`, where it is given, is a module to be called on the weights that make the context.",
    "does not call the module, drops in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else F.dropout(weights, p=dropout.p)
    return used @ value, weights


@wrong(
    "calls dropout on the context: nothing to see in eval mode or with the rates 0 and 1, but in training it drops entries of the context instead of weights",
    "`dropout`, where it is given, is a module to be called on the weights that make the context.",
    "dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong(
    "divides the weights by their sum again after dropout: the same in eval mode, another context in training",
    "`dropout`, where it is given, is a module to be called on the weights that make the context.",
    "normalizes again after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    used = dropout(weights)
    total = used.sum(dim=-1, keepdim=True)
    return used / total.masked_fill(total == 0, 1) @ value, weights


@wrong(
    "removes the axis of length one from a mask (B, 1, S): right for B = 1, otherwise it raises, or for B = T query t gets the padding of sentence t",
    "mask: True = may attend, broadcastable to `scores`; None allows everything.",
    "mask loses its axis for the queries",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None and mask.dim() == 3 and mask.size(1) == 1:
        mask = mask[:, 0]
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights
