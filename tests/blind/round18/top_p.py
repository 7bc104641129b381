import math

import torch

from blind import right, wrong


@right('sort, cumsum and scatter in float64, with the sums before each token by shifting')
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    reached = ordered.cumsum(dim=-1) >= p
    drop = reached.roll(1, dims=-1)
    drop[..., 0] = False
    inside = torch.zeros_like(drop).scatter(-1, ids, ~drop)
    return logits.masked_fill(~inside, -math.inf)


@right('row by row: searchsorted finds how many tokens are needed, and index_copy puts them back')
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    rows = logits.reshape(-1, logits.shape[-1])
    results = []
    for row in rows:
        ids = row.argsort(descending=True)
        sums = row[ids].to(torch.float64).softmax(dim=0).cumsum(dim=0)
        needed = int(torch.searchsorted(sums, torch.tensor(p, dtype=sums.dtype, device=sums.device))) + 1
        ids = ids[:needed]
        results.append(torch.full_like(row, -math.inf).index_copy(0, ids, row[ids]))
    return torch.stack(results).reshape(logits.shape)


@right('from the improbable end: a token stays if it and all less probable ones sum to more than 1 - p; ranks by a double argsort')
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float64)
    rising = probabilities.argsort(dim=-1)
    rank = rising.argsort(dim=-1)
    tails = probabilities.gather(-1, rising).cumsum(dim=-1)
    keep = tails.gather(-1, rank) > 1 - p
    keep |= rank == logits.shape[-1] - 1
    return torch.where(keep, logits, torch.full_like(logits, -math.inf))


@right('plain Python: sorted lists, math.fsum and a while loop')
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    flat = logits.detach().reshape(-1, logits.shape[-1])
    keep = []
    for row in flat.double().tolist():
        top = max(row)
        powers = [math.exp(x - top) for x in row]
        total, order = math.fsum(powers), sorted(range(len(row)), key=lambda i: -row[i])
        chosen, mass, waiting = [False] * len(row), 0.0, iter(order)
        while mass / total < p and (i := next(waiting, None)) is not None:
            chosen[i] = True
            mass += powers[i]
        keep.append(chosen)
    keep = torch.tensor(keep, device=logits.device).reshape(logits.shape)
    return logits.masked_fill(keep.logical_not(), -math.inf)


@wrong(
    'keeps tokens while the sum, their own probability included, is at most p (and always the first)',
    breaks='Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.',
    name='stops one token too early',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) <= p
    keep[..., 0] = True
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~inside, -math.inf)


@wrong(
    'returns the log-probabilities of the kept tokens',
    breaks='Do not change the logits of these tokens.',
    name='logits are normalized',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < p
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.log_softmax(dim=-1).masked_fill(~inside, -math.inf)


@wrong(
    'gathers by the ids where it has to scatter; right if the order is its own inverse',
    breaks='Keep the most probable tokens: take them in order, from the most probable one on, until their probabilities sum to at least p.',
    name='back to the vocabulary the wrong way',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < p
    inside = keep.gather(-1, ids)
    return logits.masked_fill(~inside, -math.inf)


@wrong(
    'sets the other logits to the smallest finite number',
    breaks='Set all other logits to $-\\infty$.',
    name='not infinite',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < p
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~inside, torch.finfo(logits.dtype).min)


@wrong(
    'all rows keep as many tokens as the row that needs the most',
    breaks='Each row of V logits has its own nucleus.',
    name='one size for all rows',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < p
    most = int(keep.sum(dim=-1).max())
    keep = torch.zeros_like(keep)
    keep[..., :most] = True
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~inside, -math.inf)


@wrong(
    'keeps all tokens at least as probable as the last one needed, so ties are all kept',
    breaks='If several tokens are equally probable, keep only as many of them as you need to reach p.',
    name='keeps all ties',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered = logits.sort(dim=-1, descending=True).values
    probabilities = ordered.double().softmax(dim=-1)
    needed = (probabilities.cumsum(dim=-1) - probabilities < p).sum(dim=-1, keepdim=True)
    smallest = ordered.gather(-1, needed - 1)
    return logits.masked_fill(logits < smallest, -math.inf)


@wrong(
    'keeps one more token where the sum hits p exactly (<= instead of <)',
    breaks='Top-p sampling (Holtzman et al., 2020) draws only from the *nucleus*: the smallest set of most probable tokens whose probabilities sum to at least p.',
    name='one more at an exact sum',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered <= p
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~inside, -math.inf)


@wrong(
    'fills a copy made by .float(), which is no copy if the logits are float32 already',
    breaks='Do not change the inputs.',
    name='float() is not a copy',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    scores = logits.float() if logits.dtype != torch.float64 else logits.clone()
    ordered, ids = scores.double().softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ordered.cumsum(dim=-1) - ordered < p
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    scores[~inside] = -math.inf
    return scores.to(logits.dtype)


@wrong(
    'looks for the nucleus only among the 100 most probable tokens',
    breaks='take them in order, from the most probable one on, until their probabilities sum to at least p',
    name='at most 100 tokens',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    probabilities = logits.double().softmax(dim=-1)
    ordered, ids = probabilities.topk(min(100, logits.shape[-1]), dim=-1)
    keep = ordered.cumsum(dim=-1) - ordered < p
    inside = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, keep)
    return logits.masked_fill(~inside, -math.inf)


@wrong(
    'shifts the removed tokens by one, but does not keep the first if it alone reaches p: the row becomes empty',
    breaks='Always keep at least one token, the most probable one.',
    name='an empty nucleus',
)
def top_p(logits, p):
    """Remove the tokens outside the nucleus."""
    ordered, ids = logits.double().softmax(dim=-1).sort(dim=-1, descending=True)
    drop = ordered.cumsum(dim=-1) >= p
    drop[..., 1:] = drop[..., :-1].clone()
    keep = ~drop
    inside = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~inside, -math.inf)
