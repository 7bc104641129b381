import math

import torch
from torch import nn

from attention_course.attention import masked_softmax
from attention_course.masks import padding_mask
from attention_course.scores import Score

from blind import right, wrong


@right("einsum; no dropout is an Identity")
def attend(scores, value, mask=None, dropout=None):
    drop = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask=mask)
    return torch.einsum("...sd,...ts->...td", value, drop(weights)), weights


@right("all products at once in float64, summed over the positions")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
    products = used.double().unsqueeze(-1) * value.double().unsqueeze(-3)
    return products.sum(dim=-2).to(value.dtype), weights


@right("adds up one position after the other")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights)
    context = 0
    for s in range(value.size(-2)):
        context = context + shares[..., s : s + 1] * value[..., s : s + 1, :]
    return context, weights


@right("the transposed product, flattened for bmm, with a helper inside")
def attend(scores, value, mask=None, dropout=None):
    def three(x):
        return x.reshape(-1, x.size(-2), x.size(-1))

    weights = masked_softmax(scores, mask)
    kept = dropout(weights) if dropout is not None else weights
    context = torch.bmm(three(value).mT, three(kept).mT).mT
    return context.reshape(*scores.shape[:-1], value.size(-1)), weights


@wrong(
    "returns the weights first",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout",
    "results exchanged",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return weights, dropped @ value


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
    "does not hand the mask on",
    "mask: True = may attend, broadcastable to `scores`; None allows everything.",
    "mask ignored",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights


@wrong(
    "calls dropout on the scores, before the softmax",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout on the scores",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores), mask) @ value, weights


@wrong(
    "has a softmax of its own, with minus infinity: a query that may attend to nothing"
    " gets nan",
    "zero for a query that may attend to nothing.",
    "nan where nothing is allowed",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights


@wrong(
    "reads the rate of the module and drops by itself: a module that is not"
    " nn.Dropout, such as one without p, is not called",
    "Call it on the weights, and compute the context from what it returns.",
    "does not call the module",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    dropped = nn.functional.dropout(weights, dropout.p, dropout.training)
    return dropped @ value, weights


@wrong(
    "makes the weights sum to one again after dropout: right in eval mode only",
    "Call it on the weights, and compute the context from what it returns.",
    "renormalises after dropout",
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
    "detaches the weights that it returns, as they are only looked at: a loss on the"
    " weights has no gradient",
    "Gradients must be right, too.",
    "weights detached",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights.detach()


@wrong(
    "uses torch.bmm, which takes three axes only: it fails for (T, S) and (B, H, T, S)",
    "Your code must work in all three cases.",
    "three axes only",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return torch.bmm(dropped, value), weights


@wrong(
    "computes the context in float32 and does not go back",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "context always float32",
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return dropped.float() @ value.float(), weights
