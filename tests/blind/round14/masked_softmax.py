import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
AXES = "Your code must work in all three cases."
ZERO = "The weight of a forbidden position must be exactly 0."
SUM = "The weights of the allowed positions in its row must still sum to one."
EMPTY = (
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`."
)
EMPTY_GRAD = "The gradients of its scores must be 0 as well."
FEWER = (
    "`mask` may have fewer axes than `scores`, and some of its axes may have length"
    " one."
)


@right("an extra sink column takes the whole weight of a row that allows nothing")
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    low = scores.masked_fill(~mask, -math.inf)
    empty = ~mask.expand(scores.shape).any(dim=-1, keepdim=True)
    sink = torch.zeros_like(scores[..., :1]).masked_fill(~empty, -math.inf)
    return torch.softmax(torch.cat((low, sink), dim=-1), dim=-1)[..., :-1]


@right("streams over blocks of seven keys in float64, with a running maximum and sum")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = scores.new_ones((), dtype=torch.bool)
    low = scores.double().masked_fill(~mask.expand(scores.shape), -math.inf)
    peak = torch.full_like(low[..., :1], -math.inf).detach()
    safe, total = torch.zeros_like(peak), torch.zeros_like(peak)
    for block in low.split(7, dim=-1):
        new = torch.maximum(peak, block.detach().amax(dim=-1, keepdim=True))
        safe = new.masked_fill(new == -math.inf, 0)
        total = total * (peak - safe).exp()
        total = total + (block - safe).exp().sum(dim=-1, keepdim=True)
        peak = new
    total = total.masked_fill(total == 0, 1)
    return ((low - safe).exp() / total).to(scores.dtype)


class _Rowwise(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(scores, allowed):
        low = scores.masked_fill(~allowed, -math.inf)
        peak = low.amax(dim=-1, keepdim=True)
        peak = peak.masked_fill(peak == -math.inf, 0)
        powers = (low - peak).exp()
        total = powers.sum(dim=-1, keepdim=True)
        return powers / total.masked_fill(total == 0, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        part = grad * weights
        return part - weights * part.sum(dim=-1, keepdim=True), None


@right("an autograd function of its own with a backward pass written by hand")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    return _Rowwise.apply(scores, mask.expand(scores.shape))


@right("packs the allowed scores into one vector, sums by row with index_add, unpacks")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    size = scores.shape[-1]
    allowed = mask.expand(scores.shape).reshape(-1, size)
    flat = scores.double().reshape(-1, size)
    row = allowed.nonzero()[:, 0]
    packed = flat[allowed]
    peak = flat.new_full((len(flat),), -math.inf).detach()
    peak = peak.scatter_reduce(0, row, packed.detach(), "amax")
    powers = (packed - peak[row]).exp()
    total = torch.zeros_like(peak).index_add(0, row, powers)
    out = torch.zeros_like(flat).masked_scatter(allowed, powers / total[row])
    return out.reshape(scores.shape).to(scores.dtype)


@wrong(
    "takes the softmax over all positions and then multiplies by the mask",
    SUM,
    "masks the weights, not the scores",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
    return weights


@wrong(
    "fills with the lowest finite number and forgets the row that allows nothing: its"
    " weights are uniform",
    EMPTY,
    "empty row gets uniform weights",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1)


@wrong(
    "exponentials without subtracting the maximum: inf / inf for large scores, and 0"
    " weights for very low ones",
    OVERFLOW,
    "softmax without subtracting the maximum",
)
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores)
    if mask is not None:
        powers = powers.masked_fill(~mask, 0)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


@wrong(
    "adds the logarithm of the mask plus 1e-9, so that a forbidden position keeps a"
    " tiny weight (or a large one if its score is large)",
    ZERO,
    "forbidden positions keep tiny weights",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    weights = torch.softmax(scores + (mask.to(scores.dtype) + 1e-9).log(), dim=-1)
    return weights * mask.any(dim=-1, keepdim=True)


@wrong(
    "adds a bias of minus infinity and replaces nan afterwards: right weights, but nan"
    " gradients in a row that allows nothing",
    EMPTY_GRAD,
    "nan gradients in an empty row",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
        scores = scores + bias.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0)


@wrong(
    "subtracts the maximum over all positions, forbidden ones too: if a forbidden"
    " score is far above, all allowed weights underflow to 0",
    SUM,
    "maximum includes forbidden positions",
)
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True).detach())
    if mask is not None:
        powers = powers * mask.to(powers.dtype)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.clamp(min=torch.finfo(powers.dtype).tiny)


@wrong(
    "fills with the lowest score of the row minus 100, which is lost in rounding if"
    " the scores are huge (1e10 in float32): forbidden positions then take a share",
    LENGTHS,
    "relative fill value lost in rounding",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    floor = scores.detach().amin(dim=-1, keepdim=True) - 100
    weights = torch.softmax(torch.where(mask, scores, floor), dim=-1)
    return weights.masked_fill(~mask, 0)


@wrong(
    "subtracts the maximum in place; with a mask the scores are a new tensor by then,"
    " but without a mask the caller's scores are changed",
    INPUTS,
    "changes scores in place without mask",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    scores -= scores.detach().amax(dim=-1, keepdim=True)
    weights = scores.exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights if mask is None else weights.masked_fill(~mask, 0)


@wrong(
    "inserts missing axes of the mask after its first axis, not in front: a mask (T, S)"
    " or (S,) for scores with more axes is misread or raises an error",
    FEWER,
    "aligns the mask's axes on the left",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    while mask.dim() < scores.dim():
        mask = mask.unsqueeze(1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0)


@wrong(
    "detaches the sum in the denominator: right weights, but each score's gradient"
    " misses what the others lose",
    GRADS,
    "no gradient through the denominator",
)
def masked_softmax(scores, mask=None):
    low = scores
    if mask is not None:
        low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    powers = torch.exp(low - low.detach().amax(dim=-1, keepdim=True))
    if mask is not None:
        powers = powers.masked_fill(~mask, 0)
    with torch.no_grad():
        total = powers.sum(dim=-1, keepdim=True)
        total = torch.where(total == 0, torch.ones_like(total), total)
    return powers / total
