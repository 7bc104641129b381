import math

import torch
from blind import right, wrong


@right("subtracts the own probability, as the hint says")
def r1(logits, p):
    ordered, ids = logits.softmax(-1).sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    gone = (before >= p).scatter(-1, ids, before >= p)
    return logits.masked_fill(gone, -math.inf)


@right("shifts the sums by one place with pad")
def r2(logits, p):
    order = torch.argsort(logits, dim=-1, descending=True)
    sums = logits.gather(-1, order).double().softmax(-1).cumsum(-1)
    before = torch.nn.functional.pad(sums[..., :-1], (1, 0))
    back = torch.argsort(order, dim=-1)
    return torch.where((before < p).gather(-1, back), logits, -torch.inf)


@right("a plain loop over a sorted list, row by row")
def r3(logits, p):
    out = []
    for row in logits.reshape(-1, logits.size(-1)):
        probs = row.double().softmax(0).tolist()
        new, total = torch.full_like(row, -math.inf), 0.0
        for i in sorted(range(len(probs)), key=lambda i: -probs[i]):
            if total >= p:
                break
            new[i] = row[i]
            total += probs[i]
        out.append(new)
    return torch.stack(out).reshape(logits.shape)


@right("searchsorted finds how many tokens are needed")
def r4(logits, p):
    ordered, ids = logits.double().softmax(-1).sort(dim=-1, descending=True)
    sums = ordered.cumsum(-1).contiguous()
    target = torch.full_like(sums[..., :1], p)
    needed = torch.searchsorted(sums, target)  # first index with sum >= p
    stay = torch.arange(logits.size(-1), device=logits.device) <= needed
    keep = torch.zeros_like(stay).scatter(-1, ids, stay)
    return logits.masked_fill(~keep, -math.inf)


def sorted_rows(logits):
    ordered, ids = logits.softmax(-1).sort(dim=-1, descending=True)
    return ordered, ids, ordered.cumsum(-1)


@wrong(
    "the token that crosses p is dropped, unless it is the first",
    "until their probabilities sum to at least p. These tokens stay.",
    "token that crosses the border dropped",
)
def w1(logits, p):
    _, ids, sums = sorted_rows(logits)
    gone = sums > p
    gone[..., 0] = False
    return logits.masked_fill(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "one token more than needed",
    "until their probabilities sum to at least p. These tokens stay.",
    "one too many",
)
def w2(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    before = sums - ordered
    gone = before >= p
    gone[..., 1:] = gone[..., :-1].clone()
    gone[..., 0] = False
    return logits.masked_fill(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "returns log-probabilities of those that stay",
    "The logits of the tokens that stay do not change.",
    "logits normalised",
)
def w3(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    gone = sums - ordered >= p
    gone = gone.scatter(-1, ids, gone)
    return logits.log_softmax(-1).masked_fill(gone, -math.inf)


@wrong(
    "a large negative number in place of minus infinity",
    "All others become minus infinity.",
    "finite fill",
)
def w4(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    gone = sums - ordered >= p
    return logits.masked_fill(gone.scatter(-1, ids, gone), -1e9)


@wrong(
    "writes into the logits it was given",
    "What comes in stays as it is.",
    "in place",
)
def w5(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    gone = sums - ordered >= p
    return logits.masked_fill_(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "the mask stays in sorted order",
    "Take the tokens from the most probable one on",
    "not scattered back",
)
def w6(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    return logits.masked_fill(sums - ordered >= p, -math.inf)


@wrong(
    "gathers with the ids of the sort instead of scattering",
    "Take the tokens from the most probable one on",
    "gather for scatter",
)
def w7(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    return logits.masked_fill((sums - ordered >= p).gather(-1, ids), -math.inf)


@wrong(
    "every token whose own probability is below 1 - p goes, the first excepted",
    "Take the tokens from the most probable one on, until their probabilities sum to at least p.",
    "threshold on single tokens",
)
def w8(logits, p):
    probs = logits.softmax(-1)
    keep = (probs >= 1 - p) | (probs == probs.amax(-1, keepdim=True))
    return logits.masked_fill(~keep, -math.inf)


@wrong(
    "all rows keep as many tokens as the first row",
    "each row of V logits has a set of its own",
    "number of the first row",
)
def w9(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    flat = (sums - ordered < p).reshape(-1, logits.size(-1))
    count = int(flat[0].sum())
    stay = torch.arange(logits.size(-1)).expand_as(ids) < count
    return logits.masked_fill(~stay.scatter(-1, ids, stay), -math.inf)


@wrong(
    "softmax over the first axis",
    "The probabilities are the softmax of the logits over the last axis.",
    "wrong axis",
)
def w11(logits, p):
    ordered, ids = logits.softmax(0).sort(dim=-1, descending=True)
    gone = ordered.cumsum(-1) - ordered >= p
    return logits.masked_fill(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "works on two axes only",
    "There may be any number of axes before it, also none",
    "two axes only",
)
def w12(logits, p):
    ordered, ids = logits.softmax(-1).sort(dim=1, descending=True)
    gone = ordered.cumsum(1) - ordered >= p
    return logits.masked_fill(gone.scatter(1, ids, gone), -math.inf)


@wrong(
    "compares with at most p: takes one more when the sum is exactly p",
    "until their probabilities sum to at least p",
    "sum of exactly p",
)
def w13(logits, p):
    ordered, ids, sums = sorted_rows(logits)
    gone = sums - ordered > p
    return logits.masked_fill(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "returns float32 whatever came in",
    "what goes out has its dtype",
    "dtype lost",
)
def w14(logits, p):
    ordered, ids, sums = sorted_rows(logits.float())
    gone = sums - ordered >= p
    return logits.float().masked_fill(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "exponentials without subtracting the maximum",
    "for large numbers as for small ones",
    "overflow",
)
def w15(logits, p):
    mass = logits.exp()
    ordered, ids = (mass / mass.sum(-1, keepdim=True)).sort(dim=-1, descending=True)
    gone = ordered.cumsum(-1) - ordered >= p
    return logits.masked_fill(gone.scatter(-1, ids, gone), -math.inf)


@wrong(
    "renormalises after a top-50 cut",
    "Take the tokens from the most probable one on, until their probabilities sum to at least p.",
    "top 50 first",
)
def w16(logits, p):
    k = min(50, logits.size(-1))
    least = logits.topk(k, dim=-1).values[..., -1:]
    cut = logits.masked_fill(logits < least, -math.inf)
    ordered, ids, sums = sorted_rows(cut)
    gone = sums - ordered >= p
    return cut.masked_fill(gone.scatter(-1, ids, gone), -math.inf)
