import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("plain Python, one row after another")
def top_p(logits, p):
    rows = logits.detach().double().softmax(dim=-1).reshape(-1, logits.shape[-1])
    nucleus = torch.zeros(rows.shape, dtype=torch.bool)
    for number, row in enumerate(rows.tolist()):
        total = 0.0
        for token in sorted(range(len(row)), key=row.__getitem__, reverse=True):
            nucleus[number, token] = True
            total += row[token]
            if total >= p:
                break
    nucleus = nucleus.reshape(logits.shape).to(logits.device)
    return logits.masked_fill(~nucleus, float("-inf"))


@right("how many tokens stay, with searchsorted, compared with the rank of each token")
def top_p(logits, p):
    probs = logits.to(torch.float64).softmax(dim=-1)
    order = probs.argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    sums = probs.gather(-1, order).cumsum(dim=-1)
    limit = torch.full_like(sums[..., :1], p)
    number = torch.searchsorted(sums.contiguous(), limit.contiguous()) + 1
    return torch.where(rank < number, logits, -torch.inf)


@right("from the least probable token on: remove while the removed sum to at most 1 - p")
def top_p(logits, p):
    ids = torch.sort(logits, dim=-1).indices
    tail = logits.double().softmax(dim=-1).gather(-1, ids).cumsum(dim=-1)
    removed = tail <= 1 - p
    removed[..., -1] = False
    back = torch.argsort(ids, dim=-1)
    result = logits.clone()
    result[removed.gather(-1, back)] = -math.inf
    return result


@right("a helper that calls itself for each row, and index_fill in a row")
def top_p(logits, p):
    def nucleus(part):
        if part.dim() > 1:
            return torch.stack([nucleus(row) for row in part])
        probs, ids = part.double().softmax(dim=0).topk(len(part))
        number = torch.count_nonzero(probs.cumsum(dim=0) < p) + 1
        return part.index_fill(0, ids[number:], -math.inf)

    return nucleus(logits)


@wrong(
    "stops before the token with which the sum reaches p (but always keeps the first one)",
    "take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "token that reaches p left out",
)
def top_p(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    keep = ordered.softmax(dim=-1).cumsum(dim=-1) <= p
    keep[..., 0] = True
    kept = ordered.masked_fill(~keep, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, kept)


@wrong(
    "applies the mask of the sorted tokens to the unsorted logits",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "mask not moved back to the order of the vocabulary",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
    before = probs.cumsum(dim=-1) - probs
    return logits.masked_fill(before >= p, -math.inf)


@wrong(
    "returns the logarithms of the probabilities, divided anew among the kept tokens, instead of their logits",
    "Do not change the logits of these tokens.",
    "logits normalised again",
)
def top_p(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    probs = ordered.softmax(dim=-1)
    before = probs.cumsum(dim=-1) - probs
    kept = ordered.masked_fill(before >= p, -math.inf).log_softmax(dim=-1)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, kept)


@wrong(
    "keeps every token that is as probable as the last token of the nucleus",
    "If several tokens are equally probable, keep only as many of them as you need to reach p.",
    "all equally probable tokens kept",
)
def top_p(logits, p):
    ordered = logits.sort(dim=-1, descending=True).values
    probs = ordered.softmax(dim=-1)
    before = probs.cumsum(dim=-1) - probs
    lowest = ordered.masked_fill(before >= p, math.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < lowest, -math.inf)


@wrong(
    "writes minus infinity through a view of the logits",
    "Do not change the inputs.",
    "logits changed in place",
)
def top_p(logits, p):
    rows = logits.reshape(-1, logits.shape[-1])
    ids = rows.argsort(dim=-1, descending=True)
    probs = rows.softmax(dim=-1).gather(-1, ids)
    outside = probs.cumsum(dim=-1) - probs >= p
    rows[torch.zeros_like(outside).scatter(-1, ids, outside)] = -math.inf
    return rows.view(logits.shape)


@wrong(
    "keeps as many tokens in every row as the row with the largest nucleus needs",
    "Each row of V logits has its own nucleus.",
    "one size of the nucleus for all rows",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
    number = int((probs.cumsum(dim=-1) - probs < p).sum(dim=-1).max())
    best, ids = logits.topk(number, dim=-1)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, best)


@wrong(
    "subtracts the mean of the logits and takes exponentials itself: a row with a logit of minus infinity has no finite mean, and its probabilities are NaN",
    r"Some logits of a row, but never all of them, may already be $-\infty$.",
    "mean of a row that contains minus infinity",
)
def top_p(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    exps = (ordered - ordered.mean(dim=-1, keepdim=True)).exp()
    probs = exps / exps.sum(dim=-1, keepdim=True)
    keep = probs.cumsum(dim=-1) - probs < p
    kept = ordered.masked_fill(~keep, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, kept)


@wrong(
    "keeps a token if those before it sum to p or less: one token too many if the sum is exactly p, as with two equal logits and p = 0.5",
    "Top-p sampling (Holtzman et al., 2020) draws only from the *nucleus*: the smallest set of most probable tokens whose probabilities sum to at least p.",
    "one token too many where the sum is exactly p",
)
def top_p(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    probs = ordered.softmax(dim=-1)
    before = F.pad(probs.cumsum(dim=-1)[..., :-1], (1, 0))
    kept = ordered.masked_fill(before > p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, kept)


@wrong(
    "takes the logits through float32 and back: float64 logits come back rounded",
    "Do not change the logits of these tokens.",
    "float64 logits rounded to float32",
)
def top_p(logits, p):
    ordered, ids = logits.float().sort(dim=-1, descending=True)
    probs = ordered.softmax(dim=-1)
    before = probs.cumsum(dim=-1) - probs
    kept = ordered.masked_fill(before >= p, -math.inf).to(logits.dtype)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, kept)


@wrong(
    "looks at the 256 most probable tokens only: where a larger nucleus is needed, the kept tokens do not reach p",
    "take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "nucleus of at most 256 tokens",
)
def top_p(logits, p):
    best, ids = logits.topk(min(256, logits.shape[-1]), dim=-1)
    probs = (best - logits.logsumexp(dim=-1, keepdim=True)).exp()
    before = probs.cumsum(dim=-1) - probs
    kept = best.masked_fill(before >= p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, ids, kept)
