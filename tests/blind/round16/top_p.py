import math

import torch
from blind import right, wrong

ROWS = "Each row of V logits has its own nucleus."
ANY = "There may be any number of axes before the last one, or none."
KEEP = "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p."
SAME = "Do not change the logits of these tokens."
REST = r"Set all other logits to $-\infty$."
ONE = "Always keep at least one token, the most probable one."
TIES = "If several tokens are equally probable, keep only as many of them as you need to reach p."
GONE = r"Some logits of a row, but never all of them, may already be $-\infty$."
NOT = "Do not keep their tokens."
INPUTS = "Do not change the inputs."
OVERFLOW = "An exponential, however, may overflow."
P = "p: from 0.00001 to 0.99999."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."


def back(logits, ids, keep):
    """Move a mask from the sorted order back, and apply it."""
    return logits.masked_fill(~torch.zeros_like(keep).scatter(-1, ids, keep), -math.inf)


@right("from the least probable token up: a token goes if it and all below it sum to at most 1 - p")
@torch.no_grad()
def top_p(logits, p):
    order = logits.argsort(dim=-1, stable=True)
    upward = logits.gather(-1, order).double().softmax(-1).cumsum(-1)
    keep = upward > 1 - p
    keep[..., -1] = True
    return back(logits, order, keep)


@right("searchsorted finds the last rank, and a second argsort gives each token its rank")
@torch.no_grad()
def top_p(logits, p):
    order = logits.argsort(dim=-1, descending=True, stable=True)
    sums = logits.double().softmax(-1).gather(-1, order).cumsum(-1)
    edge = torch.full_like(sums[..., :1], p)
    last = torch.searchsorted(sums, edge)
    return torch.where(order.argsort(-1) <= last, logits, -math.inf)


@right("plain Python, row by row")
def top_p(logits, p):
    rows = logits.detach().reshape(-1, logits.shape[-1])
    result = torch.full_like(rows, -math.inf)
    for row, new in zip(rows, result):
        shares, mass = row.double().softmax(0).tolist(), 0.0
        for token in sorted(range(len(shares)), key=lambda i: -shares[i]):
            if mass >= p:
                break
            new[token] = row[token]
            mass += shares[token]
    return result.reshape(logits.shape)


@right("takes the most probable token of all rows at once, again and again, until every row has enough")
@torch.no_grad()
def top_p(logits, p):
    shares = logits.double().softmax(-1)
    left, kept = logits.clone(), torch.full_like(logits, -math.inf)
    mass = torch.zeros_like(shares[..., :1])
    while bool((mass < p).any()):
        best = left.argmax(-1, keepdim=True)
        open_ = (mass < p) & (left.gather(-1, best) > -math.inf)
        if not bool(open_.any()):
            break
        kept.scatter_(-1, best, torch.where(open_, logits.gather(-1, best), kept.gather(-1, best)))
        mass = mass + torch.where(open_, shares.gather(-1, best), 0.0)
        left.scatter_(-1, best, -math.inf)
    return kept


@wrong("keeps the tokens whose sum is at most p, without the one that reaches p; often none is left", breaks=KEEP, name="without the token that reaches p")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    return back(logits, ids, values.double().softmax(-1).cumsum(-1) <= p)


@wrong("keeps a token if the sum before it is at most p: one too many if a sum is exactly p (two equal tokens, p = 0.5)", breaks=KEEP, name="one token too many at exactly p")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    sums = values.double().softmax(-1).cumsum(-1)
    gone = sums > p
    gone[..., 1:] = gone[..., :-1].clone()
    gone[..., 0] = False
    return back(logits, ids, ~gone)


@wrong("finds the smallest logit of the nucleus and keeps all that are at least as large: all tokens that tie with it stay", breaks=TIES, name="keeps all ties")
@torch.no_grad()
def top_p(logits, p):
    values, _ = logits.sort(dim=-1, descending=True)
    shares = values.double().softmax(-1)
    keep = shares.cumsum(-1) - shares < p
    smallest = values.masked_fill(~keep, math.inf).amin(-1, keepdim=True)
    return logits.masked_fill(logits < smallest, -math.inf)


@wrong("keeps as many tokens in every row as the row with the largest nucleus needs", breaks=ROWS, name="one size for all rows")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    shares = values.double().softmax(-1)
    size = int((shares.cumsum(-1) - shares < p).sum(-1).max())
    keep = torch.zeros_like(values, dtype=torch.bool)
    keep[..., :size] = True
    return back(logits, ids, keep)


@wrong("softmax over axis 1, which is the last one only for (B, V)", breaks=ANY, name="softmax over axis 1")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    shares = values.double().softmax(dim=1 if values.dim() > 1 else 0)
    return back(logits, ids, shares.cumsum(-1) - shares < p)


@wrong("replaces minus infinity by -10,000 (to be safe from nan) and returns this number for tokens that were removed before", breaks=NOT, name="brings removed tokens back")
@torch.no_grad()
def top_p(logits, p):
    finite = logits.masked_fill(logits == -math.inf, -1e4)
    values, ids = finite.sort(dim=-1, descending=True)
    shares = values.double().softmax(-1)
    gone = ~torch.zeros_like(shares, dtype=torch.bool).scatter(-1, ids, shares.cumsum(-1) - shares < p)
    return finite.masked_fill(gone & (logits > -math.inf), -math.inf)


@wrong("writes minus infinity into the caller's logits", breaks=INPUTS, name="changes the logits in place")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    shares = values.double().softmax(-1)
    keep = torch.zeros_like(shares, dtype=torch.bool).scatter(-1, ids, shares.cumsum(-1) - shares < p)
    logits[~keep] = -math.inf
    return logits


@wrong("returns the logarithms of the renormalized probabilities: the nucleus is right, its logits are not", breaks=SAME, name="returns log-probabilities")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    shares = values.double().softmax(-1)
    return back(logits, ids, shares.cumsum(-1) - shares < p).log_softmax(-1)


@wrong("looks only at the 50 most probable tokens, to be fast: with a flat distribution and a large V, they do not reach p", breaks=KEEP, name="never more than 50 tokens")
@torch.no_grad()
def top_p(logits, p):
    shares = logits.double().softmax(-1)
    values, ids = shares.topk(min(50, logits.shape[-1]), dim=-1)
    keep = values.cumsum(-1) - values < p
    gone = torch.ones_like(logits, dtype=torch.bool).scatter(-1, ids, ~keep)
    return logits.masked_fill(gone, -math.inf)


@wrong("computes the exponentials of the logits as they are: from 710 on they are infinite, and the shares are nan", breaks=OVERFLOW, name="exponentials overflow")
@torch.no_grad()
def top_p(logits, p):
    values, ids = logits.sort(dim=-1, descending=True)
    powers = values.double().exp()
    shares = powers / powers.sum(-1, keepdim=True)
    return back(logits, ids, shares.cumsum(-1) - shares < p)
