import torch

from blind import right, wrong


@right("minus infinity for what is forbidden, and nan_to_num for the row of nothing")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    # the backward pass of masked_fill puts zeros where it filled, also over nan
    filled = scores.masked_fill(~mask, float("-inf"))
    return filled.softmax(dim=-1).nan_to_num(0.0)


@right("by hand in float64: shifted by the largest allowed score, exp, sum, quotient")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    wide = scores.to(torch.float64)
    allowed = torch.where(mask, wide, float("-inf"))
    top = allowed.detach().amax(dim=-1, keepdim=True)
    top = torch.where(top.isinf(), torch.zeros_like(top), top)
    shares = (allowed - top).exp()
    total = shares.sum(dim=-1, keepdim=True)
    total = torch.where(total == 0, torch.ones_like(total), total)
    return (shares / total).to(scores.dtype)


@right("the exponential of a log-softmax in float64, times the mask")
def masked_softmax(scores, mask=None):
    wide = scores.double()
    if mask is not None:
        wide = torch.where(mask, wide, torch.finfo(torch.float64).min)
    weights = wide.log_softmax(dim=-1).exp()
    if mask is not None:
        weights = weights * mask
    return weights.to(scores.dtype)


@right("a loop over the rows: the softmax of the allowed scores only, scattered back")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones(1, dtype=torch.bool, device=scores.device)
    size = scores.size(-1)
    rows = scores.reshape(-1, size)
    masks = mask.broadcast_to(scores.shape).reshape(-1, size)
    out = []
    for row, allowed in zip(rows, masks):
        weights = row * 0
        if allowed.any():
            weights = weights.masked_scatter(allowed, row[allowed].softmax(dim=0))
        out.append(weights)
    return torch.stack(out).reshape(scores.shape)


@wrong(
    "takes the softmax over the queries (dim=-2), so columns sum to one",
    "A softmax turns a row of scores $e_{t1}, \\dots, e_{tS}$ into a row of weights that"
    " sum to one:",
    "softmax over the wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-2)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-2).masked_fill(~mask, 0)


@wrong(
    "takes the softmax of all scores and then sets forbidden weights to 0, without"
    " dividing by the new sum",
    "The weights of the allowed positions in its row must still sum to one.",
    "masks the weights instead of the scores",
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return weights


@wrong(
    "fills with the lowest finite number only; a row with nothing allowed gets uniform"
    " weights",
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`.",
    "row of nothing gets uniform weights",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


@wrong(
    "fills the caller's scores in place",
    "Do not change the inputs.",
    "masked_fill_ changes the scores",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "adds a bias of minus infinity and repairs the nan afterwards: the weights are"
    " right, but the nan of the softmax's backward pass reaches the scores of a row in"
    " which nothing is allowed",
    "The gradients of its scores must be 0 as well.",
    "nan gradients in a row of nothing",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    bias = torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    return (scores + bias).softmax(dim=-1).nan_to_num(0.0)


@wrong(
    "shifts by the largest score of the row, forbidden ones included: with the scores"
    " [0, 1000] and the mask [T, F], exp(-1000) is 0 and the allowed weight is 0",
    "The weights of the allowed positions in its row must still sum to one.",
    "the maximum runs over forbidden positions",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    shares = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    if mask is not None:
        shares = shares * mask
    return shares / shares.sum(dim=-1, keepdim=True).clamp(min=1e-30)


@wrong(
    "gives forbidden positions the score -1e9: with the scores [-3e9, 0] and the mask"
    " [T, F], the forbidden position takes all the weight, and the allowed one gets 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "a fixed fill number that allowed scores can undercut",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "multiplies the weights by mask.float(): bfloat16 scores give float32 weights, as"
    " soon as there is a mask",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "the mask as float32 widens bfloat16",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(dim=-1) * mask.float()


@wrong(
    "inserts axis 1 into a mask with fewer axes than the scores, as if it were one per"
    " sentence: a mask (T, S) for scores (B, T, S) becomes (T, 1, S)",
    "`mask` may have fewer axes than `scores`, and some of its axes may have length one.",
    "aligns a smaller mask on the left",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dim() < scores.dim():
        mask = mask.unsqueeze(1)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "sets forbidden scores to 0 and then forbids whatever is 0: an allowed score of"
    " exactly 0 gets no weight",
    "The sum runs over the *allowed* positions only.",
    "takes a score of 0 for a forbidden position",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    kept = scores * mask
    filled = kept.masked_fill(kept == 0, torch.finfo(scores.dtype).min)
    return filled.softmax(dim=-1).masked_fill(~mask, 0)
