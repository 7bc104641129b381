import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend, masked_softmax
from blind import right, wrong


@right('torch.sub with alpha')
def covered_step(scores, memory, coverage, penalty):
    lowered = torch.sub(scores, coverage.unsqueeze(1), alpha=penalty)
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, torch.add(coverage, weights.squeeze(1))


@right('sentence by sentence, softmax over a selection of the allowed positions')
def covered_step(scores, memory, coverage, penalty):
    rows = []
    for b in range(scores.shape[0]):
        allowed = memory.mask[b, 0].nonzero()[:, 0]
        selected = scores[b, 0, allowed] - penalty * coverage[b, allowed]
        row = torch.zeros_like(scores[b, 0])
        rows.append(row.index_copy(0, allowed, selected.softmax(dim=0).to(row)))
    weights = torch.stack(rows)
    context = torch.einsum("bs,bse->be", weights, memory.value)
    return context[:, None], weights[:, None], coverage + weights


@right('double precision, exp(x - logsumexp)')
def covered_step(scores, memory, coverage, penalty):
    mask = memory.mask[:, 0]
    exact = scores[:, 0].double() - coverage.double().mul(penalty)
    exact = exact.masked_fill(~mask, torch.finfo(exact.dtype).min)
    weights = (exact - exact.logsumexp(dim=1, keepdim=True)).exp()
    weights = weights.masked_fill(~mask, 0).to(scores.dtype)
    context = weights[:, None].bmm(memory.value)
    return context, weights[:, None], weights + coverage


def _softmax(columns, allowed):
    """Softmax over the first axis, at the allowed places."""
    lowest = torch.finfo(columns.dtype).min
    top = columns.masked_fill(~allowed, lowest).amax(dim=0).detach()
    numerators = (columns.masked_fill(~allowed, -torch.inf) - top).exp()
    return numerators / numerators.sum(dim=0).clamp(min=1)  # the largest is exp(0)


@right('softmax over an axis in front, sources first, then transposed back')
def covered_step(scores, memory, coverage, penalty):
    columns = scores[:, 0].T - penalty * coverage.T
    weights = _softmax(columns, memory.mask[:, 0].T).T
    context = (weights[..., None] * memory.value).sum(dim=1, keepdim=True)
    return context, weights.unsqueeze(1), torch.stack([coverage, weights]).sum(dim=0)


@wrong(
    'subtracts (B, S) from (B, 1, S), which gives (B, B, S)',
    'Scores and weights have an axis for the target position.',
    'coverage of every sentence subtracted from the scores of all',
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    'lowers the weights after the softmax and normalises them again',
    'Lower the scores before the softmax.',
    'penalty after the softmax',
)
def covered_step(scores, memory, coverage, penalty):
    weights = masked_softmax(scores, memory.mask)
    lowered = (weights - penalty * coverage[:, None]).clamp(min=0)
    weights = lowered / lowered.sum(dim=-1, keepdim=True).clamp(min=1e-6)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    'lowers the scores by a coverage that already contains this step',
    'Lower the scores by the coverage of the earlier steps only.',
    'coverage updated before it is subtracted',
)
def covered_step(scores, memory, coverage, penalty):
    seen = coverage[:, None] + masked_softmax(scores, memory.mask)
    context, weights = attend(scores - penalty * seen, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    'adds the weights to the coverage in place',
    'A search may continue from the same coverage with several different tokens, so do not change the coverage that you are given.',
    'changes the coverage in place',
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    coverage += weights[:, 0]
    return context, weights, coverage


@wrong(
    'lowers the scores in place',
    'Do not change the inputs.',
    'changes the scores in place',
)
def covered_step(scores, memory, coverage, penalty):
    scores -= penalty * coverage[:, None]
    context, weights = attend(scores, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    'squeezes the weights, so that sources of length one give a coverage (B, B)',
    'The coverage has no such axis: its shape is (B, S).',
    'squeeze() removes the source axis when S is 1',
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights.squeeze()


@wrong(
    'adds up the coverage in float32 and returns it so',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'coverage in float32 whatever the dtype of the scores',
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered.to(scores.dtype), memory.value, memory.mask)
    return context, weights, coverage.float() + weights[:, 0].float()


@wrong(
    'multiplies the softmax by exp(-penalty * coverage) and normalises: 0 / 0 for a large coverage',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'factors underflow to zero everywhere',
)
def covered_step(scores, memory, coverage, penalty):
    # softmax(e - p) is proportional to softmax(e) * exp(-p)
    weights = masked_softmax(scores, memory.mask)
    weights = weights * torch.exp(-penalty * coverage)[:, None]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ memory.value, weights, coverage + weights[:, 0]


@wrong(
    'returns the old coverage when the penalty is zero',
    'The coverage that you return also contains the weights of this step.',
    'coverage not updated without a penalty',
)
def covered_step(scores, memory, coverage, penalty):
    if not penalty:  # ordinary attention
        return *attend(scores, memory.value, memory.mask), coverage
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, coverage + weights[:, 0]


@wrong(
    'limits the coverage to one, as if a position could not be read twice',
    'The **coverage** $\\mathrm{cov}_{ts}$ of source position $s$ is the sum of the weights that it has received in all steps up to step $t$.',
    'coverage limited to one',
)
def covered_step(scores, memory, coverage, penalty):
    lowered = scores - penalty * coverage[:, None]
    context, weights = attend(lowered, memory.value, memory.mask)
    return context, weights, (coverage + weights[:, 0]).clamp(max=1)
