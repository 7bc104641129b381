import torch
from blind import right, wrong


@right("exponentials by hand, in at least float32, shifted by the largest allowed score")
def masked_softmax(scores, mask=None):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    hidden = wide.masked_fill(~mask, -torch.inf)
    top = hidden.detach().amax(dim=-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    powers = torch.exp(hidden - top)
    total = powers.sum(dim=-1, keepdim=True)
    return (powers / total.masked_fill(total == 0, 1)).to(scores.dtype)


@right("rows that may attend to nothing get a full mask first and are zeroed at the end")
def masked_softmax(scores, mask=None, lowest=float("-inf")):
    if mask is None:
        return torch.nn.functional.softmax(scores, -1)
    some = mask.any(dim=-1, keepdim=True)
    safe = torch.logical_or(mask, torch.logical_not(some))
    weights = torch.nn.functional.softmax(scores.masked_fill(~safe, lowest), -1)
    return torch.where(mask, weights, torch.zeros_like(weights))


@right("one row after the other: a softmax of the allowed scores, put back into zeros")
def masked_softmax(scores, mask=None):
    if mask is None or scores.numel() == 0:
        return scores.softmax(dim=-1)
    rows = scores.reshape(-1, scores.shape[-1])
    allowed = mask.expand(scores.shape).reshape(-1, scores.shape[-1])
    done = []
    for row, may in zip(rows, allowed):
        (index,) = torch.nonzero(may, as_tuple=True)
        done.append(torch.zeros_like(row).index_put((index,), row[index].softmax(0)))
    return torch.stack(done).reshape(scores.shape)


@right("the exponential of a log softmax, multiplied by the mask")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = torch.broadcast_to(mask, scores.shape)
    keep = mask | (mask.sum(dim=-1, keepdim=True) == 0)
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    logs = torch.where(keep, wide, float("-inf")).log_softmax(dim=-1)
    return (logs.exp() * mask).to(scores.dtype)


@wrong(
    "zeroes the forbidden weights after the softmax and does not divide again; with"
    " any forbidden position the row sums to less than one",
    "The weights of the allowed positions in its row must still sum to one.",
    "masks the weights instead of the scores",
)
def masked_softmax(scores, mask=None):
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights


@wrong(
    "fills with minus infinity and does nothing for a row without allowed positions,"
    " which becomes nan",
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`.",
    "empty row becomes nan",
)
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


@wrong(
    "fills where the mask is True, so the weights go to the forbidden positions",
    "In a mask, `True` means that a position is allowed.",
    "mask the wrong way round",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(mask, low).softmax(dim=-1).masked_fill(mask, 0.0)


@wrong(
    "fills with -1e9: float16 scores raise an error, and if the allowed scores are"
    " below -1e9 (say -1e12) the allowed weights are all 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "minus 1e9 is not low enough, nor a float16",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong(
    "adds a bias of minus infinity and repairs the nan afterwards: the weights of an"
    " empty row are 0, but the gradients of its scores are nan",
    "The gradients of its scores must be 0 as well.",
    "nan repaired forwards, still nan backwards",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
    bias = bias.masked_fill(~mask, float("-inf"))
    weights = (scores + bias).softmax(dim=-1)
    return torch.where(mask, weights, torch.zeros_like(weights))


@wrong(
    "takes a mask with fewer axes for (B, S) and inserts the missing axes after the"
    " first: a mask (T, S) for scores (B, T, S) is read as one of sentences, which"
    " gives wrong weights for T = B and an error otherwise",
    "`mask` may have fewer axes than `scores`, and some of its axes may have length"
    " one.",
    "always takes a short mask for (B, S)",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    while mask.dim() < scores.dim() and mask.dim() > 1:
        mask = mask.unsqueeze(1)
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, low).softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong(
    "fills the scores in place, so the caller's scores are changed at all forbidden"
    " positions",
    "Do not change the inputs.",
    "masked_fill_ changes the scores",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    hidden = scores.detach()  # no gradient through the filling
    hidden.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong(
    "shifts by the largest score of the whole row, forbidden positions included: if a"
    " forbidden score is 200 above the allowed ones, these all become 0",
    "The weights of the allowed positions in its row must still sum to one.",
    "maximum taken over forbidden positions too",
)
def masked_softmax(scores, mask=None):
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    if mask is not None:
        powers = powers.masked_fill(~mask, 0.0)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total == 0, torch.ones_like(total), total)


@wrong(
    "returns zeros only if the whole mask is False; one empty row among others is nan",
    "In a row in which *nothing* is allowed, all weights must be 0, not `nan`.",
    "asks for the whole mask, not for each row",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    if not mask.any():
        return scores * 0.0
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


@wrong(
    "fills with the lowest finite number and zeroes only the empty rows: if the"
    " allowed scores are about as low (float16 scores of -65500, say), the forbidden"
    " positions keep a weight",
    "The weight of a forbidden position must be exactly 0.",
    "relies on underflow for the forbidden weights",
)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, low).softmax(dim=-1)
    return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
