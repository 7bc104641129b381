import torch
from torch import nn
from torch.nn import functional as F
from blind import right, wrong


def masked_softmax(scores, mask=None):
    """My answer to the first question."""
    if mask is None:
        return scores.softmax(dim=-1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(dim=-1).masked_fill(~mask, 0.0)


@right("einsum with an ellipsis; dropout on a copy of the weights")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights.clone())
    return torch.einsum("...ts,...sd->...td", shares, value), weights


@right("every weight times every value, summed over the source")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask=mask)
    drop = dropout if dropout is not None else nn.Identity()
    context = torch.sum(drop(weights + 0)[..., None] * value[..., None, :, :], dim=-2)
    return context, weights


@right("a loop over the queries, each with a matrix product of its own")
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    used = weights.clone()
    if dropout is not None:
        used = dropout(used)
    context = value.new_zeros(*scores.shape[:-1], value.size(-1))
    rows = [used[..., t : t + 1, :] @ value for t in range(scores.size(-2))]
    return (torch.cat(rows, dim=-2) if rows else context), weights


@right("the softmax written out in the answer, and matmul of the transposed tensors")
def attend(scores, value, mask=None, dropout=None):
    if mask is None:
        weights = torch.softmax(scores, -1)
    else:
        mask = mask.expand_as(scores)
        empty = ~mask.any(-1, keepdim=True)
        low = scores.masked_fill(~mask, float("-inf")).masked_fill(empty, 0.0)
        weights = torch.softmax(low, -1) * mask.to(scores.dtype)

    def context_of(shares):
        return torch.matmul(value.mT, shares.mT).mT

    if dropout is None:
        return context_of(weights), weights
    return context_of(dropout(torch.clone(weights))), weights


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "returns the weights after dropout: in training they have holes and do not sum to 1",
    "The weights that you *return* are the weights before dropout, because we want to"
    " look at them.",
    "returned weights are after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "the mask is not handed on: padding gets weight",
    "mask: True = may attend, broadcastable to `scores`; None allows everything.",
    "mask is ignored",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores)
    dropped = weights if dropout is None else dropout(weights.clone())
    return dropped @ value, weights


@wrong(
    "dropout is called on the context instead of on the weights",
    "If `dropout` is given, it is a module: call it on the weights before you compute"
    " the context.",
    "dropout on the context",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    if dropout is not None:
        context = dropout(context)
    return context, weights


# --- corners -----------------------------------------------------------------------


@wrong(
    "hands the weights themselves to dropout: `nn.Dropout(p, inplace=True)` writes into"
    " them, and what is returned are the weights after dropout",
    "The weights that you *return* are the weights before dropout, because we want to"
    " look at them.",
    "in-place dropout changes the returned weights",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights


@wrong(
    "F.dropout with the module's p: drops in eval mode, too, and fails with a module"
    " that has no p",
    "If `dropout` is given, it is a module: call it on the weights before you compute"
    " the context.",
    "functional dropout ignores eval mode",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None:
        dropped = F.dropout(weights, p=dropout.p)
    return dropped @ value, weights


@wrong(
    "bmm: only for exactly one axis in front; (T, S) and (B, H, T, S) raise an error",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "works with three axes only",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights if dropout is None else dropout(weights.clone())
    return torch.bmm(dropped, value), weights


@wrong(
    "minus infinity and a plain softmax: a query that may attend to nothing gets a"
    " context and weights of nan",
    "The context (..., T, Dv), and the weights (..., T, S) before dropout; both are"
    " zero for a query that may attend to nothing.",
    "nan for a query that sees nothing",
)
def attend(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    dropped = weights if dropout is None else dropout(weights.clone())
    return dropped @ value, weights


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "drops scores instead of weights: a dropped score is 0 and still gets weight, and"
    " the returned weights are a second softmax; in eval mode all is right",
    "If `dropout` is given, it is a module: call it on the weights before you compute"
    " the context.",
    "dropout on the scores before the softmax",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores.clone()), mask) @ value, weights


@wrong(
    "brings the weights back to sum one after dropout: nothing to see in eval mode, but"
    " in training the module's factor 1 / (1 - p) is undone, and with a module that"
    " halves the weights nothing is halved",
    "dropout: called on the weights that form the context, if it is not None.",
    "weights renormalised after dropout",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    dropped = weights
    if dropout is not None:
        dropped = dropout(weights.clone())
        total = dropped.sum(dim=-1, keepdim=True)
        dropped = dropped / total.masked_fill(total == 0, 1)
    return dropped @ value, weights


@wrong(
    "transposes when the sizes do not fit and guesses when they do: for T = S the"
    " transposed weights are used, which is right for symmetric weights only",
    "A weight says what share of a value to take, and the context is the sum of these"
    " shares.",
    "weights transposed when T equals S",
)
def attend(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights.clone())
    if shares.size(-2) == value.size(-2):
        shares = shares.mT
    return shares @ value, weights
