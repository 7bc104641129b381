"""Answers to attend."""

import math
import warnings

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.lab03_scoring.masked_softmax import masked_softmax
from answers.lab03_scoring.shapes import draw, masks, shapes
from answers.signs import (
    CUT,
    FACTOR,
    FITS,
    NAN,
    NONE,
    WEIGHT,
)
from torch import nn

from nbjudge.question import Request


@wide("attend")
def any_memory(g):
    for leading, t, s, d in shapes(g):
        for mask in masks(g, *leading, t, s):
            inputs = (draw(g, *leading, t, s), draw(g, *leading, s, d), mask)
            yield Request((*inputs, None), gradients=True)
            yield Request(
                (*inputs, torch.rand(*leading, t, s, generator=g).round() * 2),
                gradients=True,
            )


def attends(make_context):
    def attend(scores, value, mask=None, dropout=None):
        weights = masked_softmax(scores, mask)
        return (
            make_context(weights if dropout is None else dropout(weights), value),
            weights,
        )

    attend.__name__ = make_context.__name__
    return attend


@right("attend")
@attends
def product_of_matrices(weights, value):
    return weights @ value


@right("attend")
@attends
def contracted(weights, value):
    return torch.einsum("...ts,...sv->...tv", weights, value)


@right("attend")
@attends
def shares_added_up(weights, value):
    return (weights.unsqueeze(-1) * value.unsqueeze(-3)).sum(-2)


@right("attend")
@attends
def one_query_at_a_time(weights, value):
    return torch.stack(
        [(row.unsqueeze(-1) * value).sum(-2) for row in weights.unbind(-2)], dim=-2
    )


@right("attend")
@attends
def one_value_at_a_time(weights, value):
    context = 0
    for s in range(value.size(-2)):
        context = context + weights[..., s : s + 1] * value[..., s : s + 1, :]
    return context


@right("attend")
@attends
def turned_and_back(weights, value):
    return (value.mT @ weights.mT).mT


@right("attend")
@attends
def in_batches(weights, value):
    return torch.bmm(weights.flatten(0, -3), value.flatten(0, -3)).view(
        *weights.shape[:-1], value.size(-1)
    )


@right("attend")
@attends
def one_direction_at_a_time(weights, value):
    return torch.stack(
        [(weights * v.unsqueeze(-2)).sum(-1) for v in value.unbind(-1)], dim=-1
    )


@right("attend")
@attends
def one_sentence_at_a_time(weights, value):
    return torch.stack([w @ v for w, v in zip(weights, value)])


@right("attend")
@attends
def one_product_per_query(weights, value):
    return torch.cat([w @ value for w in weights.split(1, dim=-2)], dim=-2)


@right("attend")
def identity_for_no_dropout(scores, value, mask=None, dropout=None):
    warnings.warn("mind the order", stacklevel=1)
    weights = masked_softmax(scores, mask=mask)
    drop = dropout or nn.Identity()
    return [torch.matmul(drop(weights).clone(), value), weights]


@wrong("attend", "the outputs in another order", "weights first, context second")
def weights_first(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    return weights, kept @ value


@wrong("attend", "too much or too little is returned")
def context_alone(scores, value, mask=None, dropout=None):
    return masked_softmax(scores, mask) @ value


@wrong("attend", WEIGHT, "mask not passed on")
def mask_forgotten(scores, value, mask=None, dropout=None):
    weights = torch.softmax(scores, dim=-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("attend", NONE)
def dropout_always(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return dropout(weights) @ value, weights


@wrong("attend", "weights returned after dropout")
def thinned_weights(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights


@wrong("attend", "dropout not applied")
def dropout_ignored(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return torch.einsum("...ts,...sv->...tv", weights, value), weights


@wrong("attend", FITS)
def value_turned(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return weights @ value.mT, weights


@wrong("attend", "the context is no weighted sum of the values", FACTOR)
def averaged(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return (weights if dropout is None else dropout(weights)) @ value / value.size(
        -2
    ), weights


@wrong(
    "attend",
    "scores, where weights are meant",
    "the context is no weighted sum of the values",
)
def scores_times_values(scores, value, mask=None, dropout=None):
    return torch.einsum("...ts,...sv->...tv", scores, value), masked_softmax(
        scores, mask
    )


@wrong(
    "attend",
    "the weights returned are not those that made the context",
    "scores returned, where weights are meant",
)
def scores_returned(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return (dropout(weights) if dropout else weights) @ value, scores


@wrong("attend", CUT)
def weights_cut_off(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask).detach()
    return (dropout(weights) if dropout else weights) @ value, weights


@wrong("attend", "mask inverted", WEIGHT)
def mask_turned_around(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, None if mask is None else ~mask)
    return (dropout(weights) if dropout else weights) @ value, weights


@wrong("attend", "the context is no weighted sum of the values", "dropout not applied")
def dropout_on_the_context(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    return (context if dropout is None else F.dropout(context, 0.5)), weights


@wrong("attend")
def softmax_twice(scores, value, mask=None, dropout=None):
    weights = masked_softmax(masked_softmax(scores, mask), mask)
    return (dropout(weights) if dropout else weights) @ value, weights


@wrong("attend", "dropout not applied", "the context is no weighted sum of the values")
def scores_dropped(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    thinned = weights if dropout is None else masked_softmax(dropout(scores), mask)
    return thinned @ value, weights


@wrong("attend", "the context is no weighted sum of the values")
def weights_by_name(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = dropout(weights) if dropout else weights
    return kept @ value.flip(-2), weights


@wrong("attend", NAN)
def softmax_of_its_own(scores, value, mask=None, dropout=None):
    weights = (
        scores if mask is None else scores.masked_fill(~mask, -math.inf)
    ).softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("attend", WEIGHT)
def softmax_of_low_scores(scores, value, mask=None, dropout=None):
    weights = (
        scores
        if mask is None
        else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    ).softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights
