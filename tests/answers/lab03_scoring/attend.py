"""Answers to attend."""

import warnings

import torch
from answers.core import right, wide, wrong_edits
from answers.lab03_scoring.masked_softmax import masked_softmax
from answers.lab03_scoring.shared import draw, masks, shapes
from answers.signs import AXES, CUT, FACTOR, FITS, NAN, NONE, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import attend
from nbjudge import Request, edit


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
    t, (s, v) = weights.size(-2), value.shape[-2:]
    contexts = torch.bmm(weights.reshape(-1, t, s), value.reshape(-1, s, v))
    return contexts.reshape(*weights.shape[:-1], v)


@right("attend")
@attends
def one_direction_at_a_time(weights, value):
    return torch.stack(
        [(weights * v.unsqueeze(-2)).sum(-1) for v in value.unbind(-1)], dim=-1
    )


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


SOFTMAX = "masked_softmax(scores, mask)"
FILLED = "(scores if mask is None else scores.masked_fill(~mask, {})).softmax(-1)"
KEPT = "(weights if dropout is None else dropout(weights))"
NO_SUM = "the weights are right, the context is wrong"
wrong_edits(
    "attend",
    context_alone=(edit(attend, "context, weights", "context"), TOO_MUCH),
    dropout_always=(edit(attend, KEPT, "dropout(weights)"), NONE),
    value_turned=(edit(attend, "@ value", "@ value.mT"), FITS),
    averaged=(edit(attend, "@ value", "@ value / value.size(-2)"), NO_SUM, FACTOR),
    weights_by_name=(edit(attend, "@ value", "@ value.flip(-2)"), NO_SUM),
    weights_cut_off=(edit(attend, SOFTMAX, f"{SOFTMAX}.detach()"), CUT),
    mask_turned_around=(
        edit(
            attend, SOFTMAX, "masked_softmax(scores, None if mask is None else ~mask)"
        ),
        "mask inverted",
        WEIGHT,
    ),
    dropout_on_the_context=(
        edit(attend, KEPT, "weights")
        & edit(
            attend, "return context", "return F.dropout(context, 0.5 * bool(dropout))"
        ),
        NO_SUM,
        "dropout not applied",
    ),
    weights_detached_for_dropout=(
        edit(attend, "dropout(weights)", "dropout(weights.detach())"),
        CUT,
    ),
    value_detached_under_dropout=(
        edit(attend, "@ value", "@ (value if dropout is None else value.detach())"),
        CUT,
    ),
    no_dropout_for_one_query=(
        edit(attend, "dropout is None", "dropout is None or scores.size(-2) == 1"),
        NO_SUM,
    ),
    bmm_after_dropout=(
        edit(
            attend,
            f"{KEPT} @ value",
            "weights @ value if dropout is None else torch.bmm(dropout(weights), value)",
        ),
        "torch.bmm takes exactly three axes",
        FITS,
        AXES,
    ),
    mask_put_behind_the_first_axis=(
        edit(
            attend,
            "weights = ",
            "mask = mask.unsqueeze(1) if mask is not None and mask.dim() < scores.dim()"
            " else mask\n    weights = ",
        ),
        FITS,
    ),
    masks_of_heads_for_sentences=(
        edit(
            attend,
            "weights = ",
            "mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 and"
            " scores.dim() == 4 else mask\n    weights = ",
        ),
        FITS,
    ),
    softmax_twice=(edit(attend, SOFTMAX, f"masked_softmax({SOFTMAX}, mask)"),),
    scores_dropped=(
        edit(
            attend,
            "else dropout(weights)",
            "else masked_softmax(dropout(scores), mask)",
        ),
        "dropout not applied",
        NO_SUM,
    ),
    softmax_of_its_own=(
        edit(attend, SOFTMAX, FILLED.format("-torch.inf")),
        NAN,
        "masked scores set to minus infinity",
    ),
    softmax_of_low_scores=(
        edit(attend, SOFTMAX, FILLED.format("torch.finfo(scores.dtype).min")),
        WEIGHT,
    ),
)
