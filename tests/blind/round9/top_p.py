import torch
import torch.nn.functional as F

from blind import right, wrong


@right("argsort twice: the second one is the inverse permutation, so no scatter; the sum before by shifting the cumsum")
def top_p(logits, p):
    probs = logits.double().softmax(-1)
    order = probs.argsort(dim=-1, descending=True, stable=True)
    ranked = probs.gather(-1, order)
    before = F.pad(ranked.cumsum(-1), (1, 0))[..., :-1]
    keep_ranked = before < p
    back = order.argsort(dim=-1)
    keep = keep_ranked.gather(-1, back)
    return torch.where(keep, logits, torch.full_like(logits, -torch.inf))


@right("takes tokens one at a time with argmax, for all rows together, until every row has reached p")
def top_p(logits, p):
    left = logits.detach().to(torch.float64).softmax(dim=-1)
    total = left.new_zeros(logits.shape[:-1] + (1,))
    kept = torch.zeros_like(logits, dtype=torch.bool)
    for _ in range(logits.size(-1)):
        open_rows = total < p
        if not open_rows.any():
            break
        probability, best = left.max(dim=-1, keepdim=True)
        open_rows = open_rows & (probability > 0)
        kept = kept.scatter(-1, best, kept.gather(-1, best) | open_rows)
        total = total + probability * open_rows
        left = left.scatter(-1, best, 0.0)
    return logits.masked_fill(~kept, float("-inf"))


@right("topk of the whole row, searchsorted for the number of tokens to keep, rank by scatter")
def top_p(logits, p, at_least=1):
    size = logits.size(-1)
    values, ids = logits.double().softmax(dim=-1).topk(size, dim=-1)
    sums = values.cumsum(dim=-1)
    target = torch.full_like(sums[..., :1], p)
    number = torch.searchsorted(sums.contiguous(), target) + 1
    number = number.clamp(min=at_least)
    rank = torch.empty_like(ids)
    places = torch.arange(size, device=logits.device).expand_as(ids)
    rank = rank.scatter(-1, ids, places)
    keep = (rank < number) & (logits > float("-inf"))
    result = logits.clone()
    result[~keep] = float("-inf")
    return result


@right("each row on its own, in plain Python loops over sorted ids")
def top_p(logits, p):
    flat = logits.reshape(-1, logits.shape[-1])
    kept = torch.zeros(flat.shape, dtype=torch.bool, device=logits.device)
    for number, row in enumerate(flat.detach()):
        probability = torch.softmax(row.double(), dim=0)
        total = 0.0
        for token in torch.argsort(probability, descending=True).tolist():
            if total >= p or probability[token] == 0:
                break
            kept[number, token] = True
            total += float(probability[token])
    return logits.masked_fill(~kept.view_as(logits), float("-inf"))


@wrong(
    "keeps a token if the sum up to and including it is at most p, so the token that reaches p is missing",
    "take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "stops one token too early",
)
def top_p(logits, p):
    probs, ids = logits.softmax(-1).sort(dim=-1, descending=True)
    keep = probs.cumsum(-1) <= p
    keep[..., 0] = True
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, float("-inf"))


@wrong(
    "does not move the result back from the sorted order to the order of the vocabulary",
    "Do not change the logits of these tokens.",
    "the result is still sorted",
)
def top_p(logits, p):
    ranked = logits.sort(dim=-1, descending=True).values
    probs = ranked.softmax(-1)
    before = probs.cumsum(-1) - probs
    return ranked.masked_fill(before >= p, float("-inf"))


@wrong(
    "returns the probabilities of the kept tokens, made to sum to 1, as logits (their logarithm)",
    "Do not change the logits of these tokens.",
    "kept logits are renormalised",
)
def top_p(logits, p):
    probs, ids = logits.softmax(-1).sort(dim=-1, descending=True)
    probs = probs.masked_fill(probs.cumsum(-1) - probs >= p, 0.0)
    probs = probs / probs.sum(-1, keepdim=True)
    return torch.zeros_like(probs).scatter(-1, ids, probs).log()


