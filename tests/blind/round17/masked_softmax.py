import torch
from blind import right, wrong

EXACT = "The weight of a forbidden position must be exactly 0."
SUM = "The weights of the allowed positions in its row must still sum to one."
EMPTY = "In a row in which *nothing* is allowed, all weights must be 0, not `nan`."
EMPTY_GRAD = "The gradients of its scores must be 0 as well."
FEWER = "`mask` may have fewer axes than `scores`, and some of its axes may have length one."
INPUTS = "Do not change the inputs."
PRECISE = "Compute in the dtype of the inputs or in a more precise one"
GRADIENTS = "Gradients must be right, too."
SHARE = "A softmax turns a row of scores $e_{t1}, \\dots, e_{tS}$ into a row of weights that sum to one:"
NUMBERS = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)


@right("an additional column takes the whole weight of a row without allowed positions")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    mask = mask.expand(scores.shape)
    low = torch.finfo(scores.dtype).min
    nothing = ~mask.any(dim=-1, keepdim=True)
    sink = torch.full_like(scores[..., :1], float("-inf")).masked_fill(nothing, low)
    allowed = torch.where(mask, scores, float("-inf"))
    return torch.cat([allowed, sink], dim=-1).softmax(dim=-1)[..., :-1]


@right("a loop over the rows, with a softmax over the allowed scores of each row only")
def masked_softmax(scores, mask=None):
    width = scores.shape[-1]
    rows = scores.reshape(-1, width)
    if mask is None:
        return torch.stack([row.softmax(dim=0) for row in rows]).reshape(scores.shape)
    masks = torch.broadcast_to(mask, scores.shape).reshape(-1, width)
    results = []
    for row, allowed in zip(rows, masks):
        where = allowed.nonzero()[:, 0]
        weights = row.index_select(0, where).softmax(dim=0)
        results.append(torch.zeros_like(row).index_add(0, where, weights))
    return torch.stack(results).reshape(scores.shape)


@right("exponentials by hand: shift by the largest allowed score, divide by the sum")
def masked_softmax(scores, mask=None):
    precise = scores.double()
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = mask.expand(scores.shape)
    top = precise.detach().masked_fill(~mask, float("-inf")).amax(dim=-1, keepdim=True)
    top = top.masked_fill(~mask.any(dim=-1, keepdim=True), 0)
    powers = (precise - top).masked_fill(~mask, 0).exp() * mask
    total = powers.sum(dim=-1, keepdim=True)
    return (powers / total.where(total > 0, torch.ones_like(total))).to(scores.dtype)


@right("a log-softmax over the opened rows, then the exponential, then zeros")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.log_softmax(dim=-1).exp()
    closed = torch.logical_not(mask).expand_as(scores)
    nothing = closed.all(dim=-1, keepdim=True)
    fill = torch.zeros_like(scores).masked_fill(closed & ~nothing, float("-inf"))
    shares = (scores.masked_fill(closed, 0) + fill).log_softmax(dim=-1).exp()
    return torch.where(nothing, torch.zeros_like(shares), shares)


@wrong(
    "normalizes over the queries instead of the keys",
    breaks=SHARE,
    name="softmax over the wrong axis",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-2)
    low = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, low), dim=-2)
    return weights.masked_fill(~mask, 0)


@wrong(
    "multiplies the finished weights by the mask and does not divide again",
    breaks=SUM,
    name="the mask is applied after the softmax, without a second normalization",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
    return weights


@wrong(
    "fills with minus infinity and forgets the row that may attend to nothing",
    breaks=EMPTY,
    name="nan in a fully masked row",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1)


@wrong(
    "fills with the lowest number and leaves a fully masked row uniform",
    breaks=EXACT,
    name="uniform weights in a fully masked row",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1)


@wrong(
    "adds minus infinity to forbidden scores and repairs empty rows with nan_to_num",
    breaks=EMPTY_GRAD,
    name="the weights are repaired, but the gradients are still nan",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
        scores = scores + bias.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1).nan_to_num(0.0)


@wrong(
    "shifts by the largest score of the row, even if it is a forbidden one",
    breaks=SUM,
    name="underflow when a forbidden score is much larger than the allowed ones",
)
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.clamp(min=torch.finfo(scores.dtype).tiny)


@wrong(
    "opens the fully masked rows with |=, in the caller's own mask",
    breaks=INPUTS,
    name="the mask is changed in place where a row is empty",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    nothing = ~mask.any(dim=-1, keepdim=True)
    mask |= nothing
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return weights.masked_fill(nothing, 0)


@wrong(
    "zeroes fully masked rows only if the mask has the same shape as the scores",
    breaks=FEWER,
    name="the repair of empty rows is left out for a mask that broadcasts",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    low = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, low), dim=-1)
    if mask.shape == scores.shape:
        weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0)
    return weights


@wrong(
    "computes the exponentials in float32 and converts the weights back at the end",
    breaks=PRECISE,
    name="float64 scores get weights with the precision of float32",
)
def masked_softmax(scores, mask=None):
    single = scores.to(torch.float32)
    if mask is None:
        return torch.softmax(single, dim=-1).to(scores.dtype)
    nothing = ~mask.any(dim=-1, keepdim=True)
    single = single.masked_fill(~(mask | nothing), float("-inf"))
    return torch.softmax(single, dim=-1).masked_fill(nothing, 0).to(scores.dtype)


@wrong(
    "detaches the sum of the exponentials together with the largest score",
    breaks=GRADIENTS,
    name="no gradient flows through the denominator of the softmax",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    with torch.no_grad():
        top = scores.amax(dim=-1, keepdim=True)
        top = top.masked_fill(top == float("-inf"), 0)
        total = torch.exp(scores - top).sum(dim=-1, keepdim=True)
        total = total.masked_fill(total == 0, 1)
    return torch.exp(scores - top) / total
