import torch

from blind import right, wrong


@right("a dictionary of the last places, row by row, in plain Python")
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    picked = []
    for b, row in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                picked.append(weights[b, :, t, last[token] + 1])
            last[token] = t
    if not picked:
        return weights.new_zeros(H)
    return torch.stack(picked).mean(dim=0)


@right("one einsum with a 0/1 matrix of (query, key) pairs, divided by their number")
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    # the latest one: no later True in the row
    later = same.flip(-1).cumsum(-1).flip(-1)
    latest = same & (later == 1)
    pairs = latest.roll(1, dims=-1)  # s -> s + 1; column T - 1 is never True
    total = torch.einsum("bts,bhts->h", pairs.to(torch.float64), weights.double())
    return (total / pairs.sum().clamp(min=1)).to(weights.dtype)


@right("a stable sort brings equal tokens together: neighbours are occurrences that follow each other; then advanced indexing")
def induction_score(tokens, weights):
    ranked, where = tokens.sort(dim=1, stable=True)
    rows, places = (ranked[:, 1:] == ranked[:, :-1]).nonzero(as_tuple=True)
    t, s = where[rows, places + 1], where[rows, places]
    found = weights[rows, :, t, s + 1]  # (N, H)
    exact = torch.promote_types(weights.dtype, torch.float32)
    total = found.to(exact).sum(dim=0)
    return (total / max(len(found), 1)).to(weights.dtype)


@right("a loop over the distances from far to near; the nearest earlier occurrence overwrites")
def induction_score(tokens, weights, start=-1):
    B, T = tokens.shape
    key = torch.full_like(tokens, start)
    for distance in range(T - 1, 0, -1):
        again = tokens[:, distance:] == tokens[:, :-distance]
        after = torch.arange(1, T - distance + 1, device=tokens.device).expand_as(again)
        key[:, distance:] = torch.where(again, after, key[:, distance:])
    counts = key > 0
    index = key.clamp(min=0)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    looked = weights.gather(3, index).squeeze(3).transpose(0, 1)[:, counts]  # (H, N)
    if looked.size(1) == 0:
        return looked.new_zeros(looked.size(0))
    return looked.mean(dim=1)


@wrong(
    "measures the weight on s itself, the earlier occurrence, instead of s + 1",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "looks at s instead of s + 1",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = (same * torch.arange(T, device=tokens.device)).amax(-1)
    counts = same.any(-1)
    index = latest[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0].transpose(0, 1)[:, counts]
    return found.mean(-1) if counts.any() else weights.new_zeros(weights.size(1))


@wrong(
    "argmax over the earlier equal positions finds the first occurrence, not the latest",
    "Let s be the latest earlier position with this token.",
    "takes the first earlier occurrence",
)
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(-1)
    following = same.long().argmax(-1) + 1
    index = following[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    index = index.clamp(max=tokens.size(1) - 1)
    found = weights.gather(-1, index)[..., 0].transpose(0, 1)[:, counts]
    return found.mean(-1) if counts.any() else weights.new_zeros(weights.size(1))


@wrong(
    "takes the mean over all positions: positions that do not count enter as 0",
    "Count a position t only if its token has occurred earlier in the same row.",
    "positions that do not count dilute the mean",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    following = (same * torch.arange(1, T + 1, device=tokens.device)).amax(-1)
    counts = same.any(-1)
    index = following.clamp(max=T - 1)[:, None, :, None]
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0] * counts[:, None]
    return found.mean(dim=(0, 2))


@wrong(
    "if no position counts, the mean of nothing is nan instead of 0",
    "If no position counts, return a score of 0 for each head.",
    "nan when no position counts",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    following = (same * torch.arange(1, T + 1, device=tokens.device)).amax(-1)
    counts = same.any(-1)
    index = following.clamp(max=T - 1)[:, None, :, None]
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0].transpose(0, 1)[:, counts]
    return found.mean(dim=-1)


@wrong(
    "takes a mean for each row and then the mean of the rows that have any; rows with different numbers of counted positions get the same weight",
    "Take one mean over all positions that count, in all rows together.",
    "mean of the rows' means",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    following = (same * torch.arange(1, T + 1, device=tokens.device)).amax(-1)
    counts = same.any(-1)
    index = following.clamp(max=T - 1)[:, None, :, None]
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0] * counts[:, None]
    number = counts.sum(-1)
    rows = found.sum(-1)[number > 0] / number[number > 0, None]
    return rows.mean(0) if len(rows) else weights.new_zeros(weights.size(1))


@wrong(
    "divides a float32 sum by a count and does not cast back; bfloat16 weights give float32 scores",
    "The scores (H,), of the dtype of the weights.",
    "the scores have the wrong dtype",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    following = (same * torch.arange(1, T + 1, device=tokens.device)).amax(-1)
    counts = same.any(-1)
    index = following.clamp(max=T - 1)[:, None, :, None]
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0].float() * counts[:, None]
    return found.sum(dim=(0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "squeezes the picked weights; with one head the heads' axis is gone and the result is a single number, or the wrong mean",
    "The scores (H,), of the dtype of the weights.",
    "the axis of a single head disappears",
)
def induction_score(tokens, weights):
    picked = []
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            before = [s for s in range(t) if row[s] == token]
            if before:
                picked.append(weights[b, :, t, before[-1] + 1])
    if not picked:
        return weights.new_zeros(weights.size(1))
    return torch.stack(picked).squeeze().mean(dim=0)


@wrong(
    "takes a latest position of 0 to mean that there is none; queries whose latest earlier occurrence is position 0 are left out",
    "Count a position t only if its token has occurred earlier in the same row.",
    "an occurrence at position 0 is lost",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = (same * torch.arange(T, device=tokens.device)).amax(-1)
    counts = latest > 0  # 0: there is none
    index = (latest + 1).clamp(max=T - 1)[:, None, :, None]
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0].transpose(0, 1)[:, counts]
    return found.mean(-1) if counts.any() else weights.new_zeros(weights.size(1))


@wrong(
    "leaves out positions whose picked weight is 0, because it recognises the positions that count by a weight above 0; a head that gives weight 0 to some s + 1 gets too high a score (a softmax of usual scores has no zeros)",
    "Take one mean over all positions that count, in all rows together.",
    "weights of exactly 0 are not counted",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    following = (same * torch.arange(1, T + 1, device=tokens.device)).amax(-1)
    index = following.clamp(max=T - 1)[:, None, :, None]
    index = index.expand(-1, weights.size(1), -1, 1)
    found = weights.gather(-1, index)[..., 0] * same.any(-1)[:, None]
    return found.sum(dim=(0, 2)) / (found > 0).sum(dim=(0, 2)).clamp(min=1)


@wrong(
    "keeps the last place of each token in a table that goes on from row to row of the batch, so a token that occurred only in an earlier row counts, too",
    "Count a position t only if its token has occurred earlier in the same row.",
    "occurrences in other rows count",
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    last, picked = {}, []
    for b in range(B):
        for t in range(T):
            token = int(tokens[b, t])
            s = last.get(token)
            if s is not None and s + 1 < T:
                picked.append(weights[b, :, t, s + 1])
            last[token] = t
    return torch.stack(picked).mean(0) if picked else weights.new_zeros(H)