@wrong(
    "keeps all tokens that are at least as probable as the last token of the nucleus; of several equally probable tokens it keeps all, not only those needed",
    "If several tokens are equally probable, keep only as many of them as you need to reach p.",
    "a threshold keeps all ties",
)
def top_p(logits, p):
    ranked = logits.sort(dim=-1, descending=True).values
    probs = ranked.softmax(-1)
    inside = probs.cumsum(-1) - probs < p
    smallest = ranked.masked_fill(~inside, float("inf")).amin(-1, keepdim=True)
    return torch.where(logits >= smallest, logits, float("-inf"))


@wrong(
    "sorts and sums along dim=1, which raises for one axis and is wrong for three",
    "There may be any number of axes before the last one, or none.",
    "works along axis 1 only",
)
def top_p(logits, p):
    probs = torch.softmax(logits, dim=1)
    probs, ids = probs.sort(dim=1, descending=True)
    remove = probs.cumsum(dim=1) - probs >= p
    remove = torch.zeros_like(remove).scatter(1, ids, remove)
    return logits.masked_fill(remove, float("-inf"))


@wrong(
    "sets the logits of the other tokens to -inf in the caller's tensor",
    "Do not change the inputs.",
    "changes the logits in place",
)
def top_p(logits, p):
    probs, ids = logits.softmax(-1).sort(dim=-1, descending=True)
    remove = probs.cumsum(-1) - probs >= p
    remove = torch.zeros_like(remove).scatter(-1, ids, remove)
    logits[remove] = float("-inf")
    return logits


@wrong(
    "computes the softmax as exp / sum without subtracting the largest logit; for logits of 1000 every probability is nan, every comparison false, and the whole vocabulary is removed",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "softmax by hand overflows",
)
def top_p(logits, p):
    up = logits.exp()
    probs, ids = (up / up.sum(-1, keepdim=True)).sort(dim=-1, descending=True)
    keep = probs.cumsum(-1) - probs < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, float("-inf"))


@wrong(
    "finds one number of tokens for all rows, the largest that any row needs; rows whose nucleus is smaller keep too many tokens (a single row, or rows that need the same number, are right)",
    "Each row of V logits has its own nucleus.",
    "one nucleus size for all rows",
)
def top_p(logits, p):
    probs = logits.softmax(-1).sort(dim=-1, descending=True).values
    number = int((probs.cumsum(-1) - probs < p).sum(-1).max())
    values, ids = logits.topk(number, dim=-1)
    return torch.full_like(logits, float("-inf")).scatter(-1, ids, values)


@wrong(
    "removes from the other end: drops a token if what is left from it on (the least probable first) sums to less than 1 - p, with `<`; if the tail sums to exactly 1 - p it stays, so one token too many is kept, e.g. four equal tokens and p = 0.5",
    "the smallest set of most probable tokens whose probabilities sum to at least p.",
    "one token too many at exact sums",
)
def top_p(logits, p):
    probs, ids = logits.softmax(-1).sort(dim=-1, descending=False)
    remove = probs.cumsum(-1) < 1 - p
    remove = torch.zeros_like(remove).scatter(-1, ids, remove)
    return logits.masked_fill(remove, float("-inf"))


@wrong(
    "looks at the 50 most probable tokens only, to save time; a flat row over a larger vocabulary needs more than 50 tokens to reach p",
    "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.",
    "never keeps more than 50 tokens",
)
def top_p(logits, p):
    probs = logits.softmax(dim=-1)
    values, ids = probs.topk(min(50, logits.size(-1)), dim=-1)
    inside = values.cumsum(dim=-1) - values < p
    keep = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, inside)
    return torch.where(keep, logits, torch.full_like(logits, float("-inf")))
