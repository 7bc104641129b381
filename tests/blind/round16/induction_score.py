import torch
from blind import right, wrong

COUNT = "Count a position t only if its token has occurred earlier in the same row."
LATEST = "Let s be the latest earlier position with this token."
KEYS = "The score of a head is the mean of the weights that the queries t give to the keys s + 1."
ONE = "Take one mean over all positions that count, in all rows together."
NONE = "If no position counts, return a score of 0 for each head."
SCORES = "The scores (H,), of the dtype of the weights."
EXACT = "Positions and counts must be exact in every dtype."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
IDS = "tokens: token ids (B, T)."
INPUTS = "Do not change the inputs."
AXES = "weights: (B, H, T, T), queries by keys, of one layer."


def before(tokens):
    """The latest earlier position of each token, -1 if there is none."""
    length = tokens.size(1)
    place = torch.arange(length, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    return torch.where(same, place, -1).amax(-1)


def picked(weights, keys):
    """The weights (B, H, T) of each query for its key."""
    index = keys[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    return weights.gather(-1, index)[..., 0]


def mean(weights, keys, counts):
    chosen = picked(weights.double(), keys) * counts[:, None]
    return (chosen.sum((0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@right("a dict of last places for each row, and a list of the chosen weights")
@torch.no_grad()
def induction_score(tokens, weights):
    chosen = []
    for row, looked in zip(tokens.tolist(), weights):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                chosen.append(looked[:, t, last[token] + 1].double())
            last[token] = t
    if not chosen:
        return weights.new_zeros(weights.size(1))
    return (sum(chosen) / len(chosen)).to(weights.dtype)


@right("a stable sort brings equal tokens together, so the place before in this order is the last occurrence")
@torch.no_grad()
def induction_score(tokens, weights):
    order = tokens.argsort(dim=1, stable=True)
    ordered = tokens.gather(1, order)
    again = ordered[:, 1:] == ordered[:, :-1]
    b, at = again.nonzero(as_tuple=True)
    t, s = order[b, at + 1], order[b, at]
    total = weights[b, :, t, s + 1].double().sum(dim=0)
    return (total / max(len(b), 1)).to(weights.dtype)


@right("a matrix of zeros and ones marks the keys, shifted by one, and einsum sums the marked weights")
@torch.no_grad()
def induction_score(tokens, weights):
    same = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).tril(-1)
    later = same.flip(-1).cumsum(-1).flip(-1)
    latest = same & (later == 1)
    marked = torch.zeros_like(latest)
    marked[..., 1:] = latest[..., :-1]
    number = int(marked.sum())
    total = torch.einsum("bhts,bts->h", weights.double(), marked.double())
    return (total / number if number else total).to(weights.dtype)


@right("goes back step by step: at distance d it takes the queries that have found nothing nearer")
@torch.no_grad()
def induction_score(tokens, weights):
    total = weights.new_zeros(weights.size(1), dtype=torch.float64)
    found, number = torch.zeros_like(tokens, dtype=torch.bool), 0
    for d in range(1, tokens.size(1)):
        now = (tokens[:, d:] == tokens[:, :-d]) & ~found[:, d:]
        found[:, d:] |= now
        near = weights.diagonal(1 - d, dim1=-2, dim2=-1)[..., -now.size(1) :]
        total += near.double().masked_fill(~now[:, None], 0.0).sum((0, 2))
        number += int(now.sum())
    return (total / max(number, 1)).to(weights.dtype)


@wrong("takes the mean of each row first and then the mean of the rows: wrong if rows have different numbers of repeated tokens", breaks=ONE, name="mean of the rows' means")
@torch.no_grad()
def induction_score(tokens, weights):
    last = before(tokens)
    counts = last >= 0
    sums = (picked(weights.double(), last + 1) * counts[:, None]).sum(-1)
    rows = sums / counts.sum(1, keepdim=True).clamp(min=1)
    return (rows.sum(0) / counts.any(1).sum().clamp(min=1)).to(weights.dtype)


@wrong("takes the first occurrence of the token rather than the latest", breaks=LATEST, name="first instead of latest occurrence")
@torch.no_grad()
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    first = same.long().argmax(-1)
    return mean(weights, first + 1 * same.any(-1), same.any(-1))


@wrong("takes 0 for `no earlier position`, so tokens whose last occurrence is position 0 do not count", breaks=COUNT, name="position 0 is not counted")
@torch.no_grad()
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = (same * place).amax(-1)
    return mean(weights, last + (last > 0), last > 0)


@wrong("computes the latest position in the dtype of the weights: bfloat16 cannot hold positions such as 257", breaks=EXACT, name="positions in bfloat16")
@torch.no_grad()
def induction_score(tokens, weights):
    length = tokens.size(1)
    place = torch.arange(length, device=tokens.device).to(weights.dtype)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(same, place, -1.0).amax(-1).long()
    return mean(weights, (last + 1).clamp(max=length - 1), last >= 0)


@wrong("does not begin anew in each row: a token that has occurred only in an earlier row counts", breaks=COUNT, name="occurrences in other rows")
@torch.no_grad()
def induction_score(tokens, weights):
    total, number, last = weights.new_zeros(weights.size(1), dtype=torch.float64), 0, {}
    for row, looked in zip(tokens.tolist(), weights):
        for t, token in enumerate(row):
            if token in last:
                total += looked[:, t, min(last[token] + 1, len(row) - 1)].double()
                number += 1
            last[token] = t
    return (total / max(number, 1)).to(weights.dtype)


@wrong("0 / 0 is nan if no token occurs twice", breaks=NONE, name="nan if nothing counts")
@torch.no_grad()
def induction_score(tokens, weights):
    last = before(tokens)
    counts = last >= 0
    chosen = picked(weights.double(), last + 1) * counts[:, None]
    return (chosen.sum((0, 2)) / counts.sum()).to(weights.dtype)


@wrong("treats the id 0 as padding and leaves it out", breaks=COUNT, name="token id 0 is not counted")
@torch.no_grad()
def induction_score(tokens, weights):
    last = before(tokens)
    return mean(weights, last + 1, (last >= 0) & (tokens != 0))


@wrong("leaves out tokens that repeat the token just before them, because the key s + 1 is then the query's own position", breaks=COUNT, name="direct repetitions are not counted")
@torch.no_grad()
def induction_score(tokens, weights):
    last = before(tokens)
    place = torch.arange(tokens.size(1), device=tokens.device)
    return mean(weights, last + 1, (last >= 0) & (last + 1 < place))


@wrong("squeezes the result: with a single head, the score has the shape () and not (1,)", breaks=SCORES, name="squeeze of a single head")
@torch.no_grad()
def induction_score(tokens, weights):
    last = before(tokens)
    return mean(weights, last + 1, last >= 0).squeeze()


@wrong("adds up the weights of all earlier occurrences, not only of the latest: different as soon as a token occurs three times", breaks=LATEST, name="all earlier occurrences")
@torch.no_grad()
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    total = torch.einsum("bhts,bts->h", weights[..., 1:].double(), same[..., :-1].double())
    return (total / same.any(-1).sum().clamp(min=1)).to(weights.dtype)
