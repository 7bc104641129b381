import torch
import torch.nn.functional as F
from attention_course.attention import masked_softmax
from torch import nn

from blind import right, wrong


@right("einsum with an ellipsis")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights
    if dropout is not None:
        kept = dropout(weights)
    return torch.einsum("...sv,...ts->...tv", value, kept), weights


@right("a loop over the source, whose weighted values are added up")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    context = 0
    for s in range(value.size(-2)):
        context = context + dropped[..., s : s + 1] * value[..., s : s + 1, :]
    return context, weights


@right("nn.Identity for no dropout; a transposed product in float64")
def attend(scores, value, mask=None, dropout=None):
    drop = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask=mask)
    turned = value.double().mT @ drop(weights).double().mT
    return turned.mT.to(value.dtype), weights


@right("all weighted values at once by broadcasting, summed over the source")
def attend(scores, value, mask=None, dropout=None):
    def look(shares):
        return (shares.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)

    weights = masked_softmax(scores, mask)
    if dropout is None:
        return look(weights), weights
    return look(dropout(weights)), weights


@wrong(
    "returns the weights after dropout",
    "Return the weights as they were *before* dropout, because we want to look at them.",
    "returns dropped weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "drops entries of the context instead of weights",
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
    "drops scores before the softmax, so a dropped position has the score 0",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout on the scores",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores), mask) @ value, weights


@wrong(
    "returns the weights first and the context second",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are zero"
    " for a query that may attend to nothing.",
    "results in the wrong order",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return weights, dropped @ value


@wrong(
    "detaches the weights that it returns: a loss on the weights has no gradient",
    "Gradients must be right, too.",
    "returned weights without gradients",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights.detach()


@wrong(
    "divides the weights by their sum after dropout, so that they sum to one again",
    "Call it on the weights, and compute the context from what it returns.",
    "normalises again after dropout",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    dropped = dropout(weights)
    total = dropped.sum(dim=-1, keepdim=True)
    dropped = dropped / total.masked_fill(total == 0, 1)
    return dropped @ value, weights


@wrong(
    "does not call the module, but F.dropout with its p and mode: a module of another"
    " kind (one without p, or one that drops in its own way) is an error or ignored",
    "If `dropout` is not None, it is a module that returns a new tensor. Call it on the"
    " weights, and compute the context from what it returns.",
    "F.dropout instead of the module",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None:
        dropped = F.dropout(weights, dropout.p, dropout.training)
    return dropped @ value, weights


@wrong(
    "calls the module in train mode only: nn.Dropout does nothing in eval mode anyway,"
    " but a module that scales or drops in eval mode too is skipped",
    "If `dropout` is not None, it is a module that returns a new tensor. Call it on the"
    " weights, and compute the context from what it returns.",
    "module not called in eval mode",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None and dropout.training:
        dropped = dropout(weights)
    return dropped @ value, weights


@wrong(
    "uses torch.bmm, which takes three axes: an error for (T, S) and for (B, H, T, S)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases.",
    "bmm takes one batch axis only",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return torch.bmm(dropped, value), weights


@wrong(
    "computes the context in float32 and leaves it so: float64 and bfloat16 values give"
    " a float32 context",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "context always float32",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return dropped.float() @ value.float(), weights
