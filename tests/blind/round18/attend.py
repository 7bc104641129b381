import torch
from torch import nn
from blind import right, wrong

BEFORE = (
    "Return the weights as they were *before* dropout, because we want to look at them."
)
CALL = "Call it on the weights, and compute the context from what it returns."
SCORES = (
    "Write `attend`, which turns scores into weights with your `masked_softmax` and"
    " then computes the context."
)
BOTH_ZERO = "zero for a query that may attend to nothing."
UNCHANGED = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
MASK = "mask: True = may attend, broadcastable to `scores`; None allows everything."


def _softmax(scores, mask=None):
    """An answer to section 1."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    nothing = ~mask.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0.0)
    return torch.softmax(filled, dim=-1).masked_fill(~mask, 0.0)


@right("einsum, with nn.Identity for no dropout")
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    drop = nn.Identity() if dropout is None else dropout
    return torch.einsum("...ts,...sd->...td", drop(weights), value), weights


@right("one source position after the other, added up in float64")
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    context = 0
    for s in range(value.shape[-2]):
        share = used[..., s].double().unsqueeze(-1)
        context = context + share * value[..., s, :].double().unsqueeze(-2)
    return context.to(value.dtype), weights


class _LookUp:
    """Looks up the values of one sentence after the other."""

    def __init__(self, weights, value):
        self.weights, self.value = weights, value

    def __call__(self):
        if self.value.dim() == 2:
            return torch.mm(self.value.t(), self.weights.t()).t()
        pairs = zip(self.weights.unbind(), self.value.unbind())
        return torch.stack([_LookUp(*pair)() for pair in pairs])


@right("a class that goes through the first axes, with transposed products at the end")
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    used = weights
    if dropout is not None:
        used = dropout(weights)
    return _LookUp(used, value)(), weights


@right("its own softmax from exponentials, and all products (..., T, S, Dv)")
def attend(scores, value, mask=None, dropout=None):
    allowed = torch.tensor(True, device=scores.device) if mask is None else mask
    allowed = allowed.expand(scores.shape)
    wide = scores.double()
    top = wide.detach().masked_fill(~allowed, -torch.inf).amax(dim=-1, keepdim=True)
    top = torch.where(top.isinf(), 0.0, top)
    raised = torch.where(allowed, wide - top, -torch.inf).exp()
    total = raised.sum(dim=-1, keepdim=True)
    weights = (raised / torch.where(total == 0, 1.0, total)).to(scores.dtype)
    used = weights if dropout is None else dropout(weights)
    return (used.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2), weights


@wrong(
    "returns the weights after dropout",
    breaks=BEFORE,
    name="weights after dropout returned",
)
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "applies dropout to the context",
    breaks=CALL,
    name="dropout on the context instead of the weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong(
    "applies dropout to the scores, before the softmax",
    breaks=CALL,
    name="dropout on the scores instead of the weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    used = weights if dropout is None else _softmax(dropout(scores), mask)
    return used @ value, weights


@wrong(
    "divides the scores by the root of the values' width first",
    breaks=SCORES,
    name="scores are scaled again",
)
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores / value.shape[-1] ** 0.5, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "sets the values of padding to 0 in place, in the caller's tensor",
    breaks=UNCHANGED,
    name="values changed in place",
)
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    if mask is not None:
        unused = ~mask.expand(scores.shape).any(dim=-2)
        value.data.masked_fill_(unused.unsqueeze(-1), 0.0)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "divides the dropped weights by their sum before it uses them",
    breaks=CALL,
    name="weights normalized again after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = used = _softmax(scores, mask)
    if dropout is not None:
        used = dropout(weights)
        total = used.sum(dim=-1, keepdim=True)
        used = used / total.masked_fill(total == 0, 1.0)
    return used @ value, weights


@wrong(
    "calls the module in train mode only, though a module may also do something in"
    " eval mode",
    breaks=CALL,
    name="dropout is not called in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = used = _softmax(scores, mask)
    if dropout is not None and dropout.training:
        used = dropout(weights)
    return used @ value, weights


@wrong(
    "returns detached weights, through which no gradient flows",
    breaks=GRADIENTS,
    name="no gradient through the returned weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = _softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights.detach()


@wrong(
    "clears the weights of a query that may attend to nothing, but its context is the"
    " mean of all values",
    breaks=BOTH_ZERO,
    name="context of an empty row is not zero",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    used = weights if dropout is None else dropout(weights)
    context = used @ value
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return context, weights


@wrong(
    "gives a single source position the weight 1 without looking at the mask",
    breaks=MASK,
    name="mask ignored for a single key",
)
def attend(scores, value, mask=None, dropout=None):
    if scores.shape[-1] == 1:
        weights = scores * 0 + 1
    else:
        weights = _softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights
