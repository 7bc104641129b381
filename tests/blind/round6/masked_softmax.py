import torch
from blind import bugs


def make(bug):
    def masked_softmax(scores, mask=None):
        if mask is None:
            if bug == "nothing subtracted without a mask":
                e = scores.exp()
                return e / e.sum(-1, keepdim=True)
            return scores.softmax(-1)
        allowed = mask.expand_as(scores) if bug != "mask as it is" else mask
        if bug == "in place":
            scores.masked_fill_(~allowed, -torch.inf)
        low = torch.finfo(scores.dtype).min
        hidden = scores.masked_fill(~allowed, low)
        if bug == "-1e9":
            hidden = scores.masked_fill(~allowed, -1e9)
        if bug == "-10000 in half precision":
            low = -1e4 if scores.dtype == torch.bfloat16 else low
            hidden = scores.masked_fill(~allowed, low)
        if bug == "1e9 subtracted":
            hidden = scores - 1e9 * (~allowed).to(scores.dtype)
        weights = hidden.softmax(-1)
        if bug == "softmax over queries":
            weights = hidden.softmax(-2)
        if bug == "after the softmax":
            weights = scores.softmax(-1)
        if bug == "after the softmax, divided":
            weights = scores.softmax(-1) * allowed
            return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
        if bug == "not a number in empty rows":
            return scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        if bug == "even weights in empty rows":
            return weights
        if bug == "maximum over all positions":
            e = (scores - scores.amax(-1, keepdim=True)).exp() * allowed
            total = e.sum(-1, keepdim=True)
            return e / total.masked_fill(total == 0, 1)
        if bug == "maximum without gradient, in float32":
            return hidden.float().softmax(-1).masked_fill(~allowed, 0)
        if bug == "mask turned around":
            return scores.masked_fill(allowed, low).softmax(-1).masked_fill(allowed, 0)
        if bug == "first row of the mask for all":
            first = allowed[..., :1, :]
            return scores.masked_fill(~first, low).softmax(-1).masked_fill(~first, 0)
        if bug == "empty rows of the whole batch alone":
            return weights * allowed.any()
        return weights.masked_fill(~allowed, 0)

    return masked_softmax


ZERO = "a forbidden position has weight exactly 0, and the allowed positions of its row still sum to one"
EMPTY = "a row in which *nothing* is allowed has weight 0 everywhere, not `nan`, and so has its gradient"
bugs(
    make,
    {
        "nothing subtracted without a mask": "(..., T, S), any real numbers",
        "in place": "the scores that came in are unchanged afterwards",
        "-1e9": ZERO + "; any real numbers (scores below -1e9)",
        "1e9 subtracted": ZERO,
        "softmax over queries": "each row sums to one",
        "after the softmax": ZERO,
        "after the softmax, divided": ZERO,
        "not a number in empty rows": EMPTY,
        "even weights in empty rows": EMPTY,
        "maximum over all positions": ZERO,
        "maximum without gradient, in float32": "what goes out has its dtype",
        "mask turned around": ZERO,
        "first row of the mask for all": "broadcastable to `scores`",
        "empty rows of the whole batch alone": EMPTY,
    },
)
