import torch

from attention_course.attention import attend, masked_softmax
from blind import right, wrong


@right("masked_softmax and a product by hand, axes removed with sum")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(-2), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = (weights.mT * memory.value).sum(dim=1, keepdim=True)
    return context, weights, coverage + weights.sum(dim=1)


@right("a loop over the sentences")
def covered_step(scores, memory, coverage, penalty):
    contexts, weights = [], []
    for e, v, m, cov in zip(scores, memory.value, memory.mask, coverage):
        c, a = attend(e - penalty * cov, v, m)
        contexts.append(c)
        weights.append(a)
    weights = torch.stack(weights)
    return torch.stack(contexts), weights, torch.add(coverage, weights[:, 0])


@right("keeps the coverage with its axis inside, and an einsum")
def covered_step(scores, memory, coverage, penalty):
    before = coverage[:, None]
    weights = masked_softmax(scores - before * penalty, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, (before + weights).squeeze(1)


@right("lowers only the allowed scores, then attends in two dimensions")
def covered_step(scores, memory, coverage, penalty):
    allowed = memory.mask[:, 0]
    lowered = torch.where(allowed, scores[:, 0] - penalty * coverage, torch.zeros_like(coverage))
    context, weights = attend(lowered[:, None], memory.value, allowed[:, None])
    return context, weights, torch.stack([coverage, weights[:, 0]]).sum(dim=0)


@wrong(
    "subtracts (B, S) from (B, 1, S): right with one sentence only, else (B, B, S)",
    "The coverage has no such axis, just as the state (B, D) has none: it is (B, S).",
    "axis missing: sentences mix",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage, memory.value, memory.mask)
    return context[:, :1], weights[:, :1], coverage + weights[:, 0]


@wrong(
    "coverage += weights: the caller's tensor grows",
    "A search may continue from the same coverage with several different tokens, so your function does not change the coverage that it is given.",
    "adds in place",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    coverage.data += weights.data[:, 0]
    return context, weights, coverage


@wrong(
    "lowers the weights after the softmax instead of the scores before it; weights may even be negative",
    "The coverage lowers the scores before the softmax, and the softmax runs over the positions that the memory's mask allows.",
    "penalty after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) - penalty * coverage[:, None] * memory.mask
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "adds a first softmax's weights to the coverage before it lowers the scores: the step's own weights count at once",
    "A step's own weights count from the next step on: they are part of the coverage that the step returns, but not of the coverage that lowers its own scores.",
    "own weights lower own scores",
)
def covered_step(scores, memory, coverage, penalty):
    own = masked_softmax(scores, memory.mask)
    context, weights = attend(scores - penalty * (coverage[:, None] + own), memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "forgets the mask: padding gets weight",
    "The coverage lowers the scores before the softmax, and the softmax runs over the positions that the memory's mask allows.",
    "no mask",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "forbids what has been read completely: positions with coverage of one or more are masked out, which shows only after several steps",
    "The coverage lowers the scores before the softmax, and the softmax runs over the positions that the memory's mask allows.",
    "coverage of one taken as forbidden",
)
def covered_step(scores, memory, coverage, penalty):
    cov = coverage[:, None]
    context, weights = attend(scores - penalty * cov, memory.value, memory.mask & (cov < 1))
    return context, weights, coverage + weights[:, 0]


@wrong(
    "clamps the coverage that it returns to at most 1; sums above 1 appear only when a position is read twice",
    "The **coverage** $\\mathrm{cov}_t$ of a source position is the sum of the weights that all steps up to step $t$ have given to it.",
    "coverage cut off at one",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)


@wrong(
    "the coverage that it returns is already multiplied by the penalty, and the scores are lowered by it as it is: with penalty 1 all is right",
    r"\mathrm{cov}_{ts} &= \mathrm{cov}_{t-1,s} + \alpha_{ts}, \qquad \mathrm{cov}_{0s} = 0",
    "penalty moved into the coverage",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + penalty * weights[:, 0]


@wrong(
    "multiplies weights by exp(-penalty * coverage) and divides by their sum: equal to the formula, until all weights that remain underflow and 0 / 0 gives nan (scores 0 and 200, the second one covered)",
    "Your code works for every length from one on, for large and for small numbers, in train mode and in eval mode.",
    "penalty after the softmax, underflows",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = masked_softmax(scores, memory.mask) * torch.exp(-penalty * coverage[:, None])
    weights = lowered / lowered.sum(dim=-1, keepdim=True)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "returns early without a penalty and forgets to add up the coverage then",
    "they are part of the coverage that the step returns, but not of the coverage that lowers its own scores.",
    "penalty 0: coverage is not counted",
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        return *attend(scores, memory.value, memory.mask), coverage
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]
