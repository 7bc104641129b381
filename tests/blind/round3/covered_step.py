import torch

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory  # noqa: F401
from blind import right, wrong


@right("softmax of its own, context by a product and a sum")
def own_softmax(scores, memory, coverage, penalty):
    lowered = scores - coverage.unsqueeze(1) * penalty
    weights = lowered.masked_fill(~memory.mask, -torch.inf).softmax(dim=-1)
    context = (weights.transpose(1, 2) * memory.value).sum(dim=1, keepdim=True)
    return context, weights, coverage + weights.squeeze(1)


@right("without the axis for the position from beginning to end")
def without_axis(scores, memory, coverage, penalty):
    e = torch.sub(scores[:, 0], coverage, alpha=penalty)
    e = torch.where(memory.mask[:, 0], e, -torch.inf)
    alpha = torch.exp(e - torch.logsumexp(e, dim=1, keepdim=True))
    context = torch.einsum("bs,bse->be", alpha, memory.value)
    return context[:, None], alpha[:, None], torch.add(alpha, coverage)


@right("sentence by sentence")
def by_sentence(scores, memory, coverage, penalty):
    contexts, rows = [], []
    for e, value, mask, u in zip(scores, memory.value, memory.mask, coverage):
        row = masked_softmax((e[0] - penalty * u)[None], mask)
        rows.append(row)
        contexts.append(row @ value)
    weights = torch.stack(rows)
    return torch.stack(contexts), weights, coverage + torch.cat(rows)


@right("by addcmul and baddbmm, with a coverage that has an axis for the position")
def addcmul(scores, memory, coverage, penalty):
    u = coverage.view(coverage.size(0), 1, -1)
    e = torch.addcmul(scores, u, torch.ones_like(u), value=-penalty)
    _, weights = attend(e, memory.value, memory.mask)
    context = torch.bmm(weights, memory.value)
    return context, weights, torch.cat([u, weights], dim=1).sum(dim=1)


@wrong(
    "takes (B, S) off (B, 1, S), and the first sentence's row of what comes out",
    breaks="Scores and weights have an axis for the one target position. The coverage"
    " has none",
    name="broadcast over the sentences",
    subtle=True,
)
def broadcast(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage, memory.value, memory.mask
    )
    return context[:, :1], weights[:, :1], coverage + weights[:, 0]


@wrong(
    "adds to the coverage in place",
    breaks="A search goes on from the same coverage with several tokens, so the coverage"
    " that comes in stays as it is.",
    name="coverage changed in place",
    subtle=True,
)
def coverage_in_place(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "lowers the scores in place, which the first step's zeros hide",
    breaks="What comes in stays as it is",
    name="scores changed in place",
    subtle=True,
)
def scores_in_place(scores, memory, coverage, penalty):
    scores.sub_(penalty * coverage[:, None])
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "multiplies the weights by exp(-penalty * coverage) and lets them sum to less",
    breaks="The coverage lowers the scores before the softmax, and the softmax runs over"
    " the positions that the memory's mask allows.",
    name="lowered after the softmax",
    subtle=True,
)
def after_softmax(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = weights * torch.exp(-penalty * coverage)[:, None]
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "divides exponentials by their sum: penalties that are large leave 0 / 0",
    breaks="Your code works for every length from one on, for large numbers as for small"
    " ones",
    name="exp underflows",
    subtle=True,
)
def exp_then_normalise(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = weights * torch.exp(-penalty * coverage)[:, None]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "two passes: its own weights lower its own scores",
    breaks="A step's own weights count from the next step on: they are part of the"
    " coverage that it returns, and not of the one that lowers its scores.",
    name="own weights in the penalty",
)
def own_weights(scores, memory, coverage, penalty):
    _, first = attend(scores, memory.value, memory.mask)
    after = coverage + first[:, 0]
    lowered = scores - penalty * after[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "leaves everything as it was, the coverage too, if there is no penalty",
    breaks="u_{ts} &= u_{t-1,s} + \\alpha_{ts}",
    name="nothing counted at penalty 0",
    subtle=True,
)
def no_penalty(scores, memory, coverage, penalty):
    if not penalty:
        return *attend(scores, memory.value, memory.mask), coverage.clone()
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "more than read once is not possible: the coverage is cut off at one",
    breaks="The **coverage** $u_t$ of a source position is the sum of the weights that"
    " all steps up to step $t$ have given to it",
    name="coverage clamped to one",
    subtle=True,
)
def clamped(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1.0)


@wrong(
    "forgets the mask where the context is formed",
    breaks="the softmax runs over the positions that the memory's mask allows",
    name="mask left out",
    subtle=True,
)
def no_mask(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "squeezes every axis of length one off the weights",
    breaks="Context (B, 1, E), weights (B, 1, S), and the coverage after this step (B,"
    " S).",
    name="squeeze without an axis",
    subtle=True,
)
def squeeze(scores, memory, coverage, penalty):
    lowered = scores.squeeze() - penalty * coverage.squeeze()
    context, weights = attend(lowered.unsqueeze(-2), memory.value, memory.mask)
    return context, weights, coverage.squeeze() + weights.squeeze()
