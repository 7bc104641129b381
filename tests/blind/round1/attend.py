from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(dim=-1).masked_fill(~mask, 0.0)


@right('einsum')
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights)
    return torch.einsum('...ts,...sv->...tv', shares, value), weights


@right('source position by source position')
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    shares = dropout(weights) if dropout is not None else weights
    context = 0
    for share, v in zip(shares.unbind(-1), value.unbind(-2)):
        context = context + share.unsqueeze(-1) * v.unsqueeze(-2)
    return context, weights


@right('turned round: (V^T A^T)^T, with a copy handed to dropout')
def attend(scores, value, mask=None, dropout=None):

    call = nn.Identity() if dropout is None else dropout
    weights = masked_softmax(scores, mask)
    return (value.mT @ call(weights.clone()).mT).mT, weights


@right('shares stretched out and summed')
def attend(scores, value, mask=None, dropout=None):

    def shares_of(weights):
        return weights if dropout is None else dropout(weights)

    weights = masked_softmax(scores=scores, mask=mask)
    context = (shares_of(weights).unsqueeze(-1) * value.unsqueeze(-3)).sum(-2)
    return context, weights


@wrong(
    'returns the weights after dropout',
    breaks='The weights that you *return* are those before it: somebody wants to look at them.',
    name='weights after dropout returned',
    subtle=False,
)
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    'weights first',
    breaks='The context (..., T, Dv), and the weights (..., T, S) before dropout; both are zero for a query that may attend to nothing.',
    name='order of what is returned',
    subtle=False,
)
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights)
    return weights, shares @ value


@wrong(
    'mask not handed on',
    breaks='mask: True = may attend, broadcastable to `scores`; None allows everything.',
    name='mask forgotten',
    subtle=False,
)
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores)
    shares = weights if dropout is None else dropout(weights)
    return shares @ value, weights


@wrong(
    'dropout on the context',
    breaks='`dropout`, where it is given, is a module to be called on the weights that make the context.',
    name='dropout on the context',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    context = weights @ value
    return context if dropout is None else dropout(context), weights


@wrong(
    'what dropout leaves is made to sum to one again',
    breaks='`dropout`, where it is given, is a module to be called on the weights that make the context.',
    name='renormalised after dropout',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    weights = shares = masked_softmax(scores, mask)
    if dropout is not None:
        shares = dropout(weights)
        shares = shares / shares.sum(-1, keepdim=True).clamp(min=1e-9)
    return shares @ value, weights


@wrong(
    'takes the rate from the module and drops by itself, in eval mode too',
    breaks='`dropout`, where it is given, is a module to be called on the weights that make the context.',
    name='the module is not called',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    weights = shares = masked_softmax(scores, mask)
    if dropout is not None:
        shares = F.dropout(weights, getattr(dropout, "p", 0.0))
    return shares @ value, weights


@wrong(
    'softmax of its own: nan where nothing is allowed',
    breaks='The context (..., T, Dv), and the weights (..., T, S) before dropout; both are zero for a query that may attend to nothing.',
    name='nan in a row without anything allowed',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    shares = weights if dropout is None else dropout(weights)
    return shares @ value, weights


@wrong(
    'batched product for exactly three axes',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='needs exactly one axis in front',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights)
    return torch.bmm(shares, value), weights


@wrong(
    'context of a dead row zero, its weights uniform',
    breaks='The context (..., T, Dv), and the weights (..., T, S) before dropout; both are zero for a query that may attend to nothing.',
    name='uniform weights where nothing is allowed',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    low, dead = scores, None
    if mask is not None:
        low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        dead = ~mask.any(-1, keepdim=True)
    weights = low.softmax(-1)
    context = (weights if dropout is None else dropout(weights)) @ value
    return context if dead is None else context.masked_fill(dead, 0.0), weights


@wrong(
    'no axis for the queries in the values: right without a batch, or for a batch of one',
    breaks='$$c_t = \\sum_s \\alpha_{ts} v_s$$',
    name='values of another sentence by broadcasting',
    subtle=True,
)
def attend(scores, value, mask=None, dropout=None):

    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights)
    return (shares.unsqueeze(-1) * value).sum(-2), weights
