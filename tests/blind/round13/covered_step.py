import torch

from attention_course.attention import attend, masked_softmax
from attention_course.seq2seq import Memory

from blind import right, wrong


@right("torch.sub with alpha, einsum for the context, sums over the target axis")
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=penalty)
    weights = masked_softmax(lowered, memory.mask)
    context = torch.einsum("bts,bse->bte", weights, memory.value)
    return context, weights, torch.add(coverage, weights.sum(dim=1))


@right("one sentence at a time; picks the allowed positions instead of masking")
def covered_step(scores, memory, coverage, penalty):
    contexts, rows, sums = [], [], []
    for b in range(scores.shape[0]):
        allowed = memory.mask[b, 0]
        e = scores[b, 0][allowed] - penalty * coverage[b][allowed]
        share = torch.softmax(e, dim=0)
        row = torch.zeros_like(scores[b, 0]).masked_scatter(allowed, share)
        contexts.append((share[:, None] * memory.value[b][allowed]).sum(dim=0))
        rows.append(row)
        sums.append(coverage[b] + row)
    return torch.stack(contexts)[:, None], torch.stack(rows)[:, None], torch.stack(sums)


@right("everything in float64, source positions on the first axis")
def covered_step(scores, memory, coverage, penalty):
    e, before = scores.double().permute(2, 0, 1), coverage.double().T[:, :, None]
    allowed = memory.mask.permute(2, 0, 1)  # (S, B, 1)
    e = (e - before * penalty).where(allowed, torch.finfo(torch.float64).min)
    weights = e.softmax(dim=0).mul(allowed)
    context = (weights * memory.value.double().transpose(0, 1)).sum(dim=0)
    return (
        context[:, None].to(memory.value.dtype),
        weights.permute(1, 2, 0).to(scores.dtype),
        (before + weights)[..., 0].T.to(coverage.dtype),
    )


@right("exp and sum by hand after subtracting the largest allowed score")
def covered_step(scores, memory, coverage, penalty):
    def normalise(e, allowed):
        e = torch.where(allowed, e, torch.finfo(e.dtype).min)
        raised = torch.exp(e - e.max(dim=-1, keepdim=True).values.detach())
        raised = torch.where(allowed, raised, 0)
        total = raised.sum(dim=-1, keepdim=True)
        return raised / torch.where(total > 0, total, 1)

    weights = normalise(scores[:, 0] - penalty * coverage, memory.mask[:, 0])
    context = (weights.unsqueeze(-1) * memory.value).sum(dim=1, keepdim=True)
    return context, weights.unsqueeze(1), weights + coverage


@wrong(
    "lowers the weights after the softmax instead of the scores before it",
    "Lower the scores before the softmax.",
    "penalty after the softmax",
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask) - penalty * coverage[:, None]
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    "computes weights first, adds them to the coverage, and lowers the scores by it",
    "Lower the scores by the coverage of the earlier steps only.",
    "own weights in the penalty",
)
def covered_step(scores, memory, coverage, penalty):
    _, first = attend(scores, memory.value, memory.mask)
    coverage = coverage + first[:, 0]
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    return context, weights, coverage


@wrong(
    "subtracts (B, S) from (B, 1, S), which gives (B, B, S), and keeps the first row:"
    " all sentences are lowered by the coverage of the first",
    "The coverage has no such axis: its shape is (B, S).",
    "broadcast over the batch",
)
def covered_step(scores, memory, coverage, penalty):
    lowered = (scores - penalty * coverage)[:, :1]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "scores.squeeze() also removes a source axis of length one: (B,) minus (B, 1) is"
    " (B, B), and attend fails",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze() without dim, a single source position",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores.squeeze() - penalty * coverage
    context, weights = attend(lowered[:, None], memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "adds the weights to the given coverage in place",
    "A search may continue from the same coverage with several different tokens, so do"
    " not change the coverage that you are given.",
    "+= on the coverage",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    "lowers the caller's scores in place",
    "Do not change the inputs.",
    "-= on the scores",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    scores -= penalty * coverage[:, None]
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "takes no coverage for more than 1, although a position can receive 0.9 twice",
    r"The next step lowers the score of each position by $\gamma$ times its coverage:",
    "coverage clipped at one",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage.clamp(max=1)[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "divides the coverage by its sum, the number of steps so far: the first two steps"
    " are right, the third is not",
    "The **coverage** $\\mathrm{cov}_{ts}$ of source position $s$ is the sum of the"
    " weights that it has received in all steps up to step $t$.",
    "mean instead of sum of the earlier weights",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    steps = coverage.sum(dim=-1, keepdim=True).clamp(min=1)
    lowered = scores - penalty * (coverage / steps)[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    "returns the coverage in float32, also for bfloat16 and float64 inputs",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "coverage of another dtype",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    context, weights = attend(
        scores - penalty * coverage[:, None], memory.value, memory.mask
    )
    return context, weights, coverage.float() + weights[:, 0].float()


@wrong(
    "takes the softmax over all positions and multiplies the mask in afterwards, so the"
    " rows of padded sentences do not sum to one",
    "The softmax runs over the positions that the memory's mask allows.",
    "mask after the softmax",
    subtle=True,
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    weights = lowered.softmax(dim=-1) * memory.mask
    return weights @ memory.value, weights, coverage + weights[:, 0]
