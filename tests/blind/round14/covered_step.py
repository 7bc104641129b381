import math

import torch

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
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
WEIGHTS = r"\alpha_{ts} &= \mathrm{softmax}_s\, (e_{ts} - \gamma\, \mathrm{cov}_{t-1,s}) \\"
COVERAGE = (
    r"\mathrm{cov}_{ts} &= \mathrm{cov}_{t-1,s} + \alpha_{ts}, \qquad \mathrm{cov}_{0s}"
    r" = 0"
)
BEFORE = "Lower the scores before the softmax."
EARLIER = "Lower the scores by the coverage of the earlier steps only."
RETURNED = "The coverage that you return also contains the weights of this step."
AXIS = "The coverage has no such axis: its shape is (B, S)."
SEARCH = (
    "A search may continue from the same coverage with several different tokens, so do"
    " not change the coverage that you are given."
)


@right("torch.sub with alpha, and an einsum for the context")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, coverage + weights.squeeze(1)


@right("sentence by sentence, and only over the positions that are allowed")
def covered_step(scores, memory, coverage, penalty):
    contexts, rows = [], []
    for b in range(len(scores)):
        place = memory.mask[b, 0].nonzero()[:, 0]
        e = scores[b, 0, place] - penalty * coverage[b, place]
        share = torch.softmax(e, dim=0)
        contexts.append(share @ memory.value[b, place])
        rows.append(torch.zeros_like(scores[b, 0]).index_put((place,), share))
    weights = torch.stack(rows)
    return torch.stack(contexts)[:, None], weights[:, None], coverage + weights


@right("everything in float64, with a softmax of its own")
def covered_step(scores, memory, coverage, penalty):
    allowed = memory.mask[:, 0]
    e = scores[:, 0].double() - coverage.double() * penalty
    e = e.masked_fill(~allowed, -math.inf)
    peak = e.detach().amax(dim=1, keepdim=True)
    powers = (e - peak.masked_fill(peak == -math.inf, 0)).exp()
    total = powers.sum(dim=1, keepdim=True)
    alpha = powers / total.masked_fill(total == 0, 1)
    context = (alpha.unsqueeze(-1) * memory.value.double()).sum(dim=1, keepdim=True)
    return (
        context.to(memory.value.dtype),
        alpha[:, None].to(scores.dtype),
        (coverage.double() + alpha).to(coverage.dtype),
    )


@right("adds the coverage to the weights as a batch of matrices and sums over an axis")
def covered_step(scores, memory, coverage, penalty):
    covered = coverage[:, None]
    factors = torch.tensor([1.0, -float(penalty)], dtype=torch.float64)
    factors = factors.to(scores.device)
    pair = torch.stack((scores, covered), dim=-1).double()
    context, weights = attend(
        (pair @ factors).to(scores.dtype), memory.value, memory.mask
    )
    return context, weights, torch.cat((covered, weights), dim=1).sum(dim=1)


@wrong(
    "subtracts the coverage (B, S) from the scores (B, 1, S) without a new axis, so that"
    " all sentences are mixed: right for one sentence",
    AXIS,
    "coverage broadcast over the batch",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage
    context, weights = attend(lowered, memory.value, memory.mask)
    return context[:, :1], weights[:, :1], coverage + weights[:, 0]


@wrong(
    "adds the weights to the given coverage in place",
    SEARCH,
    "changes the coverage in place",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "lowers the weights after the softmax, and not the scores before it",
    BEFORE,
    "lowers the weights, not the scores",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = (weights - penalty * coverage[:, None]).clamp(min=0)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "adds the weights of this step to the coverage first, and lowers the scores by all"
    " of it",
    EARLIER,
    "coverage already contains this step",
)
def covered_step(scores, memory, coverage, penalty):
    coverage = coverage + masked_softmax(scores, memory.mask)[:, 0]
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage


@wrong(
    "a short cut for a penalty of 0 returns the coverage as it came",
    RETURNED,
    "coverage not updated without penalty",
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        context, weights = attend(scores, memory.value, memory.mask)
        return context, weights, coverage
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "lets no coverage exceed one, as if it were a probability",
    COVERAGE,
    "coverage clamped at one",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)


@wrong(
    "squeezes all axes of the weights: for a source of one token and several sentences,"
    " (B, 1) plus (B,) is (B, B)",
    LENGTHS,
    "squeeze breaks sources of one token",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    "detaches the coverage, so that no gradient reaches the weights of earlier steps",
    GRADS,
    "no gradient through the coverage",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage.detach()[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "divides the coverage by its sum, so that it is a share: right after the first step,"
    " because the sum is then one",
    WEIGHTS,
    "coverage normalised to one",
)
def covered_step(scores, memory, coverage, penalty):
    total = coverage.sum(dim=-1, keepdim=True)
    share = coverage / total.masked_fill(total == 0, 1)
    lowered = scores - penalty * share[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds up in float32 to be more precise in bfloat16, and returns this coverage: it is"
    " float32 there",
    DTYPE,
    "coverage stays in float32",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None].to(scores.dtype)
    context, weights = attend(lowered, memory.value, memory.mask)
    total = torch.promote_types(coverage.dtype, torch.float32)
    return context, weights, coverage.to(total) + weights[:, 0]
