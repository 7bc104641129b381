import math

import torch
import torch.nn.functional as F

from blind import right, wrong


@right("takes the most probable token out again and again, all rows together")
def top_p(logits, p):
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    left = wide.softmax(dim=-1)
    stays = torch.zeros_like(left, dtype=torch.bool)
    total = torch.zeros_like(left[..., :1])
    for _ in range(logits.size(-1)):
        open_rows = total < p
        if not open_rows.any():
            break
        best, token = left.max(dim=-1, keepdim=True)
        take = open_rows & (best > 0)
        stays.scatter_(-1, token, take | stays.gather(-1, token))
        total = total + best.clamp(min=0)
        left = left.scatter(-1, token, -1.0)
    return torch.where(stays, logits, torch.full_like(logits, -torch.inf))


@right("works from the improbable end: drops a tail that weighs at most 1 - p")
def top_p(logits, p):
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1)
    drop = ordered.cumsum(dim=-1) <= 1 - p
    drop[..., -1] = False
    return logits.masked_fill(torch.zeros_like(drop).scatter(-1, ids, drop), -math.inf)


@right("row by row with Python's sorted, numbers as floats")
def top_p(logits, p):
    width = logits.size(-1)
    out = torch.full_like(logits, -math.inf)
    flat_in, flat_out = logits.reshape(-1, width), out.view(-1, width)
    probs = flat_in.detach().to(torch.promote_types(logits.dtype, torch.float32))
    for row, chances in enumerate(probs.softmax(dim=-1).tolist()):
        stay, total = [], 0.0
        for token in sorted(range(width), key=chances.__getitem__, reverse=True):
            stay.append(token)
            total += chances[token]
            if total >= p:
                break
        flat_out[row, stay] = flat_in[row, stay]
    return out


@right("counts the tokens that stay with searchsorted, and compares ranks with the count")
def top_p(logits, p, keep_at_least=1):
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    probs, ids = F.softmax(wide, dim=-1).sort(dim=-1, descending=True, stable=True)
    sums = probs.cumsum(dim=-1)
    bound = torch.full_like(sums[..., :1], p)
    count = torch.searchsorted(sums, bound) + 1  # tokens needed to reach p
    rank = ids.argsort(dim=-1)  # place of each token in the order
    return torch.where(rank < count.clamp(min=keep_at_least), logits, -torch.inf)


@wrong(
    "keeps a token only if the sum including it is at most p: the token that reaches p is lost, for almost every input",
    "Take the tokens in order, beginning with the most probable one, until their probabilities sum to at least p.",
    "drops the token that reaches p",
)
def top_p(logits, p):
    probs, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probs.cumsum(dim=-1) <= p
    keep[..., 0] = True
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "turns the last probability that is needed into a threshold, so all tokens that tie with it stay: four equal logits and p = 0.5 keep four tokens",
    "If several tokens are equally probable, keep only as many of them as are needed.",
    "threshold keeps all ties",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1)
    ordered = probs.sort(dim=-1, descending=True).values
    before = ordered.cumsum(dim=-1) - ordered
    threshold = ordered.masked_fill(before >= p, 2.0).amin(dim=-1, keepdim=True)
    return logits.masked_fill(probs < threshold, -math.inf)


@wrong(
    "scatters the sorted answer with the wrong permutation (argsort as if it were its own inverse): wrong tokens stay when the order is a cycle of three or more",
    "These tokens stay.",
    "order of sorting not undone, index used the wrong way",
)
def top_p(logits, p):
    probs, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probs.cumsum(dim=-1) - probs < p
    keep = keep.gather(-1, ids)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "takes the exponentials without subtracting the maximum: logits above 88 give inf / inf and nothing is removed, or all",
    "Your code works for every length from one on, for large and for small numbers, in train mode and in eval mode.",
    "softmax by hand overflows",
)
def top_p(logits, p):
    powers = logits.exp()
    probs = powers / powers.sum(dim=-1, keepdim=True)
    ordered, ids = probs.sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return torch.where(keep, logits, -math.inf)


@wrong(
    "names the axis 1 in the cumulative sum: right for (B, V), wrong for (B, T, V), an error for (V,)",
    "There may be any number of axes before it, or none, and each row of V logits has its own nucleus.",
    "fixed axis instead of the last one",
)
def top_p(logits, p):
    probs, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    before = probs.cumsum(dim=1) - probs
    keep = torch.zeros_like(before, dtype=torch.bool).scatter(-1, ids, before < p)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "for speed it looks only at the 50 most probable tokens: a flat distribution over 1,000 tokens with p = 0.9 keeps 50",
    "Take the tokens in order, beginning with the most probable one, until their probabilities sum to at least p.",
    "cuts to the top 50 first",
)
def top_p(logits, p):
    probs, ids = logits.softmax(dim=-1).topk(min(50, logits.size(-1)), dim=-1)
    before = probs.cumsum(dim=-1) - probs
    out = torch.full_like(logits, -math.inf)
    kept = logits.gather(-1, ids).masked_fill(before >= p, -math.inf)
    return out.scatter(-1, ids, kept)


@wrong(
    "clamps the logits to be safe and removes only tokens that were finite: a token whose logit was -inf comes back with -1e4",
    "A logit may be $-\\infty$ already. Its token does not stay.",
    "forbidden tokens come back as finite numbers",
)
def top_p(logits, p):
    safe = logits.clamp(min=-1e4)
    probs, ids = safe.softmax(dim=-1).sort(dim=-1, descending=True)
    last = (probs.cumsum(dim=-1) < p).sum(dim=-1, keepdim=True)
    rank = ids.argsort(dim=-1)
    drop = (rank > last) & logits.isfinite()
    return safe.masked_fill(drop, -math.inf)


@wrong(
    "takes the logarithm of the cut probabilities: the same numbers if the logits are log-probabilities already, other numbers if they are not",
    "The logits of the tokens that stay do not change.",
    "returns log-probabilities, not the logits",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1)
    ordered, ids = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    kept = ordered * (before < p)
    return torch.zeros_like(probs).scatter(-1, ids, kept).log()


@wrong(
    "counts the tokens of the first nuclei and lets all rows keep as many as the largest nucleus of the batch: right for one row, or for rows of equal size of nucleus",
    "There may be any number of axes before it, or none, and each row of V logits has its own nucleus.",
    "one size of nucleus for all rows",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1)
    ordered = probs.sort(dim=-1, descending=True).values
    count = int((ordered.cumsum(dim=-1) - ordered < p).sum(dim=-1).max())
    ids = probs.topk(count, dim=-1).indices
    out = torch.full_like(logits, -math.inf)
    return out.scatter(-1, ids, logits.gather(-1, ids))


@wrong(
    "keeps what is more probable than the first token outside: two tokens that tie across the border are both lost, and of equal logits none stays",
    "At least one token stays: the most probable one.",
    "strict threshold loses ties at the border",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1)
    ordered = probs.sort(dim=-1, descending=True).values
    outside = ordered.cumsum(dim=-1) - ordered >= p
    limit = ordered.masked_fill(~outside, -1.0).amax(dim=-1, keepdim=True)
    return torch.where(probs > limit, logits, -math.inf)
