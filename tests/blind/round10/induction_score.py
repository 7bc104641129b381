import torch

from blind import right, wrong


@right("a dict of last positions for each row, picked weights stacked, mean in at least float32")
def induction_score(tokens, weights):
    b_at, t_at, s_at = [], [], []
    for b, row in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                b_at.append(b)
                t_at.append(t)
                s_at.append(last[token] + 1)
            last[token] = t
    if not b_at:
        return weights.new_zeros(weights.shape[1])
    picked = weights[b_at, :, t_at, s_at]  # (N, H)
    wide = torch.promote_types(weights.dtype, torch.float32)
    return picked.mean(dim=0, dtype=wide).to(weights.dtype)


@right("stable sort: equal tokens become neighbours, each one's left neighbour is the last occurrence")
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    values, order = torch.sort(tokens, dim=1, stable=True)
    b, i = (values[:, 1:] == values[:, :-1]).nonzero(as_tuple=True)
    t, s = order[b, i + 1], order[b, i]
    picked = weights[b, :, t, s + 1].to(torch.promote_types(weights.dtype, torch.float32))
    return (picked.sum(dim=0) / max(len(t), 1)).to(weights.dtype)


@right("table of wanted keys from a reversed running count, einsum over everything else")
def induction_score(tokens, weights):
    earlier = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).tril(-1)
    from_right = earlier.flip(2).long().cumsum(2).flip(2)
    latest = earlier & (from_right == 1)
    wanted = torch.zeros_like(latest)
    wanted[:, :, 1:] = latest[:, :, :-1]
    kind = torch.promote_types(weights.dtype, torch.float32)
    total = torch.einsum("bhts,bts->h", weights.to(kind), wanted.to(kind))
    return total.div(wanted.sum().clamp(min=1)).to(weights.dtype)


@right("goes through the distances from 1 up and reads the weights from diagonals")
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    open_ = torch.ones_like(tokens, dtype=torch.bool)  # no earlier occurrence found yet
    wide = weights.double() if weights.dtype == torch.float64 else weights.float()
    total, number = wide.new_zeros(H), 0
    for distance in range(1, T):
        hit = open_[:, distance:] & (tokens[:, distance:] == tokens[:, :-distance])
        open_[:, distance:] &= ~hit
        line = wide.diagonal(1 - distance, dim1=2, dim2=3)  # queries t, keys t - distance + 1
        line = line[:, :, -hit.size(1) :]
        total = total + line.masked_fill(~hit[:, None], 0.0).sum(dim=(0, 2))
        number += int(hit.sum())
    return (total / number if number else total).to(weights.dtype)


@wrong(
    "reads the weight of the earlier occurrence itself, key s; wrong wherever a position counts",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "key s instead of s + 1",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    place = torch.arange(T, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = torch.where(same, place, -1).amax(-1)
    counts = latest >= 0
    index = latest.clamp(min=0)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0].masked_fill(~counts[:, None], 0)
    return picked.sum((0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "takes the first occurrence: wrong where a token occurs three times in a row of tokens",
    "Let s be the latest earlier position with this token.",
    "first occurrence instead of the latest",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    place = torch.arange(T, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    first = torch.where(same, place, T).amin(-1)
    counts = first < T
    index = (first + 1).clamp(max=T - 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0].masked_fill(~counts[:, None], 0)
    return picked.sum((0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "adds up the weights of the tokens after all earlier occurrences: wrong where a token occurs three times",
    "Let s be the latest earlier position with this token.",
    "all earlier occurrences instead of the latest",
)
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    after = torch.roll(same, 1, dims=-1)  # the last column of `same` is empty
    picked = weights.masked_fill(~after[:, None], 0).sum(-1)
    return picked.sum((0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "mean of the picked weights without asking whether there are any: nan for rows without repetition, and for T = 1",
    "If no position counts, return a score of 0 for each head.",
    "nan if no position counts",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    place = torch.arange(T, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = torch.where(same, place, -1).amax(-1)
    b, t = (latest >= 0).nonzero(as_tuple=True)
    return weights[b, :, t, latest[b, t] + 1].mean(dim=0)


@wrong(
    "takes the mean of each row and then the mean of the rows: wrong where the rows have different numbers of positions that count",
    "Take one mean over all positions that count, in all rows together.",
    "mean of the rows' means",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    place = torch.arange(T, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = torch.where(same, place, -1).amax(-1)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    rows = picked.sum(-1) / counts.sum(-1, keepdim=True).clamp(min=1)
    some = counts.any(-1)
    return rows.sum(0) / some.sum().clamp(min=1)


@wrong(
    "leaves out positions whose token stands directly before them, because key s + 1 is then the query itself: wrong for 7 7",
    "Count a position t only if its token has occurred earlier in the same row.",
    "direct repetitions are not counted",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    place = torch.arange(T, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = torch.where(same, place, -1).amax(-1)
    counts = (latest >= 0) & (latest + 1 < place)
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum((0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "multiplies by a float32 mask and averages: bfloat16 weights give float32 scores, float64 is right",
    "The scores (H,), of the dtype of the weights.",
    "scores are float32 for bfloat16 weights",
)
def induction_score(tokens, weights):
    T = tokens.size(1)
    place = torch.arange(T, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = torch.where(same, place, -1).amax(-1)
    counts = (latest >= 0).float()
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum((0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "a maximum of 0 means both position 0 and nothing: a position whose token has last occurred at position 0 is not counted",
    "Count a position t only if its token has occurred earlier in the same row.",
    "position 0 taken for no occurrence",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = (same * place).amax(-1)
    counts = latest > 0
    index = (latest + 1).clamp(max=tokens.size(1) - 1)
    index = index[:, None, :, None].expand(-1, weights.size(1), -1, 1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum((0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "one table of last positions, not emptied between the rows: a token that first occurs in a row but has occurred in an earlier row at an earlier place counts",
    "Count a position t only if its token has occurred earlier in the same row.",
    "last positions carried over from other rows",
)
def induction_score(tokens, weights):
    last, picked = {}, []
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            if last.get(token, t) < t:
                picked.append(weights[b, :, t, last[token] + 1])
            last[token] = t
    if not picked:
        return weights.new_zeros(weights.size(1))
    return torch.stack(picked).mean(dim=0)


@wrong(
    "adds the weights one by one in their own dtype: in bfloat16 the sum stops growing after some hundred equal numbers, so the score of long inputs is far too low",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "running sum in bfloat16 stops growing",
)
def induction_score(tokens, weights):
    total, number = weights.new_zeros(weights.size(1)), 0
    for b, row in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                total = total + weights[b, :, t, last[token] + 1]
                number += 1
            last[token] = t
    return total / max(number, 1)
