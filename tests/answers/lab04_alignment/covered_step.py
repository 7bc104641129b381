"""Answers to covered_step."""

import sys

import torch
from answers.core import draw, right, wide, wrong, wrong_edits
from answers.lab04_alignment.shared import exponentials, sizes  # noqa: F401
from answers.signs import CUT, DTYPE, IN_PLACE, NAN, NOTHING, ONE_AXIS, ORDER, WEIGHT

from attention_course.attention import attend, masked_softmax
from nbjudge import edit
from nbjudge.question import Request

REWARD, IGNORED = (
    "the penalty is added instead of subtracted",
    "the coverage is ignored",
)
OTHER = "the wrong coverage is returned"


@wide("covered_step")
def any_step(g):
    for b, s, e, *_ in sizes(g):
        for share, penalty in ((0.4, 0.5), (0.8, 2), (1.0, 0)):
            mask = torch.rand(b, 1, s, generator=g) < share
            mask[:, :, 0] = True
            coverage = draw(g, b, s).square() * mask[:, 0]
            inputs = (draw(g, b, 1, s), draw(g, b, s, e), mask, coverage, penalty)
            yield Request(inputs, gradients=True)


@right("covered_step")
def three_lines(scores, memory, coverage, penalty):
    scores = scores - penalty * coverage.unsqueeze(1)
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze(1)


@right("covered_step")
def by_softmax(scores, memory, coverage, penalty):
    weights = masked_softmax(scores - coverage[:, None] * penalty, memory.mask)
    return weights @ memory.value, weights, weights[:, 0] + coverage


@right("covered_step")
def without_the_axis(scores, memory, coverage, penalty):
    lowered = scores[:, 0] - penalty * coverage
    weights = masked_softmax(lowered, memory.mask[:, 0])
    context = (weights[..., None] * memory.value).sum(1)
    return context[:, None], weights[:, None], coverage + weights


@right("covered_step")
def filled_with_a_low_number(scores, memory, coverage, penalty):
    lowest = torch.finfo(scores.dtype).min
    lowered = scores - (penalty * coverage)[:, None, :]
    weights = lowered.masked_fill(~memory.mask, lowest).softmax(dim=-1)
    return torch.bmm(weights, memory.value), weights, coverage + weights[:, 0, :]


