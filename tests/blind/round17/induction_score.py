import torch
from torch import nn
from blind import right, wrong

COUNT = "Count a position t only if its token has occurred earlier in the same row."
LATEST = "Let s be the latest earlier position with this token."
KEYS = "The score of a head is the mean of the weights that the queries t give to the keys s + 1."
TOGETHER = "Take one mean over all positions that count, in all rows together."
NONE = "If no position counts, return a score of 0 for each head."
RETURNS = "The scores (H,), of the dtype of the weights."
EXACT = "Positions and counts must be exact in every dtype."


# ---------------------------------------------------------------- right answers


@right("a dict of the last positions in each row, and a list of the weights found")
def induction_score(tokens, weights):
    found = []
    for row, looks in zip(tokens.tolist(), weights):  # looks: (H, T, T)
        last = {}
        for t, token in enumerate(row):
            if token in last:
                found.append(looks[:, t, last[token] + 1].double())
            last[token] = t
    if not found:
        return weights.new_zeros(weights.size(1))
    return torch.stack(found).mean(dim=0).to(weights.dtype)


@right("a stable sort brings equal tokens together, so each neighbor is the last occurrence")
def induction_score(tokens, weights):
    ordered, places = tokens.sort(dim=1, stable=True)
    row, rank = (ordered[:, 1:] == ordered[:, :-1]).nonzero(as_tuple=True)
    t, s = places[row, rank + 1], places[row, rank]
    picked = weights[row, :, t, s + 1]  # (number, H)
    total = picked.sum(dim=0, dtype=torch.float64)
    return (total / max(len(row), 1)).to(weights.dtype)


@right("a matrix of ones at the keys that matter, shifted by one place, with einsum")
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).long()
    after = same.flip(-1).cumsum(-1).flip(-1)  # occurrences from this position up to t
    latest = (same * (after == 1)).double()
    shifted = torch.zeros_like(latest)
    shifted[:, :, 1:] = latest[:, :, : T - 1]
    total = torch.einsum("bts,bhts->h", shifted, weights.double())
    return (total / shifted.sum().clamp(min=1)).to(weights.dtype)


@right("goes back one place at a time: diagonals of the weights and tokens that still search")
def induction_score(tokens, weights):
    T = tokens.size(1)
    total = torch.zeros(weights.size(1), dtype=torch.float64, device=weights.device)
    open_places = torch.ones_like(tokens, dtype=torch.bool)
    number = 0
    for back in range(1, T):
        hit = (tokens[:, back:] == tokens[:, :-back]) & open_places[:, back:]
        open_places[:, back:] &= ~hit
        # the weight of query t on key t - back + 1, for t = back, ..., T - 1
        looks = weights.diagonal(1 - back, dim1=2, dim2=3)[:, :, -(T - back):]
        total += (looks * hit[:, None]).double().sum(dim=(0, 2))
        number += int(hit.sum())
    return (total / number if number else total).to(weights.dtype)


# ---------------------------------------------------------------- wrong answers


def latest_earlier(tokens):
    """The latest earlier position of each token, -1 if there is none."""
    T = tokens.size(1)
    places = torch.arange(T, device=tokens.device).expand(tokens.size(0), T, T)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    return places.masked_fill(~same, -1).amax(dim=-1)


@wrong("picks the weight on the earlier occurrence itself",
       breaks=KEYS, name="key s instead of s + 1")
def induction_score(tokens, weights):
    latest = latest_earlier(tokens)
    counts = latest >= 0
    index = latest.clamp(min=0)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1).to(weights.dtype)


@wrong("takes the first position with the same token, with argmax",
       breaks=LATEST, name="the earliest occurrence instead of the latest")
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    first = same.int().argmax(dim=-1)
    after = (first + 1).clamp(max=tokens.size(1) - 1)
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1).to(weights.dtype)


@wrong("takes a mean for each row, and then the mean of the rows in which a position counts",
       breaks=TOGETHER, name="a mean of means")
def induction_score(tokens, weights):
    latest = latest_earlier(tokens)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    rows = picked.sum(dim=2) / counts.sum(dim=1, keepdim=True).clamp(min=1).to(weights.dtype)
    return rows.sum(dim=0) / counts.any(dim=1).sum().clamp(min=1).to(weights.dtype)


@wrong("takes the mean of the weights that are picked with a mask, even if there are none",
       breaks=NONE, name="NaN if no token is repeated")
def induction_score(tokens, weights):
    latest = latest_earlier(tokens)
    row, t = (latest >= 0).nonzero(as_tuple=True)
    return weights[row, :, t, latest[row, t] + 1].mean(dim=0)


@wrong("multiplies the matches by the positions and counts where the largest product is above 0",
       breaks=COUNT, name="a token whose only earlier occurrence is at position 0 does not count")
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = (same * torch.arange(T, device=tokens.device)).amax(dim=-1)
    counts = latest > 0
    after = torch.where(counts, latest + 1, latest)
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1).to(weights.dtype)


@wrong("goes on with the last positions of the row before",
       breaks=COUNT, name="a token counts if another row had it earlier")
def induction_score(tokens, weights):
    last, found = {}, []
    for row, looks in zip(tokens.tolist(), weights):
        for t, token in enumerate(row):
            s = last.get(token, t)
            if s < t:
                found.append(looks[:, t, s + 1])
            last[token] = t
    if not found:
        return torch.zeros_like(weights[0, :, 0, 0])
    return torch.stack(found).mean(dim=0)


@wrong("makes the positions in the dtype of the weights",
       breaks=EXACT, name="positions above 256 are rounded in bfloat16")
def induction_score(tokens, weights):
    T = tokens.size(1)
    places = torch.arange(1, T + 1, device=tokens.device).to(weights.dtype)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same * places).amax(dim=-1).long()  # s + 1, 0 if there is none
    counts = after > 0
    index = after.clamp(max=T - 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1).to(weights.dtype)


@wrong("adds up Python numbers and makes a new tensor of the means",
       breaks=RETURNS, name="the result is always float32")
def induction_score(tokens, weights):
    latest = latest_earlier(tokens).tolist()
    looks = weights.tolist()
    places = [(b, t) for b, row in enumerate(latest) for t, s in enumerate(row) if s >= 0]
    scores = [
        sum(looks[b][h][t][latest[b][t] + 1] for b, t in places) / max(len(places), 1)
        for h in range(weights.size(1))
    ]
    return torch.tensor(scores, device=weights.device)


@wrong("leaves the last position out, because nothing follows it",
       breaks=TOGETHER, name="the last query is not measured")
def induction_score(tokens, weights):
    latest = latest_earlier(tokens)
    counts = latest >= 0
    counts[:, -1] = False
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1).to(weights.dtype)


@wrong("looks for the token only before the previous position",
       breaks=LATEST, name="a token that is repeated at once is overlooked")
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-2)
    after = (same * torch.arange(1, T + 1, device=tokens.device)).amax(dim=-1)
    counts = after > 0
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1).to(weights.dtype)
