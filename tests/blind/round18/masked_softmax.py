import torch
from torch import nn
from blind import right, wrong

EXACT_ZERO = "The weight of a forbidden position must be exactly 0."
SUM_TO_ONE = "The weights of the allowed positions in its row must still sum to one."
EMPTY_ROW = (
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`."
)
EMPTY_GRADIENT = "The gradients of its scores must be 0 as well."
BROADCAST = (
    "`mask` may have fewer axes than `scores`, and some of its axes may have length"
    " one."
)
TRUE_ALLOWED = "In a mask, `True` means that a position is allowed."
ROWS = (
    "Weights (..., T, S): each row sums to one; a row that may attend to nothing is"
)
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)


def _spread(scores, mask):
    """The mask in the full shape of the scores."""
    if mask is None:
        return torch.ones_like(scores, dtype=torch.bool)
    return mask.broadcast_to(scores.shape)


@right("minus infinity, with rows without an allowed position set to 0 beforehand")
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    nothing = ~mask.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0.0)
    return torch.softmax(filled, dim=-1).masked_fill(~mask, 0.0)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, allowed):
        low = scores.masked_fill(~allowed, -torch.inf)
        top = low.amax(dim=-1, keepdim=True)
        top = top.masked_fill(top == -torch.inf, 0)
        raised = (low - top).exp()
        total = raised.sum(dim=-1, keepdim=True)
        weights = raised / total.masked_fill(total == 0, 1)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        return weights * (grad - (grad * weights).sum(dim=-1, keepdim=True)), None


@right("an autograd function of its own, with exponentials and the gradient by hand")
def masked_softmax(scores, mask=None):
    return _Softmax.apply(scores, _spread(scores, mask))


@right("row by row: the softmax of the allowed scores only, scattered into zeros")
def masked_softmax(scores, mask=None):
    size = scores.shape[-1]
    rows = []
    allowed = _spread(scores, mask).reshape(-1, size)
    for row, may in zip(scores.reshape(-1, size), allowed):
        places = may.nonzero().squeeze(-1)
        zeros = torch.zeros_like(row)
        rows.append(zeros.scatter(0, places, row[places].softmax(dim=0)))
    return torch.stack(rows).reshape(scores.shape)


@right("in float64, with the logsumexp of scores from which the maximum is subtracted")
def masked_softmax(scores, mask=None):
    allowed = _spread(scores, mask)
    wide = scores.double()
    low = torch.where(allowed, wide, -torch.inf)
    low = torch.where(allowed.any(dim=-1, keepdim=True), low, 0.0)
    shifted = low - low.amax(dim=-1, keepdim=True).detach()
    weights = (shifted - shifted.logsumexp(dim=-1, keepdim=True)).exp()
    return torch.where(allowed, weights, 0.0).to(scores.dtype)


@wrong(
    "sets the forbidden weights to 0 after an unmasked softmax",
    breaks=SUM_TO_ONE,
    name="weights masked instead of scores, not normalized again",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights


@wrong(
    "fills the scores where the mask is True",
    breaks=TRUE_ALLOWED,
    name="mask read the wrong way round",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    filled = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1).masked_fill(mask, 0.0)


@wrong(
    "the softmax runs over the queries",
    breaks=ROWS,
    name="softmax over the wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-2)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-2).masked_fill(~mask, 0.0)


@wrong(
    "fills with the lowest number, but leaves uniform weights in a row without an"
    " allowed position",
    breaks=EMPTY_ROW,
    name="the row in which nothing is allowed gets uniform weights",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1)


@wrong(
    "multiplies the scores by the mask, so forbidden positions have score 0",
    breaks=EXACT_ZERO,
    name="a score of 0 taken for a weight of 0",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores * mask
        nothing = ~mask.any(dim=-1, keepdim=True)
        return torch.softmax(scores, dim=-1).masked_fill(nothing, 0.0)
    return torch.softmax(scores, dim=-1)


@wrong(
    "adds a bias of minus infinity and replaces nan by 0: the gradients of a row"
    " without an allowed position are nan",
    breaks=EMPTY_GRADIENT,
    name="nan in the gradient of an empty row",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
        scores = scores + bias.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0)


@wrong(
    "subtracts the maximum of all scores, the forbidden ones included: if a forbidden"
    " score is much higher, the allowed exponentials all become 0",
    breaks=SUM_TO_ONE,
    name="the maximum is taken over forbidden positions, too",
)
def masked_softmax(scores, mask=None):
    raised = (scores - scores.amax(dim=-1, keepdim=True).detach()).exp()
    if mask is not None:
        raised = raised.masked_fill(~mask, 0.0)
    total = raised.sum(dim=-1, keepdim=True)
    return raised / total.masked_fill(total == 0, 1.0)


@wrong(
    "takes each row whose filled scores are all equal for an empty one, so equal"
    " scores, or a single key, get the weights 0",
    breaks=ROWS,
    name="equal scores taken for an empty row",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    equal = scores.amax(dim=-1, keepdim=True) == scores.amin(dim=-1, keepdim=True)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights.masked_fill(equal, 0.0)


@wrong(
    "assigns by a boolean index, which needs a mask in the full shape of the scores",
    breaks=BROADCAST,
    name="the mask is not broadcast",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    filled = scores.clone()
    filled[~mask] = torch.finfo(scores.dtype).min
    weights = torch.softmax(filled, dim=-1)
    return weights * mask


@wrong(
    "computes the softmax in float32 and returns float32, whatever the scores are",
    breaks=DTYPE,
    name="the result is always float32",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1, dtype=torch.float32)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(filled, dim=-1, dtype=torch.float32)
    return weights.masked_fill(~mask, 0.0)
