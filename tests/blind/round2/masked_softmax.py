import torch

from blind import right, wrong

FORBIDDEN = "a forbidden position has weight exactly 0, and the allowed ones of its row still sum to one;"
NOTHING = "a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient;"
AXES = "`mask` may have fewer axes than `scores`, or axes of length one: (B, 1, S) is common;"
SAME = "the scores that came in are unchanged afterwards."
TRUE = "True = may attend, broadcastable to `scores`; None allows everything."
REAL = "(..., T, S), any real numbers."
DTYPE = "(what it was handed is unchanged, and the dtype and the device are kept)"


@right("minus infinity, dead rows made harmless before the softmax")
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, -1)
    allowed = mask.broadcast_to(scores.shape)
    dead = ~allowed.any(-1, keepdim=True)
    low = scores.masked_fill(~allowed, -torch.inf).masked_fill(dead, 0.0)
    return low.softmax(-1).masked_fill(~allowed, 0.0)


@right("the formula, shifted by the largest allowed score")
def masked_softmax(scores, mask=None):
    if scores.numel() == 0:
        return scores.clone()
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    low = torch.where(allowed, scores, -torch.inf)
    top = low.detach().amax(-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    e = (low - top).exp()
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


@right("row by row, over the allowed scores alone")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.tensor(True, device=scores.device)
    allowed = mask.expand_as(scores).flatten(0, -2)
    rows = scores.flatten(0, -2)
    out = torch.zeros_like(rows)
    for i in range(len(rows)):
        if allowed[i].any():
            out[i, allowed[i]] = rows[i, allowed[i]].softmax(0)
    return out.reshape(scores.shape)


@right("log_softmax and exp")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.log_softmax(-1).exp()
    allowed = mask & torch.ones_like(scores, dtype=torch.bool)
    some = allowed.any(dim=-1, keepdim=True)
    # a row that may attend to nothing is read as if it might attend to everything
    logs = scores.masked_fill(some & ~allowed, -torch.inf).log_softmax(-1)
    return torch.where(allowed, logs, -torch.inf).exp()


@wrong("weights multiplied by the mask", breaks=FORBIDDEN, name="weights masked in place of scores")
def masked_softmax(scores, mask=None):
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


@wrong("True taken for forbidden", breaks=TRUE, name="mask the wrong way round")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    low = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return low.softmax(-1).masked_fill(mask, 0.0)


@wrong("minus infinity and nothing else", breaks=NOTHING, name="nan where nothing is allowed")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1)


@wrong("softmax, mask, and divide by what is left", breaks=FORBIDDEN, name="allowed weights vanish beside a large forbidden score", subtle=True)
def masked_softmax(scores, mask=None):
    weights = scores.softmax(-1)
    if mask is None:
        return weights
    weights = weights * mask
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


@wrong("fills the scores in place", breaks=SAME, name="input changed", subtle=True)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    scores.data.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1).masked_fill(~mask, 0.0)


@wrong("nan mended afterwards: the gradient is still nan", breaks=NOTHING, name="nan in the gradient", subtle=True)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    low = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
    return (scores + low).softmax(-1).nan_to_num(0.0)


@wrong("always single precision", breaks=DTYPE, name="dtype not kept", subtle=True)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1, dtype=torch.float32)
    low = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return low.softmax(-1).masked_fill(~mask, 0.0)


@wrong("exponentials without a shift", breaks=REAL, name="overflow of exp", subtle=True)
def masked_softmax(scores, mask=None):
    e = scores.exp()
    if mask is not None:
        e = torch.where(mask, e, 0.0)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


@wrong("forbidden scores become -1e4", breaks=FORBIDDEN, name="a constant that is not low enough", subtle=True)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -1e4).softmax(-1).masked_fill(~mask, 0.0)


@wrong("missing axes of the mask put in at place 1", breaks=AXES, name="mask of (T, S) stretched the wrong way", subtle=True)
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    while mask.dim() > 1 and mask.dim() < scores.dim():
        mask = mask.unsqueeze(1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(-1).masked_fill(~mask, 0.0)
