import torch
import torch.nn.functional as F
from blind import right, wrong


def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return low.softmax(dim=-1).masked_fill(~mask, 0)


# Right
@right("einsum; dropout gets a copy, lest it work in place")
def r1(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights.clone())
    return torch.einsum("...ts,...sv->...tv", shares, value), weights


@right("adds up the shares of one value after the other")
def r2(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = (dropout or torch.nn.Identity())(weights + 0)
    context = shares[..., :0] @ value[..., :0, :]  # nothing yet: zeros
    for s in range(value.size(-2)):
        context = context + shares[..., s, None] * value[..., s, None, :]
    return context, weights


@right("values turned, times weights turned, and turned back")
def r3(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask=mask)
    kept = weights
    if dropout is not None:
        kept = dropout(weights.clone())
    return (value.mT @ kept.mT).mT, weights


@right("a softmax of its own, and all products at once, summed over S")
def r4(scores, value, mask=None, dropout=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    forbidden = mask.logical_not().expand(scores.shape)
    lowest = torch.full_like(scores, torch.finfo(scores.dtype).min)
    weights = F.softmax(torch.where(forbidden, lowest, scores), -1)
    weights = torch.where(forbidden, torch.zeros_like(weights), weights)
    shares = dropout(1 * weights) if dropout is not None else weights
    return (shares.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2), weights


# Wrong
@wrong(
    "returns the weights after dropout",
    breaks="The weights that you *return* are those before it",
    name="weights after dropout returned",
    subtle=True,
)
def w1(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


@wrong(
    "dropout on the context",
    breaks="is a module to be called on the weights that make the context",
    name="dropout on the context",
    subtle=True,
)
def w2(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    return (context if dropout is None else dropout(context)), weights


@wrong(
    "dropout on the scores",
    breaks="is a module to be called on the weights that make the context",
    name="dropout on the scores",
    subtle=True,
)
def w3(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is None:
        return weights @ value, weights
    return masked_softmax(dropout(scores), mask) @ value, weights


@wrong(
    "torch.bmm: three axes only",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="three axes only",
    subtle=True,
)
def w4(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights.clone())
    return torch.bmm(shares, value), weights


@wrong(
    "F.dropout with the rate of the module, in eval mode as well",
    breaks="`dropout`, where it is given, is a module to be called on the weights",
    name="dropout in eval mode, too",
    subtle=True,
)
def w5(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights
    if dropout is not None:
        shares = F.dropout(weights, getattr(dropout, "p", 0.1))
    return shares @ value, weights


@wrong(
    "weights sum to one again after dropout",
    breaks="is a module to be called on the weights that make the context",
    name="renormalised after dropout",
    subtle=True,
)
def w6(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights
    if dropout is not None:
        shares = dropout(weights.clone())
        total = shares.sum(dim=-1, keepdim=True)
        shares = shares / total.masked_fill(total == 0, 1)
    return shares @ value, weights


@wrong(
    "minus infinity and softmax: nan for a query that may attend to nothing",
    breaks="both are zero for a query that may attend to nothing",
    name="nan in an empty row",
    subtle=True,
)
def w7(scores, value, mask=None, dropout=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    shares = weights if dropout is None else dropout(weights.clone())
    return shares @ value, weights


@wrong(
    "fills the scores that came in",
    breaks="what it was handed is unchanged",
    name="scores filled in place",
    subtle=True,
)
def w8(scores, value, mask=None, dropout=None):
    if mask is not None:
        with torch.no_grad():
            scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights.clone())
    return shares @ value, weights


@wrong(
    "calls dropout in train mode only, whatever the module does",
    breaks="dropout: called on the weights that form the context, if it is not None.",
    name="dropout not called in eval mode",
    subtle=True,
)
def w9(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights
    if dropout is not None and dropout.training:
        shares = dropout(weights.clone())
    return shares @ value, weights


@wrong(
    "the context of a single query loses its axis",
    breaks="The context (..., T, Dv)",
    name="axes of length one disappear",
    subtle=True,
)
def w10(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    shares = weights if dropout is None else dropout(weights.clone())
    return (shares @ value).squeeze(-2), weights
