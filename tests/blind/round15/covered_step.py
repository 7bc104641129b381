import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."

SHAPES = (
    "Scores and weights have an axis for the target position. The coverage has no such"
    " axis: its shape is (B, S)."
)
EARLIER = "Lower the scores by the coverage of the earlier steps only."
ALSO = "The coverage that you return also contains the weights of this step."
RUNS = "The softmax runs over the positions that the memory's mask allows."
SAME = (
    "A search may continue from the same coverage with several different tokens, so do"
    " not change the coverage that you are given."
)
SUM = (
    "The **coverage** $\\mathrm{cov}_{ts}$ of source position $s$ is the sum of the"
    " weights that it has received in all steps up to step $t$."
)


@wrong(
    "subtracts (B, S) from (B, 1, S): all sentences get the coverage of the first",
    breaks=SHAPES,
    name="coverage without the axis of the target position",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = (scores - penalty * coverage)[:, :1]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds this step's weights first and then lowers the scores by all of it",
    breaks=EARLIER,
    name="this step's weights lower its own scores",
)
def covered_step(scores, memory, coverage, penalty):
    coverage = coverage + masked_softmax(scores, memory.mask)[:, 0]
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage


@wrong(
    "adds the weights to the coverage in place",
    breaks=SAME,
    name="changes the given coverage",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "adds the weights of the scores that have not been lowered",
    breaks=SUM,
    name="counts other weights than those it returns",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + masked_softmax(scores, memory.mask)[:, 0]


@wrong(
    "returns the old coverage if the penalty is 0",
    breaks=ALSO,
    name="no coverage without a penalty",
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        return *attend(scores, memory.value, memory.mask), coverage
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "softmax over all positions, then times the mask",
    breaks=RUNS,
    name="masks the weights, not the scores",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    weights = lowered.softmax(dim=-1) * memory.mask
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "adds up in float32 and returns this",
    breaks=DTYPE,
    name="the coverage is always float32",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None].to(scores.dtype)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage.float() + weights[:, 0].float()


@wrong(
    "takes the coverage for a mere count and detaches the weights",
    breaks=GRADIENTS,
    name="no gradient through the coverage",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0].detach()


@wrong(
    "limits the coverage to 1: a position cannot be more than read",
    breaks=SUM,
    name="coverage limited to 1",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1.0)


@wrong(
    "squeeze() of the weights: with S = 1, (B, 1) plus (B,) is (B, B)",
    breaks=LENGTHS,
    name="squeeze removes the axis of a single source position",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@right("everything with two axes, einsum for the context, axes put back at the end")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores.squeeze(1), coverage, alpha=float(penalty))
    weights = masked_softmax(lowered, memory.mask.squeeze(1))
    context = torch.einsum("bs,bse->be", weights, memory.value)
    return context.unsqueeze(1), weights.unsqueeze(1), torch.add(coverage, weights)


@right("sentence by sentence")
def covered_step(scores, memory, coverage, penalty):
    results = []
    for b in range(scores.shape[0]):
        lowered = scores[b] - penalty * coverage[b]
        context, weights = attend(lowered, memory.value[b], memory.mask[b])
        results.append((context, weights, coverage[b] + weights[0]))
    return tuple(torch.stack(parts) for parts in zip(*results))


@right("float64 inside and back")
def covered_step(scores, memory, coverage, penalty):
    seen = coverage.double().unsqueeze(1)
    weights = masked_softmax(scores.double() - seen * penalty, memory.mask)
    context = torch.bmm(weights, memory.value.double())
    following = (seen + weights).squeeze(1)
    return (
        context.to(memory.value.dtype),
        weights.to(scores.dtype),
        following.to(coverage.dtype),
    )


@right("softmax by hand in float64, context as a weighted sum of the values")
def covered_step(scores, memory, coverage, penalty):
    mask = memory.mask.expand_as(scores)
    empty = ~mask.any(dim=-1, keepdim=True)
    lowered = scores.double() - coverage.double().reshape(scores.shape) * penalty
    lowered = torch.where(mask | empty, lowered, -math.inf)
    weights = torch.exp(lowered - lowered.logsumexp(dim=-1, keepdim=True))
    weights = torch.where(empty, torch.zeros_like(weights), weights).to(scores.dtype)
    context = (weights.mT * memory.value).sum(dim=1, keepdim=True)
    return context, weights, torch.stack([coverage, weights[:, 0]]).sum(dim=0)
