import math
import torch
from torch import nn
from blind import right, wrong


def masked_softmax(scores, mask=None):
    """Section 1 of the lab."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    low = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, low), dim=-1)
    return weights.masked_fill(~mask, 0)


# ---------------------------------------------------------------- common mistakes


@wrong(
    "returns the weights after dropout: in train mode some are 0 and the others are too large",
    "Return the weights as they were *before* dropout, because we want to look at them.",
    "returns the weights after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "forgets to pass the mask on: padding gets weight",
    "mask: True = may attend, broadcastable to `scores`; None allows everything.",
    "mask is never used",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights


@wrong(
    "calls dropout on the finished context instead of on the weights",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


# ------------------------------------------------------------------------- corners


@wrong(
    "hands the weights themselves to dropout: a module that works in place, such as nn.Dropout(0.5, inplace=True), changes the weights that are returned",
    "Return the weights as they were *before* dropout, because we want to look at them.",
    "an in-place dropout changes the returned weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return torch.matmul(dropped, value), weights


@wrong(
    "computes the context with bmm: only right with the axes (B,), an error without axes or with the axes (B, H)",
    "Your code must work in all three cases.",
    "bmm only works with one batch axis",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights.clone() if dropout is None else dropout(weights.clone())
    return torch.bmm(dropped, value), weights


@wrong(
    "squeezes the context, as a decoder has a single query: with T = 1 (or B = 1, Dv = 1) the context is not (..., T, Dv)",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are",
    "squeezes axes of length one away",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights.clone())
    return (dropped @ value).squeeze(), weights


@wrong(
    "masks with minus infinity by itself and takes a plain softmax: a query that may attend to nothing gets nan weights and a nan context",
    "zero for a query that may attend to nothing.",
    "nan for a row without allowed positions",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    dropped = weights if dropout is None else dropout(weights.clone())
    return dropped @ value, weights


# ------------------------------------------------------------------- hard to notice


@wrong(
    "takes only the rate p from the module and calls F.dropout, which drops in eval mode too (and a module without p raises)",
    "If `dropout` is not None, it is a module.",
    "drops in eval mode as well",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None:
        dropped = nn.functional.dropout(weights, p=dropout.p)
    return dropped @ value, weights


@wrong(
    "divides the dropped weights by their sum, so that they sum to one again: the context is not computed from what dropout returned; without dropout nothing can be seen",
    "Call it on the weights, and compute the context from what it returns.",
    "normalises again after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None:
        dropped = dropout(weights.clone())
        total = dropped.sum(dim=-1, keepdim=True)
        dropped = dropped / total.masked_fill(total == 0, 1)
    return dropped @ value, weights


@wrong(
    "calls dropout only if it is in train mode, and so passes over a module that does something in eval mode as well, such as one that records or scales the weights",
    "If `dropout` is not None, it is a module.",
    "dropout not called in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None and dropout.training:
        dropped = dropout(weights.clone())
    return dropped @ value, weights


# --------------------------------------------------------------------------- right


@right("einsum with an ellipsis, dropout on a copy")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights.clone()
    if dropout is not None:
        used = dropout(used)
    return torch.einsum("...ts,...sd->...td", used, value), weights


@right("all products by broadcasting, summed over the sources; Identity stands in for None")
def attend(scores, value, mask=None, dropout=None):
    dropout = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask=mask)
    used = dropout(weights * 1)
    context = (used.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)
    return context, weights


@right("a loop over the queries, dropout called once before it")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(weights.clone())
    contexts = []
    for row in used.unbind(dim=-2):
        contexts.append(torch.matmul(row.unsqueeze(-2), value).squeeze(-2))
    return torch.stack(contexts, dim=-2), weights


@right("the transposed product (V^T A^T)^T, results as a list turned into a tuple, an extra argument with a default")
def attend(scores, value, mask=None, dropout=None, softmax=None):
    softmax = masked_softmax if softmax is None else softmax
    kept = softmax(scores, mask)
    used = kept if dropout is None else dropout(kept + 0)
    results = [torch.matmul(value.mT, used.mT).mT, kept]
    return tuple(results)
