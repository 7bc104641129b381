import torch
from torch.nn import functional as F
from blind import right, wrong


@right("loops over the rows and fills in the softmax of the allowed scores")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    mask = mask.expand(scores.shape)
    width = scores.size(-1)
    rows = []
    for row, allowed in zip(scores.reshape(-1, width), mask.reshape(-1, width)):
        places = allowed.nonzero()[:, 0]
        weights = torch.zeros_like(row)
        if len(places):
            weights = weights.index_put((places,), row[places].softmax(dim=0))
        rows.append(weights)
    return torch.stack(rows).view(scores.shape) if rows else scores.clone()


@right("minus infinity for forbidden scores, repaired before the softmax with where")
def masked_softmax(scores, mask=None):
    if mask is None:
        return F.softmax(scores, dim=-1)
    some = mask.any(dim=-1, keepdim=True)
    low = torch.where(mask, scores, torch.full_like(scores, float("-inf")))
    low = torch.where(some, low, torch.zeros_like(low))
    return torch.where(mask, F.softmax(low, dim=-1), torch.zeros_like(scores))


@right("exp and sum written by hand; the highest allowed score is subtracted first")
def masked_softmax(scores, mask=None, dim=-1):
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if mask is not None:
        allowed = allowed & mask
    lowest = torch.finfo(scores.dtype).min
    top = scores.detach().masked_fill(~allowed, lowest).amax(dim=dim, keepdim=True)
    shifted = (scores - top).masked_fill(~allowed, float("-inf"))
    powers = shifted.exp()
    total = powers.sum(dim=dim, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


@right("through log-weights: scores minus the logsumexp of the allowed ones")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.log_softmax(-1).exp()
    forbidden = mask.logical_not().expand_as(scores)
    nothing = forbidden.all(-1, keepdim=True)
    filled = scores.masked_fill(forbidden & ~nothing, float("-inf"))
    filled = filled - filled.detach().amax(-1, keepdim=True)
    logs = filled - filled.logsumexp(-1, keepdim=True)
    return logs.exp().masked_fill(forbidden | nothing, 0.0)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "sets the weights of forbidden positions to zero after the softmax: the others no"
    " longer sum to one",
    "a forbidden position has weight exactly 0, and the allowed positions of its row"
    " still sum to one;",
    "masks the weights, not the scores",
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights


@wrong(
    "minus infinity and nothing else: a row in which nothing is allowed is nan",
    "in a row in which *nothing* is allowed, all weights are 0, not `nan`, and so are"
    " the gradients of its scores;",
    "nan in a row that allows nothing",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


@wrong(
    "`masked_fill_` and an index write into the scores that it was given",
    "your function does not change the scores that it is given.",
    "masks the given scores in place",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    scores.data.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


# --- corners -----------------------------------------------------------------------


@wrong(
    "minus a billion as the low score: a row whose allowed scores are lower still (-1e10)"
    " puts its weight on the forbidden positions, or on none",
    "scores: (..., T, S), any real numbers.",
    "-1e9 is not lower than every score",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = -6e4 if scores.dtype == torch.float16 else -1e9
    return scores.masked_fill(~mask, low).softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong(
    "indexes `scores[~mask]`: works for a mask of the scores' shape, raises an error or"
    " masks other things for (B, 1, S)",
    "`mask` may have fewer axes than `scores`, or axes of length one: (B, 1, S) is"
    " common;",
    "mask must have the scores' shape",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = scores.clone()
    low[~mask] = torch.finfo(scores.dtype).min
    weights = low.softmax(dim=-1)
    zero = torch.zeros_like(weights)
    return torch.where(mask, weights, zero)


@wrong(
    "adds minus infinity to the forbidden scores and turns nan into 0 afterwards: the"
    " weights are right, the gradient of a row that allows nothing is nan",
    "in a row in which *nothing* is allowed, all weights are 0, not `nan`, and so are"
    " the gradients of its scores;",
    "nan_to_num hides nan, gradient stays nan",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        wall = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
        scores = scores + wall.masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(scores.softmax(dim=-1), nan=0.0)


@wrong(
    "softmax over all positions, mask, then divide by what is left: if a forbidden score"
    " is 200 higher than the allowed ones, nothing is left and the row is zero",
    "a forbidden position has weight exactly 0, and the allowed positions of its row"
    " still sum to one;",
    "renormalises; a high forbidden score drowns the row",
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / total.clamp(min=torch.finfo(weights.dtype).tiny)
    return weights


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "takes a row to be empty if its first position is forbidden: right for padding at"
    " the end, but with padding at the front every such row becomes zero",
    "a forbidden position has weight exactly 0, and the allowed positions of its row"
    " still sum to one;",
    "empty row recognised by its first position",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = low.softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights.masked_fill(~mask[..., :1], 0.0)


@wrong(
    "no second look at the mask: recognises an empty row by its weights being all equal"
    " and sets it to zero; rows of equal scores, and rows with one key, are zero, too",
    "Weights (..., T, S): each row sums to one; a row that may attend to nothing is"
    " zero.",
    "uniform rows are taken for empty ones",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    same = (scores == scores[..., :1]).all(dim=-1, keepdim=True)
    return weights.masked_fill(same, 0.0)


@wrong(
    "turns the mask round in place to save memory: the caller's mask is inverted, and a"
    " second call with it attends to the padding",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "inverts the given mask in place",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    forbidden = mask.logical_not_()
    low = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    return low.softmax(dim=-1).masked_fill(forbidden, 0.0)
