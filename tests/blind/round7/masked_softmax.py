import torch
from torch import nn
from torch.nn import functional as F
from blind import right, wrong


@right("softmax by hand: largest allowed score, exponentials, safe divisor")
def masked_softmax(scores, mask=None):
    if scores.numel() == 0:
        return torch.zeros_like(scores)
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = mask.expand(scores.shape)
    dtype = scores.dtype
    if dtype != torch.float64:
        scores = scores.to(torch.float32)
    low = torch.finfo(scores.dtype).min
    top = torch.where(mask, scores, low).amax(dim=-1, keepdim=True).detach()
    top = torch.where(mask.any(dim=-1, keepdim=True), top, torch.zeros_like(top))
    shifted = torch.where(mask, scores - top, torch.zeros_like(scores))
    powers = torch.where(mask, shifted.exp(), torch.zeros_like(scores))
    total = powers.sum(dim=-1, keepdim=True)
    return (powers / torch.where(total > 0, total, torch.ones_like(total))).to(dtype)


@right("loops over all rows and takes the softmax of the allowed entries alone")
def masked_softmax(scores, mask=None):
    if scores.numel() == 0:
        return torch.zeros_like(scores)
    if mask is None:
        return torch.exp(F.log_softmax(scores, dim=-1))
    allowed = mask.expand(scores.shape).reshape(-1, scores.size(-1))
    rows = []
    for row, keep in zip(scores.reshape(-1, scores.size(-1)), allowed):
        places = keep.nonzero()[:, 0]
        weights = torch.zeros_like(row)
        weights = weights.index_add(0, places, row[places].softmax(dim=0))
        rows.append(weights)
    return torch.stack(rows).reshape(scores.shape)


@right("rows without an allowed position are opened for the softmax and cleared after")
def masked_softmax(scores, mask=None, dim=-1):
    if mask is None:
        return F.softmax(scores, dim=dim)
    mask = torch.broadcast_to(mask, scores.shape)
    empty = mask.logical_not().all(dim=dim, keepdim=True)
    hidden = scores.masked_fill(~(mask | empty), float("-inf"))
    return F.softmax(hidden, dim=dim).masked_fill(empty, 0.0)


@right("an autograd function with a backward pass of its own")
def masked_softmax(scores, mask=None):
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            if mask is None:
                weights = torch.softmax(given, -1)
            else:
                low = torch.finfo(given.dtype).min
                weights = torch.softmax(given.masked_fill(~mask, low), -1)
                weights = weights * mask
            ctx.save_for_backward(weights)
            return weights

        @staticmethod
        def backward(ctx, grad):
            (weights,) = ctx.saved_tensors
            return weights * (grad - (weights * grad).sum(-1, keepdim=True))

    return Softmax.apply(scores)


@wrong(
    "masks the weights after the softmax and does not divide again: with any forbidden position the row sums to less than one",
    "a forbidden position has weight exactly 0, and the allowed positions of its row still sum to one;",
    "masks the weights instead of the scores",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
    return weights


@wrong(
    "minus infinity and nothing else: a row that may attend to nothing is nan",
    "a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient;",
    "empty row gives nan",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


@wrong(
    "masked_fill_ writes the lowest number into the caller's scores",
    "the scores that came in are unchanged afterwards.",
    "changes the scores in place",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "adds log(mask) and replaces nan afterwards: the weights of an empty row are 0, its gradient is nan",
    "a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient;",
    "nan_to_num repairs the weights, not the gradient",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    weights = torch.softmax(scores + mask.to(scores.dtype).log(), dim=-1)
    return weights.nan_to_num(0.0)


@wrong(
    "indexes the scores with the mask, which needs the same shape: raises for (B, 1, S) or (S,)",
    "`mask` may have fewer axes than `scores`, or axes of length one: (B, 1, S) is common;",
    "indexing with the mask does not broadcast",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    hidden = scores.clone()
    hidden[~mask] = torch.finfo(scores.dtype).min
    weights = hidden.softmax(dim=-1)
    weights = weights.clone()
    weights[~mask] = 0
    return weights


@wrong(
    "subtracts the largest of all scores, the forbidden ones too: if a forbidden score is larger by 200, all exponentials are 0 and so is the row",
    "a forbidden position has weight exactly 0, and the allowed positions of its row still sum to one;",
    "maximum taken over forbidden positions too",
)
def masked_softmax(scores, mask=None):
    powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


@wrong(
    "fills with the lowest float32 number whatever the dtype: raises for half-precision scores with a mask",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "lowest number of the wrong dtype",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = torch.finfo(torch.float32).min
    return scores.masked_fill(~mask, low).softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "thinks of the mask that allows nothing at all, but not of one empty row among others: that row is nan",
    "a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient;",
    "handles an empty mask, not an empty row",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if not mask.any():
        return scores * 0
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


_forbidden = {}


@wrong(
    "keeps the negated mask by its shape: a second call with another mask of the same shape gets the first mask",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "mask remembered from an earlier call",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.shape not in _forbidden:
        _forbidden[mask.shape] = ~mask
    forbidden = _forbidden[mask.shape].to(scores.device)
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(forbidden, low).softmax(dim=-1).masked_fill(forbidden, 0)


@wrong(
    "fills with -10000 and clears afterwards: where the allowed scores are below that (-20000, say) they get weight 0 and the row does not sum to one",
    "a forbidden position has weight exactly 0, and the allowed positions of its row still sum to one;",
    "fill value is not low enough",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -1e4).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)
