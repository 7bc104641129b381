import torch
from torch import nn
from torch.nn import functional as F
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


@right("torch.sub with a factor, an einsum for the context")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, torch.add(coverage, weights.squeeze(1))


@right("one sentence after the other")
def covered_step(scores, memory, coverage, penalty):
    results = []
    for i, seen in enumerate(coverage):
        part = scores[i] - penalty * seen
        context, weights = attend(part, memory.value[i], memory.mask[i])
        results.append((context, weights, seen + weights[0]))
    context, weights, seen = (torch.stack(parts) for parts in zip(*results))
    return context, weights, seen


@right("coverage with an axis throughout, removed at the end; adds a negative bias")
def covered_step(scores, memory, coverage, penalty, *, look=attend):
    before = torch.unsqueeze(coverage, dim=-2)
    context, weights = look(scores + before * -penalty, memory.value, mask=memory.mask)
    return context, weights, torch.cat([before, weights], dim=1).sum(dim=1)


@right("lowers relative to the least covered position, softmax by hand")
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * (coverage - coverage.amin(-1, keepdim=True))[:, None]
    lowest = torch.finfo(scores.dtype).min
    weights = lowered.masked_fill(~memory.mask, lowest).softmax(dim=-1)
    weights = weights.masked_fill(~memory.mask, 0)
    context = (weights.mT * memory.value).sum(dim=1, keepdim=True)
    return context, weights, coverage + weights.sum(dim=1)


@wrong(
    "subtracts (B, S) from (B, 1, S): for more than one sentence the scores are (B, B, S), and every sentence gets the coverage of all others",
    "Scores and weights have an axis for the one target position.",
    "coverage lacks the axis for the target",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "+= adds the weights to the caller's coverage: a second token from the same coverage is lowered by the first one's weights",
    "A search goes on from the same coverage with several tokens, so the coverage that comes in stays as it is.",
    "changes the coverage in place",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "lowers the weights instead of the scores: they become negative and no longer sum to one",
    "The coverage lowers the scores before the softmax, and the softmax runs over the positions that the memory's mask allows.",
    "lowers the weights after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) - penalty * coverage[:, None]
    weights = weights.masked_fill(~memory.mask, 0)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "with the penalty 0 it returns the coverage as it came, without the step's weights",
    "A step's own weights count from the next step on: they are part of the coverage that it returns, and not of the one that lowers its scores.",
    "coverage is not counted without a penalty",
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        context, weights = attend(scores, memory.value, memory.mask)
        return context, weights, coverage
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "cuts the coverage off at one: after several steps on the same position its sum is lost, and the position is lowered too little",
    "The **coverage** $\\mathrm{cov}_t$ of a source position is the sum of the weights that all steps up to step $t$ have given to it.",
    "coverage cannot exceed one",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)


@wrong(
    "squeeze() without an axis: for a source of one token, several sentences' weights become (B,), and the coverage (B, B)",
    "The coverage has no such axis, just as the state (B, D) has none: it is (B, S).",
    "squeeze removes the source axis too",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage.unsqueeze(1)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    "multiplies the weights by exp(-penalty * coverage) and divides by their sum: the same for small numbers, but with a large penalty all products are 0 and the weights nan",
    "Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    "factors underflow for large penalties",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = weights * (-penalty * coverage[:, None]).exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "counts the weights that the scores would have without the penalty: right in the first step and for the penalty 0, later the coverage is another",
    "The **coverage** $\\mathrm{cov}_t$ of a source position is the sum of the weights that all steps up to step $t$ have given to it.",
    "counts the weights before the penalty",
)
def covered_step(scores, memory, coverage, penalty):
    _, plain = attend(scores, memory.value, memory.mask)
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + plain[:, 0]


_total = {}


@wrong(
    "keeps the sum itself and takes the given coverage only if it is all zeros: right for steps in a row, wrong if a search goes back to an earlier coverage or begins with one that is not zero",
    "coverage: (B, S), the sum of the weights of all earlier steps; zeros before the\n            first step.",
    "keeps the coverage in a global variable",
)
def covered_step(scores, memory, coverage, penalty):
    if not coverage.any() or _total["now"].shape != coverage.shape:
        _total["now"] = coverage
    lowered = scores - penalty * _total["now"][:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    _total["now"] = _total["now"] + weights[:, 0]
    return context, weights, _total["now"]


@wrong(
    "lowers the scores by -= in the tensor of the caller: all results are right, but the scores that came in are changed",
    "What comes in stays as it is, and what goes out has its dtype and its device.",
    "changes the scores in place",
)
def covered_step(scores, memory, coverage, penalty):
    scores -= penalty * coverage[:, None]
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]
