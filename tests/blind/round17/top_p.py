import math

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

SMALLEST = "Top-p sampling (Holtzman et al., 2020) draws only from the *nucleus*: the smallest set of most probable tokens whose probabilities sum to at least p."
AXES = "There may be any number of axes before the last one, or none."
OWN = "Each row of V logits has its own nucleus."
TAKE = "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p."
UNCHANGED = "Do not change the logits of these tokens."
INFINITY = r"Set all other logits to $-\infty$."
ONE = "Always keep at least one token, the most probable one."
EQUAL = "If several tokens are equally probable, keep only as many of them as you need to reach p."
OVERFLOW = "An exponential, however, may overflow."


# ---------------------------------------------------------------- right answers


@right("a Python loop over the rows, which adds up probabilities until they reach p")
def top_p(logits, p):
    result = torch.full_like(logits, -math.inf)
    V = logits.size(-1)
    flat, out = logits.reshape(-1, V), result.view(-1, V)
    for row, new in zip(flat, out):
        shares = row.double().softmax(dim=0).tolist()
        total = 0.0
        for token in sorted(range(V), key=lambda token: -shares[token]):
            new[token] = row[token]
            total += shares[token]
            if total >= p:
                break
    return result


@right("removes from the least probable token on, as long as those removed leave p")
def top_p(logits, p):
    shares, ids = logits.double().softmax(dim=-1).sort(dim=-1)
    so_far = shares.cumsum(dim=-1)  # of this token and all less probable ones
    out = so_far <= so_far[..., -1:] - p
    out[..., -1] = False
    drop = torch.empty_like(out).scatter_(-1, ids, out)
    return torch.where(drop, torch.full_like(logits, -torch.inf), logits)


@right("counts the tokens of each nucleus and compares the ranks (a sort of the sort) with it")
def top_p(logits, p):
    precise = torch.float64 if logits.dtype == torch.float64 else torch.float32
    shares, ids = logits.to(precise).softmax(dim=-1).sort(dim=-1, descending=True)
    number = 1 + (shares.cumsum(dim=-1) < p).sum(dim=-1, keepdim=True)
    ranks = ids.argsort(dim=-1)
    return logits.masked_fill(ranks >= number, float("-inf"))


@right("moves one token after the other from the rows, with argmax, all rows at once")
def top_p(logits, p):
    left = logits.double().softmax(dim=-1)
    total = torch.zeros_like(left[..., :1])
    kept = torch.zeros_like(left, dtype=torch.bool)
    for _ in range(logits.size(-1)):
        open_rows = total < p
        if not open_rows.any():
            break
        best = left.argmax(dim=-1, keepdim=True)
        share = left.gather(-1, best)
        kept = kept.scatter(-1, best, kept.gather(-1, best) | open_rows)
        total = total + share * open_rows
        left = left.scatter(-1, best, -1.0)
    return logits.masked_fill(~kept, -torch.inf)


# ---------------------------------------------------------------- wrong answers


@wrong("keeps the tokens as long as the sum with them stays below p, and the first one",
       breaks=TAKE, name="the token that reaches p is missing")
def top_p(logits, p):
    shares, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) < p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, -math.inf)


@wrong("applies the mask in the sorted order to the logits in the order of the vocabulary",
       breaks=ONE, name="does not move the mask back")
def top_p(logits, p):
    shares, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) - shares < p
    return logits.masked_fill(~kept, -math.inf)


@wrong("sets the other logits to -1e9",
       breaks=INFINITY, name="a large negative number instead of minus infinity")
def top_p(logits, p):
    shares, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) - shares < p
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, -1e9)


@wrong("returns the logarithms of the probabilities within the nucleus",
       breaks=UNCHANGED, name="renormalizes the tokens that it keeps")
def top_p(logits, p):
    shares, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) - shares < p
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, -math.inf).log_softmax(dim=-1)


@wrong("finds the smallest logit of the nucleus and keeps every token with at least this logit",
       breaks=EQUAL, name="keeps all tokens that are as probable as the last one")
def top_p(logits, p):
    ordered = logits.sort(dim=-1, descending=True).values
    shares = ordered.softmax(dim=-1)
    inside = shares.cumsum(dim=-1) - shares < p
    smallest = ordered.masked_fill(~inside, math.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < smallest, -math.inf)


@wrong("cuts all rows after as many tokens as the largest nucleus has",
       breaks=OWN, name="one size of the nucleus for all rows")
def top_p(logits, p):
    shares, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    number = int((shares.cumsum(dim=-1) - shares < p).sum(dim=-1).max())
    best = logits.topk(number, dim=-1)
    return torch.full_like(logits, -math.inf).scatter(-1, best.indices, best.values)


@wrong("keeps a token if the probabilities before it sum to at most p",
       breaks=SMALLEST, name="one token too many if the sum is exactly p")
def top_p(logits, p):
    shares, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) - shares <= p
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, -math.inf)


@wrong("computes the softmax from plain exponentials",
       breaks=OVERFLOW, name="inf / inf for large logits")
def top_p(logits, p):
    powers = logits.exp()
    shares, ids = (powers / powers.sum(dim=-1, keepdim=True)).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) - shares < p
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, -math.inf)


@wrong("looks for the nucleus among the 256 most probable tokens only, to save time",
       breaks=TAKE, name="a nucleus never has more than 256 tokens")
def top_p(logits, p):
    number = min(256, logits.size(-1))
    shares, ids = logits.softmax(dim=-1).topk(number, dim=-1)
    inside = shares.cumsum(dim=-1) - shares < p
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, inside)
    return logits.masked_fill(~kept, -math.inf)


@wrong("makes a matrix of all rows and returns it as a matrix",
       breaks=AXES, name="the shape (B, T, V) or (V,) is lost")
def top_p(logits, p):
    rows = logits.reshape(-1, logits.size(-1))
    shares, ids = rows.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = shares.cumsum(dim=-1) - shares < p
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return rows.masked_fill(~kept, -math.inf)
