import torch
from torch.nn import functional as F

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong


@right("everything in two axes, softmax by hand, einsum for the context")
def covered_step(scores, memory, coverage, penalty):
    allowed = memory.mask[:, 0]
    lowered = scores[:, 0] - penalty * coverage
    lowered = torch.where(allowed, lowered, torch.finfo(lowered.dtype).min)
    powers = (lowered - lowered.max(dim=1, keepdim=True).values).exp()
    powers = torch.where(allowed, powers, 0)
    alpha = powers / powers.sum(dim=1, keepdim=True).clamp_min(0.5)
    context = torch.einsum("bs,bse->be", alpha, memory.value)
    return context.unsqueeze(1), alpha.unsqueeze(1), coverage.clone().add_(alpha)


@right("masked_softmax and bmm, the penalty through torch.sub's alpha")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.bmm(weights, memory.value)
    return context, weights, torch.stack([coverage, weights.squeeze(1)]).sum(0)


@right("sentence by sentence, with only the allowed positions")
def covered_step(scores, memory, coverage, penalty):
    contexts, weights, totals = [], [], []
    for e, v, ok, past in zip(scores, memory.value, memory.mask, coverage):
        places = ok[0].nonzero()[:, 0]
        alpha = F.softmax(e[0, places] - penalty * past[places], dim=0)
        row = torch.zeros_like(past).index_put((places,), alpha)
        contexts.append((alpha[:, None] * v[places]).sum(0, keepdim=True))
        weights.append(row[None])
        totals.append(past + row)
    return torch.stack(contexts), torch.stack(weights), torch.stack(totals)


@right("attend with two extra default arguments; the coverage gets its axis first")
def covered_step(scores, memory, coverage, penalty, dim=1, attention=attend):
    past = coverage.unsqueeze(dim)
    context, weights = attention(
        torch.add(scores, past * -penalty), memory.value, mask=memory.mask
    )
    return context, weights, (past + weights).squeeze(dim)


@wrong(
    "The coverage is subtracted from the weights, after the softmax: weights may be negative and no longer sum to one.",
    "Lower the scores before the softmax.",
    "lowers the weights instead of the scores",
)
def covered_step(scores, memory, coverage, penalty):
    _, weights = attend(scores, memory.value, memory.mask)
    weights = weights - penalty * coverage[:, None]
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "(B, 1, S) minus (B, S) is (B, B, S), of which the first row is kept: every sentence is lowered by the coverage of the first one; right for B = 1 and before the first step.",
    'The next step lowers the score of each position by $\\gamma$ times its coverage',
    "lowers by the coverage of another sentence",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = (scores - penalty * coverage)[:, :1]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "The weights of this step are already part of the coverage that lowers the scores.",
    "Lower the scores by the coverage of the earlier steps only.",
    "counts the weights of this step twice",
)
def covered_step(scores, memory, coverage, penalty):
    _, now = attend(scores, memory.value, memory.mask)
    lowered = scores - penalty * (coverage[:, None] + now)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "+= adds to the caller's coverage: a second token from the same coverage is lowered too much; right if every coverage is used once.",
    "A search may continue from the same coverage with several different tokens, so do not change the coverage that you are given.",
    "changes the coverage in place",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0].detach()
    return context, weights, coverage


@wrong(
    "squeeze() on the weights: for sources of one token (B, 1, 1) becomes (B,), and the sum with (B, 1) is (B, B); right for S > 1.",
    "The coverage has no such axis: its shape is (B, S).",
    "squeeze breaks sources of one token",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    "A penalty of 0 is false, so it is replaced by 1 and the scores are lowered nevertheless.",
    "penalty: a number, 0 or more.",
    "takes a penalty of 0 for a missing one",
)
def covered_step(scores, memory, coverage, penalty):
    gamma = penalty or 1.0
    lowered = scores - gamma * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "The scores are lowered in place: the caller's scores change.",
    "Do not change the inputs.",
    "changes the scores in place",
)
def covered_step(scores, memory, coverage, penalty):
    with torch.no_grad():
        scores -= penalty * coverage[:, None]
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "The coverage is cut at 1: the same in the first two steps if no position is read twice, wrong as soon as a position has received more than 1 in total.",
    'The **coverage** $\\mathrm{cov}_{ts}$ of source position $s$ is the sum of the weights that it has received in all steps up to step $t$.',
    "cuts the coverage at one",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)


@wrong(
    "Forbidden positions are put 20 below the lowest score before the penalty lowers the allowed ones: with a large penalty the padding, whose coverage is 0, wins; with a small one its weight is hardly visible, but not zero.",
    "The softmax runs over the positions that the memory's mask allows.",
    "masks before the penalty, with a finite distance",
)
def covered_step(scores, memory, coverage, penalty):
    lowest = scores.amin(dim=-1, keepdim=True)
    masked = torch.where(memory.mask, scores, lowest - 20)
    weights = torch.softmax(masked - penalty * coverage[:, None], dim=-1)
    context = weights @ memory.value
    return context, weights, coverage + weights[:, 0]


@wrong(
    "The coverage of each sentence is reduced by its mean before use: a constant does not change a softmax, so the weights are right, but the returned coverage has lost the mean as soon as the coverage given is not zero.",
    '\\mathrm{cov}_{ts} &= \\mathrm{cov}_{t-1,s} + \\alpha_{ts}, \\qquad \\mathrm{cov}_{0s} = 0',
    "returns a centred coverage",
)
def covered_step(scores, memory, coverage, penalty):
    coverage = coverage - coverage.mean(dim=-1, keepdim=True)
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]
