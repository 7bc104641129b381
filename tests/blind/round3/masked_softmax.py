import torch
import torch.nn.functional as F
from blind import right, wrong


# Right
@right("exponentials by hand above the largest allowed score of each row")
def r1(scores, mask=None):
    if scores.numel() == 0:
        return scores.clone()
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    mask = mask.expand_as(scores)
    low = torch.finfo(scores.dtype).min
    kept = torch.where(mask, scores, low)
    kept = torch.where(mask.any(dim=-1, keepdim=True), kept, torch.zeros_like(kept))
    top = kept.detach().amax(dim=-1, keepdim=True)
    shares = (kept - top).exp() * mask
    total = shares.sum(dim=-1, keepdim=True)
    return shares / torch.where(total > 0, total, torch.ones_like(total))


@right("a loop over the rows, a softmax of the allowed entries alone")
def r2(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = torch.broadcast_to(mask, scores.shape).flatten(0, -2)
    weights = (scores * 0).flatten(0, -2)
    rows = []
    for row, zero, allowed in zip(
        scores.flatten(0, -2), weights, mask, strict=True
    ):
        place = allowed.nonzero().squeeze(-1)
        rows.append(zero.index_copy(0, place, row[place].softmax(0)))
    return torch.stack(rows).view(scores.shape) if rows else scores * 0


@right("minus infinity, but an extra column at zero cost takes up the empty rows")
def r3(scores, mask=None):
    if mask is None:
        return F.softmax(scores, dim=-1)
    forbidden = ~mask.expand(scores.shape)
    empty = forbidden.all(dim=-1, keepdim=True)
    guard = scores.new_zeros((*scores.shape[:-1], 1)).masked_fill(~empty, float("-inf"))
    wide = torch.cat([scores.masked_fill(forbidden, float("-inf")), guard], dim=-1)
    return wide.softmax(dim=-1)[..., :-1]


@right("in double precision, from the logarithm: exp of log_softmax, two fills")
def r4(scores, mask=None):
    out = scores.to(torch.float64)
    if mask is not None:
        out = torch.masked_fill(out, mask == False, torch.finfo(out.dtype).min)  # noqa: E712
    out = torch.log_softmax(out, -1).exp()
    if mask is not None:
        out = torch.masked_fill(out, mask.logical_not(), 0)
    return out.type_as(scores)


# Wrong


@wrong(
    "adds a mask of minus infinity and removes the nan afterwards: the gradient has it",
    breaks="has weight 0 everywhere, not `nan`, and so has its gradient",
    name="nan in the gradient",
    subtle=True,
)
def w1(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    penalty = torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    return (scores + penalty).softmax(dim=-1).nan_to_num(0.0)


@wrong(
    "fills the scores in place",
    breaks="the scores that came in are unchanged afterwards",
    name="masked_fill_ in place",
    subtle=True,
)
def w2(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    forbidden = ~mask
    with torch.no_grad():
        scores.masked_fill_(forbidden, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(forbidden, 0)


@wrong(
    "lowest number, but no second fill: an empty row is uniform",
    breaks="a row in which *nothing* is allowed has weight 0 everywhere",
    name="uniform weights in an empty row",
    subtle=True,
)
def w3(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


@wrong(
    "exponentials without subtracting the largest: large scores overflow",
    breaks="scores: (..., T, S), any real numbers.",
    name="exponentials overflow",
    subtle=True,
)
def w4(scores, mask=None):
    shares = scores.exp()
    if mask is not None:
        shares = shares * mask
    total = shares.sum(dim=-1, keepdim=True)
    return shares / total.masked_fill(total == 0, 1)


@wrong(
    "softmax over all, masked and divided by what is left plus 1e-9: nothing is left if"
    " a forbidden score is far above",
    breaks="the allowed ones of its row still sum to one",
    name="renormalised too late",
    subtle=True,
)
def w5(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is None:
        return weights
    weights = weights * mask
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)


@wrong(
    "a mask with one axis less is taken to be (B, S)",
    breaks="`mask` may have fewer axes than `scores`, or axes of length one",
    name="a smaller mask is always (B, S)",
    subtle=True,
)
def w6(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dim() == scores.dim() - 1:
        mask = mask.unsqueeze(-2)
    out = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return out.masked_fill(~mask, 0)


@wrong(
    "writes by index into a copy, which needs a mask of full shape",
    breaks="or axes of length one: (B, 1, S) is common",
    name="index with a mask of another shape",
    subtle=True,
)
def w7(scores, mask=None):
    scores = scores.clone()
    if mask is None:
        return scores.softmax(dim=-1)
    scores[~mask] = torch.finfo(scores.dtype).min
    weights = scores.softmax(dim=-1).clone()
    weights[~mask] = 0
    return weights


@wrong(
    "subtracts the largest score of all rows: low rows become 0 / 0 or zero",
    breaks="Weights (..., T, S): each row sums to one",
    name="the largest of all rows",
    subtle=True,
)
def w8(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    shares = (scores - scores.max()).exp()
    if mask is not None:
        shares = shares * mask
    total = shares.sum(dim=-1, keepdim=True)
    return shares / total.masked_fill(total == 0, 1)


@wrong(
    "-1e9 for forbidden scores: others may be lower",
    breaks="a forbidden position has weight exactly 0, and the allowed ones of its row"
    " still sum to one",
    name="-1e9 is not the lowest number",
    subtle=True,
)
def w9(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = torch.full_like(scores, -1e9)
    weights = torch.where(mask, scores, low).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)


@wrong(
    "softmax in float32, and not back",
    breaks="the dtype and the device are kept",
    name="float32 whatever comes in",
    subtle=True,
)
def w10(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1, dtype=torch.float32)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(dim=-1, dtype=torch.float32).masked_fill(~mask, 0)
