import math

import torch

from blind import right, wrong


@right("a Python loop over the rows, with float64 sums")
def top_p(logits, p):
    rows = logits.reshape(-1, logits.size(-1))
    removed = torch.ones_like(rows, dtype=torch.bool)
    for number, row in enumerate(rows.detach().double().softmax(dim=-1).tolist()):
        reached = 0.0
        for token in sorted(range(len(row)), key=row.__getitem__, reverse=True):
            removed[number, token] = False
            reached += row[token]
            if reached >= p:
                break
    return logits.masked_fill(removed.view(logits.shape), -math.inf)


@right("takes the most probable token that is left from all rows at once, until all rows have enough")
def top_p(logits, p):
    left = logits.detach().double().softmax(dim=-1)
    reached = torch.zeros_like(left[..., :1])
    keep = torch.zeros_like(left, dtype=torch.bool)
    for _ in range(logits.size(-1)):
        wanting = reached < p
        if not wanting.any():
            break
        probability, token = left.max(dim=-1, keepdim=True)
        probability = probability.clamp(min=0)
        keep = keep | torch.zeros_like(keep).scatter(-1, token, wanting)
        reached = reached + torch.where(wanting, probability, 0)
        left = left.scatter(-1, token, -1.0)
    return torch.where(keep, logits, -torch.inf)


@right("sorts in ascending order and compares what the tail holds with 1 - p")
def top_p(logits, p):
    probabilities, order = logits.double().softmax(dim=-1).sort(dim=-1)
    tail = probabilities.cumsum(dim=-1)  # this token and all that are less probable
    drop = tail <= 1 - p
    drop[..., -1] = False
    removed = torch.empty_like(drop).scatter_(-1, order, drop)
    return logits.masked_fill(removed, float("-inf"))


@right("searchsorted finds the size of the nucleus, two argsorts the ranks")
def top_p(logits, p):
    order = logits.argsort(dim=-1, descending=True)
    rank = order.argsort(dim=-1)
    sums = logits.double().softmax(dim=-1).gather(-1, order).cumsum(dim=-1)
    wanted = torch.full_like(sums[..., :1], p)
    last = torch.searchsorted(sums.detach().contiguous(), wanted)
    outside = torch.where(rank > last, -torch.inf, 0.0).to(logits.dtype)
    return logits + outside


@wrong(
    "drops the token with which the sum reaches p",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "the last token of the nucleus is missing",
)
def top_p(logits, p):
    probabilities, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probabilities.cumsum(dim=-1) < p
    keep[..., 0] = True
    kept = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~kept, -math.inf)


@wrong(
    "returns the logits in sorted order, not in the order of the vocabulary",
    "Do not change the logits of these tokens.",
    "the result stays sorted",
)
def top_p(logits, p):
    ordered, _ = logits.sort(dim=-1, descending=True)
    probabilities = ordered.softmax(dim=-1)
    keep = probabilities.cumsum(dim=-1) - probabilities < p
    return ordered.masked_fill(~keep, -math.inf)


@wrong(
    "returns the logarithms of the probabilities in the nucleus, normalised again",
    "Do not change the logits of these tokens.",
    "the kept logits are normalised",
)
def top_p(logits, p):
    probabilities, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probabilities.cumsum(dim=-1) - probabilities < p
    kept = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~kept, -math.inf).log_softmax(dim=-1)


@wrong(
    "keeps every token whose own probability is at least 1 - p, and the most probable one",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "a threshold for each probability instead of for their sum",
)
def top_p(logits, p):
    probabilities = logits.softmax(dim=-1)
    keep = probabilities >= 1 - p
    best = probabilities.argmax(dim=-1, keepdim=True)
    keep = keep.scatter(-1, best, True)
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "finds the smallest logit of the nucleus and keeps all logits that are not below it, so also those that are equal to it: of four equal tokens and p = 0.5, all four",
    "If several tokens are equally probable, keep only as many of them as you need to reach p.",
    "all tokens that tie with the last one are kept",
    subtle=True,
)
def top_p(logits, p):
    ordered, _ = logits.sort(dim=-1, descending=True)
    probabilities = ordered.softmax(dim=-1)
    keep = probabilities.cumsum(dim=-1) - probabilities < p
    smallest = ordered.masked_fill(~keep, math.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < smallest, -math.inf)


@wrong(
    "keeps a token if those before it sum to p or less: of two tokens with 0.5 each and p = 0.5 it keeps both",
    "Top-p sampling (Holtzman et al., 2020) draws only from the *nucleus*: the smallest set of most probable tokens whose probabilities sum to at least p.",
    "<= instead of <: one token too many when the sum is exactly p",
    subtle=True,
)
def top_p(logits, p):
    probabilities, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probabilities.cumsum(dim=-1) - probabilities <= p
    kept = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~kept, -math.inf)


@wrong(
    "keeps as many tokens in every row as the row with the largest nucleus needs",
    "Each row of V logits has its own nucleus.",
    "one size of the nucleus for all rows",
    subtle=True,
)
def top_p(logits, p):
    probabilities, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    size = (probabilities.cumsum(dim=-1) - probabilities < p).sum(dim=-1).max()
    ids = ids[..., : int(size)]
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, True)
    return logits.masked_fill(~kept, -math.inf)


@wrong(
    "subtracts a tolerance of 0.0001 from p against rounding: with p = 0.00001 not even the first token is kept",
    "Always keep at least one token, the most probable one.",
    "no token is kept for the smallest p",
    subtle=True,
)
def top_p(logits, p):
    probabilities, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probabilities.cumsum(dim=-1) - probabilities < p - 1e-4
    kept = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~kept, -math.inf)


@wrong(
    "writes minus infinity into the logits that it was given",
    "Do not change the inputs.",
    "masked_fill_ on the input",
    subtle=True,
)
def top_p(logits, p):
    probabilities, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = probabilities.cumsum(dim=-1) - probabilities < p
    kept = torch.zeros_like(keep).scatter(-1, ids, keep)
    logits.data.masked_fill_(~kept, -math.inf)
    return logits


@wrong(
    "loops over the first axis as if the logits were always (B, V): a single row (V,) keeps all its tokens, and (B, T, V) gives wrong numbers or an error",
    "There may be any number of axes before the last one, or none.",
    "logits with two axes only",
    subtle=True,
)
def top_p(logits, p):
    rows = []
    for row in logits:
        probabilities, ids = row.softmax(dim=0).sort(descending=True)
        outside = ids[probabilities.cumsum(dim=0) - probabilities >= p]
        rows.append(row.index_fill(0, outside, -math.inf))
    return torch.stack(rows)
