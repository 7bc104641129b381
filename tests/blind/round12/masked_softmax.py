import math

import torch
from torch import nn

from attention_course.masks import padding_mask
from attention_course.scores import Score

from blind import right, wrong


@right("minus infinity, then nan_to_num; masked_fill blocks the gradient of the row")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)


@right("exponentials by hand in float64, the largest allowed score subtracted")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    forbidden = ~mask.expand_as(scores)
    x = scores.double()
    top = x.detach().masked_fill(forbidden, -math.inf).amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    e = (x - top).masked_fill(forbidden, -math.inf).exp()
    total = e.sum(dim=-1, keepdim=True)
    return (e / total.masked_fill(total == 0, 1.0)).to(scores.dtype)


@right("a loop over the rows: a softmax of the allowed scores only, put into zeros")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    size = scores.size(-1)
    rows = []
    allowed = mask.broadcast_to(scores.shape).reshape(-1, size)
    for row, keep in zip(scores.reshape(-1, size), allowed):
        out = row * 0
        if keep.any():
            out[keep] = row[keep].softmax(0)
        rows.append(out)
    return torch.stack(rows).reshape(scores.shape)


@right("exp of log_softmax, torch.where before and after")
def masked_softmax(scores, mask=None):
    if mask is None:
        return nn.functional.log_softmax(scores, dim=-1).exp()
    lowest = torch.finfo(scores.dtype).min
    logs = nn.functional.log_softmax(torch.where(mask, scores, lowest), dim=-1)
    return torch.where(mask, logs.exp(), 0.0)


@wrong(
    "takes the softmax over all positions and then sets the forbidden weights to 0",
    "The weights of the allowed positions in its row must still sum to one.",
    "masks the weights, not the scores",
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return weights


@wrong(
    "fills where the mask is True",
    "In a mask, `True` means that a position is allowed.",
    "mask upside down",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(mask, lowest).softmax(dim=-1).masked_fill(mask, 0)


@wrong(
    "fills with the lowest finite number and does not repair the row without any"
    " allowed position: it gets even weights",
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`.",
    "even weights where nothing is allowed",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


@wrong(
    "returns zeros only if the whole mask is False; a single forbidden row among others"
    " becomes nan",
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`.",
    "looks at the whole mask instead of at each row",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if not mask.any():
        return scores * 0
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


@wrong(
    "takes the softmax over axis 2, which is the last one for (B, T, S) only; for"
    " (B, H, T, S) it is the axis of the queries, and (T, S) has no such axis",
    "Your code must work in all three cases.",
    "axis counted from the front",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=2)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=2).masked_fill(~mask, 0)


@wrong(
    "adds minus infinity and replaces the nan of the forbidden row afterwards: the"
    " weights are right, but the sum passes the nan of the softmax's gradient on",
    "The gradients of its scores must be 0 as well.",
    "nan gradients in a row where nothing is allowed",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1).nan_to_num(0.0)


@wrong(
    "fills with -1e9, which is not low beside allowed scores of, say, -3e9: the"
    " forbidden positions then take all the weight, and the row sums to 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "a fixed fill value",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "masks the weights and divides by their sum: if a forbidden score is 200 above the"
    " allowed ones, their weights have underflowed and the row sums to 0",
    "The weights of the allowed positions in its row must still sum to one.",
    "renormalises after the softmax",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is None:
        return weights
    weights = weights * mask
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


@wrong(
    "fills the scores of the caller in place",
    "Do not change the inputs.",
    "changes the scores",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "takes any mask of two axes for (B, S) if the scores have three, so a mask (T, S),"
    " such as a causal one, fails or, for B = T, is applied to the wrong axis",
    "`mask` may have fewer axes than `scores`, and some of its axes may have length"
    " one.",
    "guesses what the axes of the mask mean",
    subtle=True,
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dim() == 2 and scores.dim() == 3:
        mask = mask[:, None]
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0)
