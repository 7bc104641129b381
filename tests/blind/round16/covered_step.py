import torch
from torch import nn
from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory
from blind import right, wrong

DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
LOWER = "Lower the scores before the softmax."
ALLOWED = "The softmax runs over the positions that the memory's mask allows."
EARLIER = "Lower the scores by the coverage of the earlier steps only."
RETURNED = "The coverage that you return also contains the weights of this step, and gradients pass through it."
SEVERAL = "A search may continue from the same coverage with several different tokens, so do not change the coverage that you are given."
TIMES = r"The next step lowers the score of each position by $\gamma$ times its coverage:"
SUM = "The **coverage** $\\mathrm{cov}_{ts}$ of source position $s$ is the sum of the weights that it has received in all steps up to step $t$."
DOC = "Context (B, 1, E), weights (B, 1, S), and the coverage after this step (B, S)."


@right("adds the penalty with torch.sub and alpha; computes the softmax with masked_softmax and the context with einsum")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=float(penalty))
    weights = masked_softmax(lowered, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, torch.stack([coverage, weights.squeeze(1)]).sum(dim=0)


@right("drops the axis of the target position at once, writes the masked softmax out, and inserts the axis at the end")
def covered_step(scores, memory, coverage, penalty):
    allowed = memory.mask[:, 0]
    e = (scores[:, 0] - penalty * coverage).masked_fill(~allowed, -torch.inf)
    top = e.amax(dim=-1, keepdim=True).detach()
    shares = (e - top.masked_fill(top == -torch.inf, 0)).exp()
    total = shares.sum(dim=-1, keepdim=True)
    weights = shares / total.masked_fill(total == 0, 1)
    context = (weights.unsqueeze(-1) * memory.value).sum(dim=1)
    return context.unsqueeze(1), weights.unsqueeze(1), coverage + weights


@right("one sentence after the other, with attend")
def covered_step(scores, memory, coverage, penalty):
    results = []
    for b in range(len(scores)):
        c, w = attend(scores[b] - penalty * coverage[b], memory.value[b], memory.mask[b])
        results.append((c, w, coverage[b] + w[0]))
    return tuple(torch.stack(parts) for parts in zip(*results))


@right("computes in float64, adds up weighted values over the source positions, and gets the new coverage by addcmul")
def covered_step(scores, memory, coverage, penalty):
    old = coverage.double()
    weights = masked_softmax(scores.double() + (-penalty * old).unsqueeze(-2), memory.mask)
    context = 0
    for w, v in zip(weights.unbind(dim=-1), memory.value.double().unbind(dim=1)):
        context = context + (w * v).unsqueeze(1)
    after = torch.addcmul(old, weights[:, 0], torch.ones_like(old))
    return context.to(scores.dtype), weights.to(scores.dtype), after.to(scores.dtype)


@wrong("lowers the weights after the softmax and cuts them off at zero", breaks=LOWER, name="weights lowered after the softmax")
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    weights = (weights - penalty * coverage[:, None]).clamp(min=0)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong("forgets the axis: (B, 1, S) minus (B, S) is (B, B, S); right for a single sentence", breaks=TIMES, name="coverage of all sentences")
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong("adds to the coverage in place", breaks=SEVERAL, name="coverage changed in place")
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    if torch.is_grad_enabled() and (weights.requires_grad or coverage.requires_grad):
        return context, weights, coverage + weights[:, 0]
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong("adds the coverage into the memory of the returned weights: these are the new coverage afterwards", breaks=DOC, name="weights overwritten by the coverage")
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    if torch.is_grad_enabled() and weights.requires_grad:
        return context, weights, coverage + weights[:, 0]
    after = weights[:, 0]
    after += coverage
    return context, weights, after


@wrong("detaches the weights in the returned coverage", breaks=RETURNED, name="coverage without a gradient")
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0].detach()


@wrong("does not let the coverage exceed one ('fully read'): wrong after two looks at the same position", breaks=SUM, name="coverage cut off at one")
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)


@wrong("lowers by the coverage that includes this step's own first guess of the weights", breaks=EARLIER, name="coverage of this step included")
def covered_step(scores, memory, coverage, penalty):
    guess = masked_softmax(scores, memory.mask)[:, 0]
    context, weights = attend(scores - penalty * (coverage + guess)[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong("returns early for penalty 0 with the coverage unchanged, 'because it plays no role': the weights of this step are missing from it", breaks=RETURNED, name="no coverage without a penalty")
def covered_step(scores, memory, coverage, penalty):
    if not penalty:
        return *attend(scores, memory.value, memory.mask), coverage
    context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong("the lowered scores are right, but at the first step (coverage all zero) it forgets the mask of the memory", breaks=ALLOWED, name="no mask at the first step")
def covered_step(scores, memory, coverage, penalty):
    if not coverage.any():
        context, weights = attend(scores, memory.value)
    else:
        context, weights = attend(scores - penalty * coverage[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong("keeps the coverage in float32 for exactness: bfloat16 and float64 coverages change their dtype, and float64 loses digits", breaks=DTYPE, name="coverage in float32")
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(scores - penalty * coverage[:, None].to(scores.dtype), memory.value, memory.mask)
    return context, weights, coverage.float() + weights[:, 0].float()
