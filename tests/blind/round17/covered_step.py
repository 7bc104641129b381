import torch
from torch import nn
from attention_course.attention import attend, masked_softmax
from blind import right, wrong

LOWER = r"The next step lowers the score of each position by $\gamma$ times its coverage:"
BEFORE = "Lower the scores before the softmax."
EARLIER = "Lower the scores by the coverage of the earlier steps only."
RETURNED = "The coverage that you return also contains the weights of this step, and gradients pass through it."
SHAPE = "The coverage has no such axis: its shape is (B, S)."
SAME = "A search may continue from the same coverage with several different tokens, so do not change the coverage that you are given."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
LARGE = "for large and for small numbers"


@right("torch.sub with alpha, einsum for the context")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, torch.add(coverage, weights.squeeze(1))


@right("without the axis of the target position until the end, in float64")
def covered_step(scores, memory, coverage, penalty):
    allowed = memory.mask[:, 0]
    lowered = scores.select(1, 0).double() - coverage.double() * penalty
    share = masked_softmax(lowered, allowed)
    context = (share.unsqueeze(-1) * memory.value.double()).sum(dim=1)
    seen = (coverage.double() + share).to(coverage.dtype)
    kind = scores.dtype
    return context[:, None].to(kind), share[:, None].to(kind), seen


@right("one sentence after the other, over its allowed positions only")
def covered_step(scores, memory, coverage, penalty):
    contexts, rows = [], []
    for b in range(scores.size(0)):
        places = memory.mask[b, 0].nonzero().squeeze(1)
        kept = scores[b, 0].index_select(0, places)
        kept = kept - penalty * coverage[b].index_select(0, places)
        if places.numel() > 0:
            kept = (kept - kept.max().detach()).exp()
            kept = kept / kept.sum()
        rows.append(torch.zeros_like(coverage[b]).index_add(0, places, kept))
        contexts.append(rows[b] @ memory.value[b])
    weights = torch.stack(rows)
    return torch.stack(contexts)[:, None], weights[:, None], coverage + weights


@right("a coverage with the axis inside, summed from a concatenation at the end")
def covered_step(scores, memory, coverage, penalty):
    seen = coverage.reshape(coverage.size(0), 1, coverage.size(1))
    context, weights = attend(seen * (-penalty) + scores, memory.value, memory.mask)
    return context, weights, torch.cat([seen, weights], dim=1).sum(dim=1)


@wrong(
    "subtracts (B, S) from (B, 1, S) without a new axis",
    breaks=SHAPE,
    name="the coverage of every sentence is subtracted from the scores of all sentences",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage, memory.value, memory.mask
    )
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds the weights of this step to the coverage before it lowers the scores",
    breaks=EARLIER,
    name="a step is penalized for its own weights",
)
def covered_step(scores, memory, coverage, penalty):
    first = masked_softmax(scores, memory.mask)
    seen = coverage + first[:, 0]
    context, weights = attend(
        scores - penalty * seen[:, None], memory.value, memory.mask
    )
    return context, weights, coverage + weights[:, 0]


@wrong(
    "lowers the weights instead of the scores",
    breaks=BEFORE,
    name="the penalty is subtracted after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) - penalty * coverage[:, None]
    weights = weights.clamp(min=0)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "divides the coverage by its sum before it lowers the scores",
    breaks=LOWER,
    name="the share of the coverage instead of the coverage",
)
def covered_step(scores, memory, coverage, penalty):
    total = coverage.sum(dim=-1, keepdim=True)
    share = coverage / total.masked_fill(total == 0, 1)
    context, weights = attend(
        scores - penalty * share[:, None], memory.value, memory.mask
    )
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds the weights to the given coverage with +=",
    breaks=SAME,
    name="the coverage changes in place",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "detaches the weights that it adds to the coverage",
    breaks=RETURNED,
    name="no gradient through the coverage of this step",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    return context, weights, coverage + weights.detach()[:, 0]


@wrong(
    "lets the coverage of a position count at most once",
    breaks=LOWER,
    name="a coverage above 1 is cut off",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage.clamp(max=1)[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "returns the old coverage if the penalty is zero, because nobody needs it then",
    breaks=RETURNED,
    name="no coverage is added up without a penalty",
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        return *attend(scores, memory.value, memory.mask), coverage
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    return context, weights, coverage + weights[:, 0]


@wrong(
    "removes the axis of the target position with squeeze()",
    breaks=LENGTHS,
    name="for a source of one token, squeeze removes the axis of the source, too",
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage.unsqueeze(1), memory.value, memory.mask
    )
    return context, weights, coverage + weights.squeeze()


@wrong(
    "multiplies finished weights by exp(-penalty * coverage) and divides by their sum",
    breaks=LARGE,
    name="all factors underflow if the penalty is large",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = weights * torch.exp(-penalty * coverage)[:, None]
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return weights @ memory.value, weights, coverage + weights[:, 0]
