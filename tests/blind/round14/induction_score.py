import math

import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("a Python dict of last positions per row, math.fsum for the mean")
def induction_score(tokens, weights):
    heads = weights.size(1)
    rows, at, keys = [], [], []
    for b, row in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                rows.append(b)
                at.append(t)
                keys.append(last[token] + 1)
            last[token] = t
    picked = weights.detach().double()[rows, :, at, keys].reshape(-1, heads)
    scores = [
        math.fsum(column) / len(column) if column else 0.0
        for column in (picked[:, h].tolist() for h in range(heads))
    ]
    return torch.tensor(scores, dtype=weights.dtype, device=weights.device)


@right("a stable sort of each row brings equal tokens together, in the order of their positions")
def induction_score(tokens, weights):  # noqa: F811
    ordered, places = tokens.sort(dim=1, stable=True)
    same = ordered[:, 1:] == ordered[:, :-1]  # (B, T - 1)
    b, n = same.nonzero(as_tuple=True)
    t, s = places[b, n + 1], places[b, n]
    picked = weights.transpose(0, 1)[:, b, t, s + 1].double()  # (H, number)
    total = picked.sum(dim=1)
    return (total / max(picked.size(1), 1)).to(weights.dtype)


@right("a 0-1 matrix of queries and keys, made by walking back over the distances; one einsum")
def induction_score(tokens, weights):  # noqa: F811
    rows, length = tokens.shape
    choose = torch.zeros(rows, length, length, dtype=torch.bool, device=tokens.device)
    open_ = torch.ones(rows, length, dtype=torch.bool, device=tokens.device)
    for back in range(1, length):
        hit = (tokens[:, back:] == tokens[:, :-back]) & open_[:, back:]
        at = torch.arange(back, length, device=tokens.device)
        choose[:, at, at - back + 1] = hit
        open_[:, back:] &= ~hit
    total = torch.einsum("bhts,bts->h", weights.double(), choose.double())
    return (total / choose.sum().clamp(min=1)).to(weights.dtype)


@right("all pairs; cummax of positions instead of a maximum; take_along_dim and a where")
def induction_score(tokens, weights):  # noqa: F811
    length = tokens.size(1)
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens.unsqueeze(2) == tokens.unsqueeze(1)) & (place < place[:, None])
    marked = torch.where(earlier, place + 1, 0)  # the key s + 1 itself; 0 for none
    key = marked.cummax(dim=-1).values[..., -1]  # (B, T)
    counts = key > 0
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = torch.take_along_dim(weights.double(), index, dim=3).squeeze(3)
    picked = torch.where(counts[:, None], picked, 0.0)
    number = int(counts.sum())
    scores = picked.sum(dim=(0, 2)) / (number if number else 1)
    return scores.to(weights.dtype)


# ---------------------------------------------------------------- wrong


@wrong(
    "takes the first earlier position with the token instead of the latest",
    "Let s be the latest earlier position with this token.",
    "uses the first occurrence",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    first = torch.where(same, place, tokens.size(1)).amin(dim=-1)
    key = torch.where(counts, first + 1, 0)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "measures the weight on s, the earlier occurrence itself",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "key s instead of s + 1",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    key = torch.where(same, place, 0).amax(dim=-1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "takes a mean for each row and then the mean of the rows",
    "Take one mean over all positions that count, in all rows together.",
    "mean of the rows' means",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    key = torch.where(same, place + 1, 0).amax(dim=-1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    each = picked.sum(dim=2) / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return each.mean(dim=0).to(weights.dtype)


@wrong(
    "divides by the number of positions that count without a clamp, so no repeated token gives NaN",
    "If no position counts, return a score of 0 for each head.",
    "NaN when no position counts",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    key = torch.where(same, place + 1, 0).amax(dim=-1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum()).to(weights.dtype)


@wrong(
    "uses a latest position of 0 as the sign for `none`, so positions whose earlier occurrence is the very first token do not count",
    "Count a position t only if its token has occurred earlier in the same row.",
    "position 0 taken for none",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = (same * place).amax(dim=-1)
    counts = latest > 0
    key = torch.where(counts, latest + 1, 0)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "leaves out token 0, as if it were padding",
    "Count a position t only if its token has occurred earlier in the same row.",
    "treats token 0 as padding",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1) & (tokens != 0)
    key = torch.where(same, place + 1, 0).amax(dim=-1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "makes the positions in the dtype of the weights: in bfloat16, positions above 256 are rounded",
    "Positions and counts must be exact in every dtype.",
    "positions in bfloat16",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device).to(weights.dtype)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).to(weights.dtype)
    counts = same.any(dim=-1)
    key = (same * place).amax(dim=-1).long() + 1
    key = key.clamp(max=tokens.size(1) - 1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "forgets to empty its dict of last positions at the start of a row, so a token of an earlier row counts as an earlier occurrence",
    "Count a position t only if its token has occurred earlier in the same row.",
    "remembers tokens of earlier rows",
)
def induction_score(tokens, weights):  # noqa: F811
    last, total, number = {}, 0.0, 0
    length = tokens.size(1)
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            if token in last:
                s = last[token]
                if s + 1 < length:
                    total = total + weights[b, :, t, s + 1].double()
                    number += 1
            last[token] = t
    if number == 0:
        return weights.new_zeros(weights.size(1))
    return (total / number).to(weights.dtype)


@wrong(
    "leaves out positions whose token stands directly before, because then s + 1 is the query itself",
    "Take one mean over all positions that count, in all rows together.",
    "leaves out directly repeated tokens",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    key = torch.where(same, place + 1, 0).amax(dim=-1)
    counts = same.any(dim=-1) & (key < place)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "returns early with torch.zeros if nothing repeats: float32 on the CPU, whatever the weights are",
    "The scores (H,), of the dtype of the weights.",
    "wrong dtype when nothing counts",
)
def induction_score(tokens, weights):  # noqa: F811
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    if not counts.any():
        return torch.zeros(weights.size(1))
    key = torch.where(same, place + 1, 0).amax(dim=-1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum()).to(weights.dtype)
