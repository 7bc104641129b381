import torch
from torch import nn
from blind import right, wrong

INPUTS = "Do not change the inputs."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
ZERO_ROW = "In a row in which *nothing* is allowed, all weights must be 0, not `nan`."
ZERO_GRAD = "The gradients of its scores must be 0 as well."
SUM = "The weights of the allowed positions in its row must still sum to one."
FEWER = "`mask` may have fewer axes than `scores`, and some of its axes may have length one."
DOC = "Weights (..., T, S): each row sums to one; a row that may attend to nothing is zero."
OVERFLOW = "An exponential, however, may overflow."


@right("writes the softmax out: shifts by the largest allowed score, exponentiates, divides by the sum or by one")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    shut = mask.logical_not()
    low = scores.masked_fill(shut, -torch.inf)
    top = low.amax(dim=-1, keepdim=True).detach()
    top = top.masked_fill(top == -torch.inf, 0)
    shares = (low - top).exp()
    total = shares.sum(dim=-1, keepdim=True)
    return shares / total.masked_fill(total == 0, 1)


@right("appends a sink column that takes all weight of a row that may attend to nothing, and cuts it off again")
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    mask = mask.broadcast_to(scores.shape)
    sink = torch.zeros_like(scores[..., :1]).masked_fill(mask.any(dim=-1, keepdim=True), -torch.inf)
    padded = torch.cat([scores.masked_fill(~mask, -torch.inf), sink], dim=-1)
    return padded.softmax(dim=-1)[..., :-1]


@right("exp(score - logsumexp); in rows without an allowed position all scores are kept and the row is zeroed at the end")
def masked_softmax(scores, mask=None):
    if mask is None:
        return (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).softmax(dim=-1)
    mask = mask.broadcast_to(scores.shape)
    some = mask.any(dim=-1, keepdim=True)
    kept = torch.where(mask | ~some, scores, torch.full_like(scores, -torch.inf))
    return torch.where(some, kept.log_softmax(dim=-1).exp(), torch.zeros_like(kept))


class SoftmaxOver(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, mask):
        wide = scores.double().masked_fill(~mask, -torch.inf)
        top = wide.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)
        shares = (wide - top).exp()
        weights = shares / shares.sum(dim=-1, keepdim=True).clamp(min=1.0)
        ctx.save_for_backward(weights)
        return weights.to(scores.dtype)

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        wide = grad.double()
        inner = (wide * weights).sum(dim=-1, keepdim=True)
        return (weights * (wide - inner)).to(grad.dtype), None


@right("an autograd.Function with its own backward, computed in float64")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    return SoftmaxOver.apply(scores, mask.broadcast_to(scores.shape))


@wrong("fills with minus infinity and does nothing about rows without an allowed position: nan there", breaks=ZERO_ROW, name="nan in an empty row")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1)


@wrong("masks the weights after a softmax over all positions and does not renormalize", breaks=SUM, name="masked the weights, not the scores")
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    return weights if mask is None else weights.masked_fill(~mask, 0)


@wrong("divides exponentials without shifting first: nan for scores of 1000 and more, 0 / 0 for scores of -1000", breaks=OVERFLOW, name="exponential without a shift")
def masked_softmax(scores, mask=None):
    shares = scores.exp()
    if mask is not None:
        shares = shares.masked_fill(~mask, 0)
    total = shares.sum(dim=-1, keepdim=True)
    return shares / torch.where(total == 0, torch.ones_like(total), total)


@wrong("adds minus infinity and repairs the empty row by nan_to_num: the weights are right, but the gradient of an empty row is nan", breaks=ZERO_GRAD, name="nan gradient behind nan_to_num")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device).masked_fill(~mask, -torch.inf)
    return torch.nan_to_num((scores + bias).softmax(dim=-1), nan=0.0)


@wrong("fills with -1e4: with allowed scores of -20000, the forbidden positions take all the weight, which is then zeroed", breaks=SUM, name="a low number that is not low enough")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -1e4).softmax(dim=-1).masked_fill(~mask, 0)


@wrong("shifts by the largest score of the whole row, forbidden ones included: a forbidden score of 1e4 next to allowed scores near 0 makes all weights 0", breaks=SUM, name="shift by a forbidden score")
def masked_softmax(scores, mask=None):
    shares = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    if mask is not None:
        shares = shares * mask
    total = shares.sum(dim=-1, keepdim=True)
    return shares / total.masked_fill(total == 0, 1)


@wrong("takes every mask of two axes for (B, S) and inserts an axis: wrong for a mask (T, S)", breaks=FEWER, name="a mask of two axes taken for padding")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dim() == 2 and scores.dim() > 2:
        mask = mask[:, None, :]
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)


@wrong("computes in float32 and converts back: float64 scores lose half of their digits", breaks=PRECISE, name="float64 through float32")
def masked_softmax(scores, mask=None):
    work = scores.float()
    if mask is None:
        return work.softmax(dim=-1).to(scores.dtype)
    weights = work.masked_fill(~mask, torch.finfo(torch.float32).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0).to(scores.dtype)


@wrong("recognizes the empty row by its equal scores: a row with one position, or with equal scores at all its positions, becomes zero, too", breaks=DOC, name="equal scores taken for an empty row")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    empty = low.amax(dim=-1, keepdim=True) == low.amin(dim=-1, keepdim=True)
    return low.softmax(dim=-1).masked_fill(~mask, 0).masked_fill(empty, 0)


@wrong("saves memory under no_grad and for tensors without gradient by filling the caller's scores in place", breaks=INPUTS, name="in place if nobody asks for a gradient")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = torch.finfo(scores.dtype).min
    if torch.is_grad_enabled() and scores.requires_grad:
        filled = scores.masked_fill(~mask, low)
    else:
        filled = scores.masked_fill_(~mask, low)
    return filled.softmax(dim=-1).masked_fill(~mask, 0)