@right("covered_step")
def with_einsum(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage[:, None], alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, torch.einsum("bts->bs", weights) + coverage


@right("covered_step")
def summed_over_the_axis(scores, memory, coverage, penalty):
    print("coverage", coverage.shape, file=sys.stderr)
    context, weights = attend(
        scores + (-penalty) * coverage[:, None], memory.value, memory.mask
    )
    return context, weights, torch.cat([coverage[:, None], weights], dim=1).sum(dim=1)


@right("covered_step")
def with_exponentials(scores, memory, coverage, penalty):
    lowered = (scores - penalty * coverage[:, None]).masked_fill(~memory.mask, -1e30)
    e = (lowered - lowered.amax(-1, keepdim=True)).exp()
    weights = e / e.sum(-1, keepdim=True)
    return weights.matmul(memory.value), weights, coverage.add(weights.flatten(1))


@right("covered_step")
def with_minus_infinity(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    weights = torch.where(memory.mask, lowered, -torch.inf).softmax(-1)
    return (memory.value.mT @ weights.mT).mT, weights, coverage + weights[:, -1]


@right("covered_step")
def sentence_by_sentence(scores, memory, coverage, penalty):
    contexts, weights = [], []
    for b in range(len(scores)):
        lowered = scores[b] - penalty * coverage[b]
        context, row = attend(lowered, memory.value[b], memory.mask[b])
        contexts.append(context)
        weights.append(row)
    weights = torch.stack(weights)
    return torch.stack(contexts), weights, coverage + weights[:, 0]


@right("covered_step")
def by_log_softmax(scores, memory, coverage, penalty):
    lowest = torch.finfo(scores.dtype).min
    lowered = torch.where(memory.mask, scores - penalty * coverage[:, None], lowest)
    weights = lowered.log_softmax(-1).exp()
    context = (weights.mT * memory.value).sum(1, keepdim=True)
    return context, weights, coverage + weights.sum(1)


@right("covered_step")
def with_views(scores, memory, coverage, penalty):
    b, _, s = scores.shape
    lowered = scores.reshape(b, s) - coverage * penalty
    context, weights = attend(lowered.reshape(b, 1, s), memory.value, memory.mask)
    return context, weights, coverage + weights.reshape(b, s)


@wrong("covered_step", "the coverage is broadcast across the batch")
def stretched(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong("covered_step", IN_PLACE)
def added_in_place(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    coverage += weights[:, 0].detach()
    return context, weights, coverage


@wrong("covered_step", "penalty subtracted from the weights, not the scores")
def lowered_weights(scores, memory, coverage, penalty):
    _, weights = attend(scores, memory.value, memory.mask)
    weights = weights - penalty * coverage[:, None]
    return weights @ memory.value, weights, coverage + weights[:, 0]


SUM = "coverage + weights.squeeze(1)"
LOWERED = "scores - penalty * coverage.unsqueeze(1)"
ATTEND = "context, weights = attend(scores, memory.value, memory.mask)"
WEIGHTS = "weights = {}\n    context = weights @ memory.value"
wrong_edits(
    "covered_step",
    three_lines,
    added=(edit(three_lines, "scores - penalty", "scores + penalty"), REWARD),
    forgotten=(edit(three_lines, f"scores = {LOWERED}", "pass"), IGNORED),
    with_the_axis=(
        edit(three_lines, SUM, "coverage.unsqueeze(1) + weights"),
        ONE_AXIS,
    ),
    mask_forgotten=(edit(three_lines, ", memory.mask)", ")"), WEIGHT),
    weights_first=(
        edit(three_lines, "return context, weights,", "return weights, context,"),
        ORDER,
    ),
    cut_off=(
        edit(three_lines, "penalty * coverage", "penalty * coverage.detach()"),
        CUT,
    ),
    filled_too_high=(
        edit(
            three_lines,
            ATTEND,
            WEIGHTS.format("scores.masked_fill(~memory.mask, -1e9).softmax(-1)"),
        ),
        WEIGHT,
    ),
    forbidden_scores_overflow=(
        edit(three_lines, ATTEND, WEIGHTS.format("exponentials(scores, memory.mask)")),
        NAN,
    ),
    no_more_than_five=(edit(three_lines, "- penalty", "- min(penalty, 5)"),),
    nothing_learnt_without_a_penalty=(
        edit(
            three_lines,
            "penalty * coverage",
            "penalty * (coverage if penalty else coverage.detach())",
        )
        & edit(
            three_lines,
            SUM,
            "(coverage if penalty else coverage.detach()) + weights.squeeze(1)",
        ),
        CUT,
    ),
    averaged=(edit(three_lines, SUM, f"({SUM}) / 2"), OTHER),
    clamped=(
        edit(three_lines, SUM, f"({SUM}).clamp(max=1)"),
        OTHER,
        "the coverage is limited to one",
    ),
    largest_so_far=(
        edit(three_lines, SUM, "torch.maximum(coverage, weights.squeeze(1))"),
        OTHER,
    ),
    normalized=(
        edit(three_lines, "coverage.unsqueeze(1)", "coverage.softmax(-1).unsqueeze(1)"),
    ),
    in_single_precision=(edit(three_lines, SUM, f"({SUM}).float()"), DTYPE),
    not_returned=(edit(three_lines, "return ", ""), NOTHING),
    mean_of_values=(
        edit(three_lines, "return context,", "return memory.value.mean(1, True),"),
        "the weights are right, the context is wrong",
    ),
)
