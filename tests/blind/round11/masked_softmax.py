import math

import torch

from blind import right, wrong


@right("own exponentials, shifted by the largest allowed score of the row")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    lowest = torch.finfo(scores.dtype).min
    top = scores.masked_fill(~mask, lowest).amax(dim=-1, keepdim=True).detach()
    powers = torch.where(mask, scores - top, 0).exp() * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total == 0, 1, total)


@right("an extra column that takes the whole weight of a row with nothing allowed")
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, -1)
    allowed = mask.expand_as(scores)
    sink = scores.new_zeros(scores.shape[:-1] + (1,))
    sink = sink.masked_fill(allowed.any(dim=-1, keepdim=True), -math.inf)
    wide = torch.cat([sink, torch.where(allowed, scores, -math.inf)], dim=-1)
    return wide.softmax(dim=-1)[..., 1:]


@right("row by row: softmax over the allowed positions, then scatter")
def masked_softmax(scores, mask=None):
    flat = scores.reshape(-1, scores.shape[-1])
    if mask is None:
        keep = torch.ones_like(flat, dtype=torch.bool)
    else:
        keep = mask.expand(scores.shape).reshape(flat.shape)
    rows = []
    for row, allowed in zip(flat, keep):
        places = allowed.nonzero().squeeze(-1)
        shares = row[places].softmax(dim=0)
        rows.append(torch.zeros_like(row).scatter(0, places, shares))
    return torch.stack(rows).reshape(scores.shape)


@right("log-softmax in float64; rows with nothing allowed are opened, then zeroed")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    some = mask.expand(scores.shape).any(dim=-1, keepdim=True)
    logs = torch.where(mask | ~some, scores.double(), -math.inf).log_softmax(dim=-1)
    return (logs.exp() * some).to(scores.dtype)


@wrong(
    "softmax over the queries instead of the keys",
    "The weights of the allowed positions in its row must still sum to one.",
    "softmax over the wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-2)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-2).masked_fill(~mask, 0)


@wrong(
    "plain softmax, then the forbidden weights are set to zero",
    "The weights of the allowed positions in its row must still sum to one.",
    "masked the weights instead of the scores",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return weights


@wrong(
    "exponentials without subtracting the maximum: overflow for scores around 100",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "exponentials overflow",
)
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores)
    if mask is not None:
        powers = powers.masked_fill(~mask, 0)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


@wrong(
    "adds minus infinity and replaces nan afterwards: the gradients of a row with"
    " nothing allowed are nan",
    "The gradients of its scores must be 0 as well.",
    "nan gradients in a forbidden row",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
    bias = bias.masked_fill(~mask, -math.inf)
    return torch.nan_to_num((scores + bias).softmax(dim=-1), nan=0.0)


@wrong(
    "inserts missing axes of the mask after the first one, so a (T, S) mask is taken"
    " for a (B, S) mask",
    "`mask` may have fewer axes than `scores`, and some of its axes may have length"
    " one.",
    "mask broadcast along the wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    while mask.dim() < scores.dim():
        mask = mask.unsqueeze(1)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "fills the scores in place",
    "Do not change the inputs.",
    "changed the scores in place",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "looks after rows with nothing allowed only if the whole mask is False",
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`.",
    "nan in a row with nothing allowed",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if not mask.any():
        return scores * 0
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)


@wrong(
    "subtracts the maximum of all scores, forbidden ones too: if a forbidden score is"
    " far above the others, all allowed weights underflow to zero",
    "The weights of the allowed positions in its row must still sum to one.",
    "maximum over forbidden positions",
)
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


@wrong(
    "fills with -10000, which is not low if the allowed scores are lower still",
    "The weights of the allowed positions in its row must still sum to one.",
    "fill value not low enough",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -1e4).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)


_PREPARED = {}


@wrong(
    "keeps the inverted mask of an earlier call, found again by the mask's id: wrong if"
    " the mask was changed since, or if a new mask has got the id of a deleted one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "mask of an earlier call",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    name = (id(mask), mask.shape, scores.device)
    if name not in _PREPARED:
        _PREPARED[name] = ~mask
    forbidden = _PREPARED[name]
    filled = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    return filled.softmax(dim=-1).masked_fill(forbidden, 0)
