import math
import torch
from torch import nn
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "multiplies the softmax of all scores by the mask, without dividing again: a row with a forbidden position sums to less than one",
    "The weights of the allowed positions in its row must still sum to one.",
    "masks the weights instead of the scores",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
    return weights


@wrong(
    "fills the positions where the mask is True, so the padding gets all the weight as soon as a mask is given",
    "In a mask, `True` means that a position is allowed.",
    "mask read the wrong way round",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(mask, 0)


@wrong(
    "takes the softmax over axis -2, the queries: columns sum to one instead of rows whenever T is not S or the scores are not symmetric",
    "Weights (..., T, S): each row sums to one; a row that may attend to nothing is",
    "softmax over the queries, wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-2)
    low = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, low).softmax(dim=-2)
    return weights.masked_fill(~mask, 0)


# ------------------------------------------------------------------------- corners


@wrong(
    "adds minus infinity and removes the nan of an empty row afterwards with nan_to_num: the weights are right, but the gradients of the scores of that row are nan",
    "The gradients of its scores must be 0 as well.",
    "nan repaired after the softmax, gradient still nan",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        bias = torch.zeros_like(mask, dtype=scores.dtype)
        scores = scores + bias.masked_fill(~mask, -math.inf)
    return torch.nan_to_num(scores.softmax(dim=-1))


@wrong(
    "fills with -100: in a row whose allowed scores lie near or below -100, the forbidden positions take weight, which is then set to 0 without dividing again, so rows of scores near -200 are all 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "fill value is not low enough",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    weights = torch.softmax(scores.masked_fill(~mask, -100.0), dim=-1)
    return weights.masked_fill(~mask, 0.0)


@wrong(
    "subtracts the maximum of the whole row, forbidden positions included: if a forbidden score is some hundreds above the allowed ones, all exponentials are 0 and the row becomes 0",
    "The weights of the allowed positions in its row must still sum to one.",
    "maximum taken over forbidden positions too",
)
def masked_softmax(scores, mask=None):
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    if mask is not None:
        e = e * mask
    total = e.sum(dim=-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1)


@wrong(
    "indexes the scores with the mask, after a view that assumes (B, S) or (B, 1, S): a mask (S,) or (T, S) for scores (B, T, S) raises or is misread",
    "`mask` may have fewer axes than `scores`, and some of its axes may have length one.",
    "assumes the mask starts with the batch axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    while mask.dim() < scores.dim():
        mask = mask.unsqueeze(1) if mask.dim() > 1 else mask.unsqueeze(-1)
    mask = mask.expand(scores.shape)
    low = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, low).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)


# ------------------------------------------------------------------- hard to notice


@wrong(
    "adds (~mask) * finfo.min instead of filling; bool times a Python float is float32, so bfloat16 scores give float32 weights, and float64 scores give nan (False * -inf) in every row",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "additive mask computed in the default dtype",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    bias = (~mask) * torch.finfo(scores.dtype).min
    weights = torch.softmax(scores + bias, dim=-1)
    return weights * mask


@wrong(
    "counts the allowed positions and allows that many from the left: right for padding and causal masks, wrong for a mask such as F T T or T F T",
    "In a mask, `True` means that a position is allowed.",
    "assumes that allowed positions always come first",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    size = scores.shape[-1]
    lengths = mask.expand(*mask.shape[:-1], size).sum(dim=-1, keepdim=True)
    allowed = torch.arange(size, device=scores.device) < lengths
    low = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~allowed, low).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0)


@wrong(
    "subtracts one maximum for the whole tensor: in a batch where one row's scores lie some hundreds above those of another row, the lower row underflows to all zeros",
    r"A row of scores $e_{t1}, \dots, e_{tS}$ becomes a row of weights that sum to one:",
    "stabilised with the maximum of the whole tensor",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    filled = scores.masked_fill(~mask, -math.inf)
    top = filled.max().detach()
    if top == -math.inf:
        return filled.masked_fill(~mask, 0)
    e = (filled - top).exp()
    total = e.sum(dim=-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1)


# --------------------------------------------------------------------------- right


@right("exponentials by hand, shifted by the largest allowed score of the row")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    work = scores if scores.dtype == torch.float64 else scores.float()
    work = torch.where(mask, work, -math.inf)
    top = work.detach().amax(dim=-1, keepdim=True)
    top = torch.where(top == -math.inf, 0.0, top)
    e = torch.exp(work - top)
    total = e.sum(dim=-1, keepdim=True)
    return (e / torch.where(total == 0, 1.0, total)).to(scores.dtype)


@right("a Python loop over the rows: softmax of the selected scores only, put back by index")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    shape = scores.shape
    rows = scores.reshape(-1, shape[-1])
    allowed = mask.expand(shape).reshape(-1, shape[-1])
    result = []
    for row, ok in zip(rows, allowed):
        index = ok.nonzero().flatten()
        line = row * 0
        if len(index) > 0:
            line = line.index_put((index,), torch.softmax(row[index], dim=0))
        result.append(line)
    return torch.stack(result).reshape(shape)


@right("log_softmax and exp, the empty rows opened first and closed at the end")
def masked_softmax(scores, mask=None, dim=-1):
    if mask is None:
        return nn.functional.log_softmax(scores, dim=dim).exp()
    mask = torch.broadcast_to(mask, scores.shape)
    empty = mask.logical_not().all(dim=dim, keepdim=True)
    opened = torch.where(mask | empty, scores, torch.full_like(scores, -math.inf))
    weights = nn.functional.log_softmax(opened, dim=dim).exp()
    return torch.where(mask, weights, torch.zeros_like(weights))


class _MaskedSoftmax:
    """A callable object without state."""

    def __call__(self, scores, mask=None):
        if mask is None:
            return nn.Softmax(dim=-1)(scores)
        forbidden = torch.logical_not(mask)
        low = torch.finfo(scores.dtype).min
        weights = nn.Softmax(dim=-1)(scores.masked_fill(forbidden, low))
        return weights.masked_fill(forbidden, 0.0)


@right("the function is a wrapper around a callable object; finfo.min, then zero")
def masked_softmax(scores, mask=None):
    return _MaskedSoftmax()(scores, mask)
