import math

import torch
import torch.nn.functional as F

from blind import right, wrong


@right('counts with searchsorted how many sorted tokens are needed')
def top_p(logits, p):
    wide = torch.promote_types(logits.dtype, torch.float32)
    ranked, ids = logits.to(wide).softmax(dim=-1).sort(dim=-1, descending=True)
    sums = ranked.cumsum(dim=-1)
    needed = torch.searchsorted(sums, torch.full_like(sums[..., :1], p)) + 1
    kept_in_order = torch.arange(logits.size(-1), device=logits.device) < needed
    keep = torch.zeros_like(kept_in_order).scatter(-1, ids, kept_in_order)
    return torch.where(keep, logits, -torch.inf)


@right('Python loop over the rows, takes the tokens one after the other')
def top_p(logits, p):
    V = logits.shape[-1]
    result = torch.full(logits.shape, -torch.inf, dtype=logits.dtype, device=logits.device)
    wide = torch.promote_types(logits.dtype, torch.float32)
    for old, new in zip(logits.reshape(-1, V), result.view(-1, V)):
        probs = F.softmax(old, dim=0, dtype=wide)
        total = torch.zeros((), dtype=wide, device=probs.device)
        for i in torch.argsort(probs, descending=True, stable=True):
            new[i] = old[i]
            total = total + probs[i]
            if total >= p:
                break
    return result


@right("argsort of argsort gives each token's rank; the sum before it is looked up there")
def top_p(logits, p):
    probs = logits.double().softmax(-1)
    order = probs.argsort(-1, descending=True)
    rank = order.argsort(-1)
    cumulative = probs.gather(-1, order).cumsum(-1)
    before = F.pad(cumulative, (1, 0))[..., :-1].gather(-1, rank)
    return logits.masked_fill(before >= p, float("-inf"))


@right('removes the largest token again and again with argmax, all rows at once, until all rows have enough')
def top_p(logits, p):
    probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(dim=-1)
    left, total = probs, torch.zeros_like(probs[..., :1])
    keep = torch.zeros_like(logits, dtype=torch.bool)
    for _ in range(logits.size(-1)):
        open_rows = total < p
        if not open_rows.any():
            break
        best = left.argmax(dim=-1, keepdim=True)
        keep = keep | torch.zeros_like(keep).scatter(-1, best, open_rows)
        total = torch.where(open_rows, total + left.gather(-1, best), total)
        left = left.scatter(-1, best, -1.0)
    return torch.where(keep, logits, torch.full_like(logits, -math.inf))


@wrong(
    'keeps tokens while the sum including themselves is at most p, so the token that reaches p is missing',
    'Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.',
    'drops the token that reaches p',
)
def top_p(logits, p):
    ranked, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ranked.cumsum(dim=-1) <= p
    keep[..., 0] = True
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -torch.inf)


@wrong(
    'applies the mask in sorted order to the unsorted logits: right only if the logits come in descending order',
    'Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.',
    'forgets to undo the sorting',
)
def top_p(logits, p):
    ranked = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
    keep = ranked.cumsum(dim=-1) - ranked < p
    return logits.masked_fill(~keep, -torch.inf)


@wrong(
    'sets the removed logits to -10000: a finite number, and above kept logits that are lower still',
    'Set all other logits to $-\\infty$.',
    'uses a large negative number, not infinity',
)
def top_p(logits, p):
    ranked, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ranked.cumsum(dim=-1) - ranked < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -1e4)


@wrong(
    'keeps all tokens that are as probable as the last one needed: too many if there are ties at the edge',
    'If several tokens are equally probable, keep only as many of them as you need to reach p.',
    'threshold keeps all tied tokens',
)
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    probs = ranked.softmax(dim=-1)
    needed = (probs.cumsum(dim=-1) - probs < p).sum(dim=-1, keepdim=True)
    smallest = ranked.gather(-1, needed - 1)
    return logits.masked_fill(logits < smallest, -torch.inf)


@wrong(
    "writes minus infinity into the caller's logits",
    'Do not change the inputs.',
    'changes the logits in place',
)
def top_p(logits, p):
    ranked, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ranked.cumsum(dim=-1) - ranked < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    logits[~keep] = -torch.inf
    return logits


@wrong(
    'loops over the first axis as over rows: fails or mixes rows unless there are exactly two axes (for one axis each logit counts as a row)',
    'There may be any number of axes before the last one, or none.',
    'written for two axes only',
)
def top_p(logits, p):
    B, V = logits.shape
    result = torch.full_like(logits, -torch.inf)
    for b in range(B):
        probs, ids = logits[b].softmax(dim=-1).sort(descending=True)
        ids = ids[probs.cumsum(dim=-1) - probs < p]
        result[b, ids] = logits[b, ids]
    return result


@wrong(
    'own softmax without subtracting the maximum: exp overflows for logits above 88, all is NaN and everything is removed',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'softmax overflows for large logits',
)
def top_p(logits, p):
    probs = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)
    ranked, ids = probs.sort(dim=-1, descending=True)
    keep = ranked.cumsum(dim=-1) - ranked < p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -torch.inf)


@wrong(
    'keeps a token if the sum before it is at most p: one token too many exactly when a sum equals p, as with four equal logits and p = 0.5',
    'the smallest set of most probable tokens whose probabilities sum to at least p',
    'goes on when the sum equals p',
)
def top_p(logits, p):
    ranked, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ranked.cumsum(dim=-1) - ranked <= p
    keep = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~keep, -torch.inf)


@wrong(
    'looks at the 100 most probable tokens only: the nucleus is cut off if it has more, as with a flat distribution over 1,000 tokens',
    'Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.',
    'never keeps more than 100 tokens',
)
def top_p(logits, p):
    k = min(100, logits.size(-1))
    best, ids = logits.topk(k, dim=-1)
    probs = torch.exp(best - logits.logsumexp(dim=-1, keepdim=True))
    needed = probs.cumsum(dim=-1) - probs < p
    kept = best.masked_fill(~needed, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(-1, ids, kept)


@wrong(
    'one number of tokens for all rows, that of the row which needs most: surer rows keep too many (with one row, or equal rows, it is right)',
    'Each row of V logits has its own nucleus.',
    'same number of tokens for every row',
)
def top_p(logits, p):
    ranked, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    needed = int((ranked.cumsum(dim=-1) - ranked < p).sum(dim=-1).max())
    ids = ids[..., :needed]
    kept = logits.gather(-1, ids)
    return torch.full_like(logits, -torch.inf).scatter(-1, ids, kept)
