import torch
import torch.nn.functional as F
from blind import right, wrong


def masked_softmax(scores, mask=None):
    """The student's answer to section 1."""
    if mask is None:
        return scores.softmax(dim=-1)
    hidden = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return hidden.softmax(dim=-1).masked_fill(~mask, 0.0)


@right("einsum for the sum, an identity in place of no dropout")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    drop = torch.nn.Identity() if dropout is None else dropout
    return torch.einsum("...ts,...sd->...td", drop(weights.clone()), value), weights


@right("adds up one value after the other, in at least float32")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights.clone())
    wide = torch.promote_types(value.dtype, torch.float32)
    context = 0.0
    for share, one in zip(used.unbind(dim=-1), value.unbind(dim=-2)):
        context = context + share.unsqueeze(-1).to(wide) * one.unsqueeze(-2).to(wide)
    return context.to(value.dtype), weights


@right("one query after the other, its row of weights times the values")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights + 0)
    contexts = [row.matmul(value) for row in used.split(1, dim=-2)]
    return torch.cat(contexts, dim=-2), weights


@right("multiplies the transposed values by the transposed weights, helper inside")
def attend(scores, value, mask=None, dropout=None):
    def summed(shares):
        return torch.matmul(value.mT, shares.mT).mT

    looked = masked_softmax(scores=scores, mask=mask)
    if dropout is not None:
        return summed(dropout(looked.clone())), looked
    return summed(looked), looked


@wrong(
    "returns the weights after dropout; seen in train mode with a dropout module",
    "Return the weights as they were *before* dropout, because we want to look at"
    " them.",
    "returns the dropped weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "applies dropout to the context; whole entries of it are zero, and the weights keep"
    " their places",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


@wrong(
    "forgets to give the mask to the softmax and multiplies the weights by it: the"
    " allowed weights of a masked row sum to less than one",
    "Write `attend`, which turns scores into weights with your `masked_softmax` and"
    " then computes the context.",
    "mask applied after the softmax",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "an own softmax with the lowest finite number: a query that may attend to nothing"
    " gets uniform weights and the mean of the values",
    "zero for a query that may attend to nothing.",
    "empty rows get the mean",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "overwrites with zeros the values that no query may attend to, in the caller's"
    " tensor",
    "Do not change the inputs.",
    "masks the values in place",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if mask is not None:
        unused = ~mask.expand(scores.shape).any(dim=-2).unsqueeze(-1)
        value.detach().masked_fill_(unused, 0.0)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "squeezes all axes of length one away from the context: wrong shape for B = 1,"
    " T = 1 or Dv = 1",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squeeze without an axis",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    context = (used.unsqueeze(-2) @ value.unsqueeze(-3)).squeeze()
    return context, weights


@wrong(
    "calls dropout only if it is in train mode: a module that does something in eval"
    " mode as well, such as one that doubles the weights, is left out",
    "Call it on the weights, and compute the context from what it returns.",
    "skips the module in eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights
    if dropout is not None and dropout.training:
        used = dropout(weights)
    return used @ value, weights


@wrong(
    "calls dropout on ones and multiplies the weights by the result: the same for"
    " nn.Dropout, but not for a module that depends on what it is given (a threshold)",
    "Call it on the weights, and compute the context from what it returns.",
    "dropout called on ones",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    keep = dropout(torch.ones_like(weights))
    return (weights * keep) @ value, weights


@wrong(
    "a short cut for a mask without any allowed position returns a context as wide as"
    " the scores: right only if Dv = S",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are",
    "context of zeros has the wrong width",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None and not mask.any():
        nothing = torch.zeros_like(scores)
        return nothing, nothing
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    return used @ value, weights


@wrong(
    "divides the dropped weights by their sum, so that each row sums to one again: the"
    " same without dropout and in eval mode, another context in train mode",
    "Call it on the weights, and compute the context from what it returns.",
    "normalises again after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights if dropout is None else dropout(weights)
    total = used.sum(dim=-1, keepdim=True)
    return used / total.masked_fill(total == 0, 1) @ value, weights
