import torch

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


@right("loop over the sentences; the softmax sees only the allowed positions")
def covered_step(scores, memory, coverage, penalty):
    weights = []
    for row, seen, allowed in zip(scores[:, 0], coverage, memory.mask[:, 0]):
        places = allowed.nonzero()[:, 0]
        some = torch.softmax(row[places] - penalty * seen[places], dim=0)
        weights.append(torch.zeros_like(row).index_add(0, places, some))
    weights = torch.stack(weights)
    context = torch.einsum("bs,bse->be", weights, memory.value)
    return context[:, None], weights[:, None], coverage + weights


@right("torch.sub with alpha, masked_softmax and bmm; the coverage as a sum of two stacked tensors")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(-2), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.bmm(weights, memory.value)
    after = torch.cat([coverage.unsqueeze(1), weights], dim=1).sum(dim=1)
    return context, weights, after


@right("softmax in log space with logsumexp over the allowed positions")
def covered_step(scores, memory, coverage, penalty, hidden=float("-inf")):
    energy = scores.squeeze(1) - coverage * penalty
    allowed = memory.mask.squeeze(1)
    energy = torch.where(allowed, energy, hidden)
    log_weights = energy - energy.logsumexp(dim=-1, keepdim=True)
    weights = torch.where(allowed, log_weights.exp(), 0.0)
    context = (weights.unsqueeze(-1) * memory.value).sum(dim=1, keepdim=True)
    return context, weights.unsqueeze(1), coverage.add(weights)


@right("a small class that remembers nothing, called once; the penalty moved onto the coverage first")
def covered_step(scores, memory, coverage, penalty):
    class Penalised:
        def __init__(self, seen):
            self.seen = seen

        def __rsub__(self, energies):
            return energies - (penalty * self.seen).reshape(energies.shape)

        def plus(self, more):
            return more.reshape(self.seen.shape) + self.seen

    seen = Penalised(coverage)
    energies = seen.__rsub__(scores)
    context, weights = attend(energies, memory.value, memory.mask)
    return context, weights, seen.plus(weights)


@wrong(
    "subtracts (B, S) from (B, 1, S): for more than one sentence the scores become (B, B, S), and context and weights have a wrong shape",
    "Scores and weights have an axis for the target position. The coverage has no such axis: its shape is (B, S).",
    "coverage broadcast over the whole batch",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "lowers the weights instead of the scores: with a coverage that is not zero, weights become negative and do not sum to one",
    "Lower the scores before the softmax.",
    "penalty subtracted after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) - penalty * coverage[:, None]
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "adds to the coverage in place: the caller's coverage is changed (or an error if it needs a gradient)",
    "A search may continue from the same coverage with several different tokens, so do not change the coverage that you are given.",
    "coverage is changed in place",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "squeeze() without an axis: with S = 1 and several sentences, (B, 1) + (B,) gives a coverage (B, B)",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze without an axis, source of length one",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    "returns early for a penalty of 0, and forgets to add the weights to the coverage",
    "The coverage that you return also contains the weights of this step.",
    "no coverage counted when the penalty is zero",
)
def covered_step(scores, memory, coverage, penalty):
    if penalty == 0:
        return *attend(scores, memory.value, memory.mask), coverage
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "counts the coverage in float32: for bfloat16 or float64 scores the returned coverage is float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "coverage comes back in float32",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None].to(scores.dtype)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage.float() + weights[:, 0].float()


@wrong(
    "multiplies the weights by exp(-penalty * coverage) and divides by their sum: equal on paper, but nan when "
    "all factors underflow, for example for a penalty of 200 and a coverage of 1 everywhere",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "penalty as a factor underflows",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) * torch.exp(-penalty * coverage[:, None])
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "hides the padding by giving it a huge coverage: with a penalty of 0 (or a tiny one) the padding is not hidden at all",
    "The softmax runs over the positions that the memory's mask allows.",
    "mask works only through the penalty",
)
def covered_step(scores, memory, coverage, penalty):
    seen = coverage.masked_fill(~memory.mask[:, 0], 1e30)
    weights = torch.softmax(scores - penalty * seen[:, None], dim=-1)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "divides the coverage by its sum where that is above 1: right in the first two steps (sums 0 and 1), wrong from the third on",
    r"\alpha_{ts} &= \mathrm{softmax}_s\, (e_{ts} - \gamma\, \mathrm{cov}_{t-1,s}) \\",
    "coverage is normalised, wrong from step three",
)
def covered_step(scores, memory, coverage, penalty):
    share = coverage / coverage.sum(dim=-1, keepdim=True).clamp(min=1)
    context, weights = attend(scores - penalty * share[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "limits the returned coverage to 1: a position that two steps have read with a total of more than 1 is penalised too little later",
    r"\mathrm{cov}_{ts} &= \mathrm{cov}_{t-1,s} + \alpha_{ts}, \qquad \mathrm{cov}_{0s} = 0",
    "coverage is cut off at one",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)
