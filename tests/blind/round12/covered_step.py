import math

import torch
from torch import nn

from attention_course.attention import attend, masked_softmax

from blind import right, wrong


@right("its own softmax by logsumexp with minus infinity, bmm for the context")
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - coverage.unsqueeze(1) * penalty
    lowered = lowered.masked_fill(~memory.mask, -math.inf)
    weights = (lowered - lowered.logsumexp(dim=-1, keepdim=True)).exp()
    return torch.bmm(weights, memory.value), weights, coverage + weights.squeeze(1)


@right("a loop over the sentences, each without its padding")
def covered_step(scores, memory, coverage, penalty):
    contexts, rows = [], []
    for e, value, mask, seen in zip(scores, memory.value, memory.mask, coverage):
        allowed = mask[0].nonzero()[:, 0]
        alpha = (e[0, allowed] - penalty * seen[allowed]).softmax(dim=0)
        contexts.append((alpha[:, None] * value[allowed]).sum(dim=0, keepdim=True))
        rows.append(torch.zeros_like(seen).index_add(0, allowed, alpha))
    weights = torch.stack(rows)
    return torch.stack(contexts), weights[:, None], coverage + weights


@right("float64 inside, einsum, and cast back at the end")
def covered_step(scores, memory, coverage, penalty):
    wide = scores[:, 0].double() - float(penalty) * coverage.double()
    alpha = masked_softmax(wide[:, None], memory.mask)[:, 0]
    context = torch.einsum("bs,bse->be", alpha, memory.value.double())
    return (
        context[:, None].to(memory.value.dtype),
        alpha[:, None].to(scores.dtype),
        (coverage.double() + alpha).to(coverage.dtype),
    )


@right("torch.add with alpha, and a helper that counts the new coverage as a sum over two steps")
def covered_step(scores, memory, coverage, penalty):
    def total(*steps):
        return torch.stack(steps, dim=1).sum(dim=1)

    lowered = torch.add(scores, coverage[:, None], alpha=-penalty)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, total(weights.select(1, 0), coverage)


@wrong(
    "raises the scores of positions that have been read",
    r"The next step lowers the score of each position by $\gamma$ times its coverage:",
    "the wrong sign",
)
def covered_step(scores, memory, coverage, penalty):
    scores = scores + penalty * coverage[:, None]
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "lowers the weights after the softmax, and cuts them off at zero",
    "Lower the scores before the softmax.",
    "the penalty comes after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = (weights - penalty * coverage[:, None]).clamp(min=0)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "takes the softmax over all positions and sets the padding to zero afterwards, so that the weights of a padded sentence do not sum to one",
    "The softmax runs over the positions that the memory's mask allows.",
    "the mask comes after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = (scores - penalty * coverage[:, None]).softmax(dim=-1) * memory.mask
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "lowers the scores by a coverage to which this step's unpenalised weights have already been added",
    "Lower the scores by the coverage of the earlier steps only.",
    "the penalty contains this step",
)
def covered_step(scores, memory, coverage, penalty):
    ahead = coverage[:, None] + masked_softmax(scores, memory.mask)
    context, weights = attend(scores - penalty * ahead, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds the weights to the coverage in place",
    "A search may continue from the same coverage with several different tokens, so do not change the coverage that you are given.",
    "changes the coverage in place",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None].clone()
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "returns early if the penalty is 0, with the coverage as it was",
    "The coverage that you return also contains the weights of this step.",
    "no coverage is counted if the penalty is 0",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    if penalty == 0:
        return *attend(scores, memory.value, memory.mask), coverage
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "limits the coverage to 1, although a position may get more than that in several steps",
    r"The **coverage** $\mathrm{cov}_{ts}$ of source position $s$ is the sum of the weights that it has received in all steps up to step $t$.",
    "the coverage is cut off at 1",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)


@wrong(
    "squeeze() without an axis: with B > 1 sentences of a single position, the weights become (B,) and the coverage (B, B)",
    "The coverage has no such axis: its shape is (B, S).",
    "squeeze removes the axis of the source positions, too",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    "makes a float32 tensor of penalties, which turns bfloat16 weights into float32 ones; the context and the coverage are cast back, the weights are not",
    "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    "weights have the wrong dtype",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    penalties = torch.full(coverage.shape, float(penalty), device=coverage.device)
    lowered = scores - (penalties * coverage)[:, None]
    weights = masked_softmax(lowered, memory.mask)
    context = weights.to(memory.value.dtype) @ memory.value
    return context, weights, coverage + weights[:, 0].to(coverage.dtype)


@wrong(
    "multiplies exponentials by exp(-penalty * coverage) instead of subtracting: scores of 100 overflow to infinity",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "the softmax overflows",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    shares = scores.exp() * (-penalty * coverage[:, None]).exp() * memory.mask
    weights = shares / shares.sum(dim=-1, keepdim=True)
    return weights @ memory.value, weights, coverage + weights[:, 0]
