import torch
from blind import right, wrong

SUM = "Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p."
AXES = "There may be any number of axes before the last one, or none."
ROWS = "Each row of V logits has its own nucleus."
UNCHANGED = "Do not change the logits of these tokens."
INFINITE = r"Set all other logits to $-\infty$."
TIES = "If several tokens are equally probable, keep only as many of them as you need to reach p."
NUCLEUS = "Top-p sampling (Holtzman et al., 2020) draws only from the *nucleus*: the smallest set of most probable tokens whose probabilities sum to at least p."
INPUTS = "Do not change the inputs."
OVERFLOW = "An exponential, however, may overflow."


@right('counts the sums below p, ranks by sorting twice, float64')
def top_p(logits, p):
    order = torch.argsort(logits, dim=-1, descending=True, stable=True)
    sums = logits.double().softmax(dim=-1).gather(-1, order).cumsum(dim=-1)
    number = (sums < p).sum(dim=-1, keepdim=True) + 1
    rank = order.argsort(dim=-1)
    return logits.masked_fill(rank >= number, float("-inf"))


def _nucleus(row, p):
    """The ids of the nucleus of one row of probabilities."""
    order = sorted(range(len(row)), key=lambda token: -row[token])
    kept, reached = [], 0.0
    for token in order:
        kept.append(token)
        reached += row[token]
        if reached >= p:
            break
    return kept


@right('a loop over the rows, in plain Python')
def top_p(logits, p):
    rows = logits.detach().reshape(-1, logits.size(-1))
    result = torch.full_like(rows, -torch.inf)
    for old, new, probabilities in zip(rows, result, rows.double().softmax(-1).tolist()):
        ids = torch.tensor(_nucleus(probabilities, p), device=logits.device)
        new[ids] = old[ids]
    return result.reshape(logits.shape)


@right('topk over all tokens, searchsorted, adds log(1) and log(0)')
def top_p(logits, p):
    V = logits.size(-1)
    chance, ids = torch.softmax(logits, dim=-1, dtype=torch.float64).topk(V, dim=-1)
    sums = chance.cumsum(dim=-1).contiguous()
    last = torch.searchsorted(sums, torch.full_like(sums[..., :1], p))  # first sum >= p
    kept = (torch.arange(V, device=logits.device) <= last).to(logits.dtype)
    return logits + torch.empty_like(kept).scatter(-1, ids, kept).log()


@right('takes tokens away one rank at a time, in sorted order, and scatters the logits back')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    exact = ranked.double()
    powers = (exact - exact[..., :1]).exp()
    before = powers.cumsum(dim=-1) - powers
    needed = before < p * powers.sum(dim=-1, keepdim=True)
    needed[..., 0] = True
    ranked = torch.where(needed, ranked, torch.full_like(ranked, float("-inf")))
    return torch.zeros_like(logits).scatter(-1, ids, ranked)


@wrong('keeps tokens as long as the sum is at most p, so the token that reaches p is missing', breaks=SUM, name='last token of the nucleus missing')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    kept = chance.cumsum(dim=-1) <= p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, float("-inf"))


@wrong('keeps one token more if the sum is exactly p', breaks=NUCLEUS, name='at most instead of less than')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    kept = before <= p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, float("-inf"))


@wrong('keeps all tokens that are as probable as the last one of the nucleus', breaks=TIES, name='threshold on the logits')
def top_p(logits, p):
    ranked = logits.sort(dim=-1, descending=True).values
    chance = ranked.double().softmax(dim=-1)
    number = (chance.cumsum(dim=-1) - chance < p).sum(dim=-1, keepdim=True).clamp(min=1)
    least = ranked.gather(-1, number - 1)
    return logits.masked_fill(logits < least, float("-inf"))


@wrong('applies the mask of the sorted tokens to the tokens in the order of the vocabulary', breaks=SUM, name='mask not moved back')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    kept = before < p
    kept[..., 0] = True
    return logits.masked_fill(~kept, float("-inf"))


@wrong("returns the logarithms of the nucleus's new probabilities", breaks=UNCHANGED, name='logits normalised')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    kept = before < p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    logits = logits.masked_fill(~kept, float("-inf"))
    return logits.log_softmax(dim=-1)


@wrong('keeps as many tokens in every row as the row with the largest nucleus needs', breaks=ROWS, name='one size for all rows')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    number = max(1, int((chance.cumsum(dim=-1) - chance < p).sum(dim=-1).max()))
    result = torch.full_like(logits, float("-inf"))
    return result.scatter(-1, ids[..., :number], ranked[..., :number])


@wrong('writes minus infinity into the logits that it was given', breaks=INPUTS, name='logits changed')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    kept = before < p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    logits[~kept] = float("-inf")
    return logits


@wrong('sets the other logits to the smallest finite number', breaks=INFINITE, name='finite instead of minus infinity')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    chance = ranked.double().softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    kept = before < p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, torch.finfo(logits.dtype).min)


@wrong('a softmax without subtracting the largest logit', breaks=OVERFLOW, name='exponential overflows')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=-1, descending=True)
    powers = ranked.exp()
    chance = powers / powers.sum(dim=-1, keepdim=True)
    before = chance.cumsum(dim=-1) - chance
    kept = before < p
    kept[..., 0] = True
    kept = torch.zeros_like(kept).scatter(-1, ids, kept)
    return logits.masked_fill(~kept, float("-inf"))


@wrong('sorts and adds along axis 1, which is the last one of (B, V) only', breaks=AXES, name='dim=1 instead of the last axis')
def top_p(logits, p):
    ranked, ids = logits.sort(dim=1, descending=True)
    chance = ranked.double().softmax(dim=1)
    before = chance.cumsum(dim=1) - chance
    kept = before < p
    kept[:, 0] = True
    kept = torch.zeros_like(kept).scatter(1, ids, kept)
    return logits.masked_fill(~kept, float("-inf"))
