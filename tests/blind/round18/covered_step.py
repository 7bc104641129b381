import torch

from attention_course.attention import attend, masked_softmax
from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("three lines, as the hints suggest")
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@right("all in float64 and in two axes, with a log-sum-exp and einsum")
def covered_step(scores, memory, coverage, penalty):
    allowed = memory.mask.squeeze(1)
    logits = scores.squeeze(1).double() - penalty * coverage.double()
    logits = torch.where(allowed, logits, torch.full_like(logits, -torch.inf))
    # a sentence without tokens must give zeros, not nan
    logits = torch.where(allowed.any(1, keepdim=True), logits, -1e300)
    alpha = (logits - logits.logsumexp(dim=1, keepdim=True)).exp()
    alpha = torch.where(allowed, alpha, torch.zeros_like(alpha))
    context = torch.einsum("bs,bse->be", alpha, memory.value.double())
    total = coverage.double() + alpha
    return (
        context.to(memory.value.dtype).unsqueeze(1),
        alpha.to(scores.dtype).unsqueeze(1),
        total.to(coverage.dtype),
    )


@right("a loop over the sentences, each without its padding")
def covered_step(scores, memory, coverage, penalty):
    contexts, rows = [], []
    for row, value, mask, covered in zip(scores, memory.value, memory.mask, coverage):
        at = torch.nonzero(mask[0], as_tuple=True)
        alpha = torch.softmax(row[0][at] - covered[at] * penalty, dim=0)
        contexts.append(alpha[None] @ value[at])
        rows.append(torch.zeros_like(row[0]).index_put(at, alpha))
    weights = torch.stack(rows)
    return torch.stack(contexts), weights.unsqueeze(1), weights.add(coverage)


class Segments:
    """Allowed positions of all sentences in one flat list."""

    def __init__(self, mask):
        self.sentence, self.position = mask[:, 0].nonzero(as_tuple=True)
        self.shape = mask.size(0), mask.size(2)

    def softmax(self, flat):
        bottom = flat.new_full(self.shape[:1], -torch.inf)
        top = bottom.scatter_reduce(0, self.sentence, flat.detach(), "amax")
        powers = (flat - top[self.sentence]).exp()
        total = powers.new_zeros(self.shape[0]).index_add(0, self.sentence, powers)
        return powers / total[self.sentence]

    def spread(self, flat):
        grid = flat.new_zeros(self.shape)
        return grid.index_put((self.sentence, self.position), flat)


@right("a softmax over the segments of one flat list of all allowed positions")
def covered_step(scores, memory, coverage, penalty):
    segments = Segments(memory.mask)
    b, s = segments.sentence, segments.position
    alpha = segments.softmax(scores[b, 0, s] - penalty * coverage[b, s])
    products = alpha[:, None] * memory.value[b, s]
    context = torch.zeros_like(memory.value[:, 0]).index_add(0, b, products)
    weights = segments.spread(alpha)
    return context[:, None], weights[:, None], coverage + weights


# ---------------------------------------------------------------- wrong answers


@wrong(
    "lowers the weights after the softmax instead of the scores",
    breaks="Lower the scores before the softmax.",
    name="penalty after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) - penalty * coverage[:, None]
    weights = weights.clamp_min(0)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "also lowers the scores by the weights of this step",
    breaks="Lower the scores by the coverage of the earlier steps only.",
    name="penalizes this step's own weights",
)
def covered_step(scores, memory, coverage, penalty):
    now = coverage + masked_softmax(scores, memory.mask)[:, 0]
    lowered = scores - penalty * now[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "averages the values by the weights without the penalty, and returns the others",
    breaks=r"c_t &= \sum_s \alpha_{ts} v_s \\",
    name="context from other weights",
)
def covered_step(scores, memory, coverage, penalty):
    context, _ = attend(scores, memory.value, memory.mask)
    weights = masked_softmax(scores - penalty * coverage[:, None], memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "subtracts (B, S) from (B, 1, S) and keeps the first row: the first sentence's"
    " coverage for all",
    breaks=r"\alpha_{ts} &= \mathrm{softmax}_s\, (e_{ts} - \gamma\, \mathrm{cov}_{t-1,s}) \\",
    name="coverage of another sentence",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = (scores - penalty * coverage)[:, :1]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds the weights to the coverage in place",
    breaks="A search may continue from the same coverage with several different tokens,"
    " so do not change the coverage that you are given.",
    name="coverage changed in place",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "removes all axes of length one, so with S = 1 the sentences' weights mix",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up,"
    " for large and for small numbers, in train mode and in eval mode.",
    name="squeeze without an axis",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage.unsqueeze(1)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    "without a penalty, returns the old coverage",
    breaks="The coverage that you return also contains the weights of this step, and"
    " gradients pass through it.",
    name="no counting without a penalty",
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        return *attend(scores, memory.value, memory.mask), coverage
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "penalizes a coverage of more than one like a coverage of one",
    breaks=r"The next step lowers the score of each position by $\gamma$ times its"
    " coverage:",
    name="coverage capped at one",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage.clamp(max=1)[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "detaches the weights that it adds to the coverage",
    breaks="The coverage that you return also contains the weights of this step, and"
    " gradients pass through it.",
    name="coverage without gradients",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0].detach()


@wrong(
    "masks with a score of -10000, which a large penalty can fall below",
    breaks="The softmax runs over the positions that the memory's mask allows.",
    name="mask value not low enough",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    weights = lowered.masked_fill(~memory.mask, -1e4).softmax(dim=-1)
    return weights @ memory.value, weights, coverage + weights[:, 0]
