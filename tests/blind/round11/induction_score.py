import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("a dictionary of last positions for each row, in plain Python")
def induction_score(tokens, weights):
    found = []
    for row, looks in zip(tokens.tolist(), weights):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                found.append(looks[:, t, last[token] + 1])
            last[token] = t
    if not found:
        return weights.new_zeros(weights.shape[1])
    return torch.stack(found).double().mean(dim=0).to(weights.dtype)


@right("a stable sort: equal tokens are neighbours, the earlier occurrence comes first")
def induction_score(tokens, weights):
    ids, places = tokens.sort(dim=1, stable=True)
    row, after = (ids[:, 1:] == ids[:, :-1]).nonzero(as_tuple=True)
    t, s = places[row, after + 1], places[row, after]
    picked = weights[row, :, t, s + 1].to(torch.float64)  # (number, H)
    return (picked.sum(dim=0) / max(len(picked), 1)).to(weights.dtype)


@right("one distance after another, with diagonals of the weights")
def induction_score(tokens, weights):
    T = tokens.shape[1]
    seen = torch.zeros_like(tokens, dtype=torch.bool)
    total = weights.new_zeros(weights.shape[1], dtype=torch.float64)
    for back in range(1, T):
        hit = (tokens[:, back:] == tokens[:, :-back]) & ~seen[:, back:]
        seen[:, back:] |= hit
        looks = weights.diagonal(1 - back, dim1=2, dim2=3)[..., 1:]  # t to t - back + 1
        total = total + looks.masked_fill(~hit[:, None], 0).double().sum(dim=(0, 2))
    return (total / seen.sum().clamp(min=1)).to(weights.dtype)


@right("a mask of the keys s + 1: the last of the earlier occurrences, moved by one")
def induction_score(tokens, weights):
    same = torch.eq(tokens.unsqueeze(2), tokens.unsqueeze(1)).tril(-1)
    from_the_right = same.flip(-1).long().cumsum(dim=-1).flip(-1)
    latest = same & (from_the_right == 1)
    target = F.pad(latest, (1, 0))[..., :-1]
    number = int(target.sum())
    kept = torch.where(target.unsqueeze(1), weights, 0.0)
    return kept.double().sum(dim=(0, 2, 3)).div(max(1, number)).to(weights.dtype)


@wrong(
    "takes the first occurrence of the token instead of the latest earlier one",
    "Let s be the latest earlier position with this token.",
    "first occurrence instead of the latest one",
)
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    s = same.int().argmax(dim=-1)
    index = (s + counts)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "takes the weight on the earlier occurrence itself, s, instead of on s + 1",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "weight on s instead of s + 1",
)
def induction_score(tokens, weights):
    found = []
    for row, looks in zip(tokens.tolist(), weights):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                found.append(looks[:, t, last[token]])
            last[token] = t
    if not found:
        return weights.new_zeros(weights.shape[1])
    return torch.stack(found).double().mean(dim=0).to(weights.dtype)


@wrong(
    "the mean is over all positions, with a weight of 0 for those that do not count",
    "Take one mean over all positions that count, in all rows together.",
    "mean over all positions",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    s = (same * place).amax(dim=-1)
    index = (s + counts)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.mean(dim=(0, 2))


@wrong(
    "one mean for each row, and then the mean of those of the rows in which a position counts",
    "Take one mean over all positions that count, in all rows together.",
    "mean of the means of the rows",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    s = (same * place).amax(dim=-1)
    index = (s + counts)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    rows = picked.sum(dim=2) / counts.sum(dim=1, keepdim=True).clamp(min=1)
    number = counts.any(dim=1).sum().clamp(min=1)
    return (rows.sum(dim=0) / number).to(weights.dtype)


@wrong(
    "divides by the number of positions that count without looking whether it is 0: NaN if no token occurs twice",
    "If no position counts, return a score of 0 for each head.",
    "NaN if no position counts",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    s = (same * place).amax(dim=-1)
    index = (s + counts)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0].transpose(1, 2)[counts]
    return picked.double().mean(dim=0).to(weights.dtype)


@wrong(
    "makes the positions in the dtype of the weights: in bfloat16, positions above 256 are rounded",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in the dtype of the weights",
)
def induction_score(tokens, weights):
    T = tokens.shape[1]
    place = torch.arange(T, device=weights.device, dtype=weights.dtype)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    s = torch.where(same, place, 0).amax(dim=-1)
    index = (s.long() + 1).clamp(max=T - 1)
    index = index[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "takes a latest position of 0 as a sign that there is none, and so leaves out the positions whose token has occurred only at the start of the row",
    "In the tokens 5 7 5 5, position 2 counts with s = 0, and position 3 counts with s = 2.",
    "s = 0 taken for none",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    s = (same * place).amax(dim=-1)
    counts = s > 0
    index = (s + counts)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "numbers the tokens of all rows with row * largest id + id, so that the largest id of a row and id 0 of the next row are taken for the same token",
    "Count a position t only if its token has occurred earlier in the same row.",
    "tokens of different rows taken for the same",
)
def induction_score(tokens, weights):
    B, T = tokens.shape
    rows = torch.arange(B, device=tokens.device)[:, None]
    names, places = (tokens + rows * tokens.max()).flatten().sort(stable=True)
    again = names[1:] == names[:-1]
    t, s = places[1:][again], places[:-1][again]
    looks = weights.transpose(0, 1).flatten(1)  # (H, B * T * T)
    picked = looks[:, t * T + (s + 1) % T].double()
    return (picked.sum(dim=1) / max(picked.shape[1], 1)).to(weights.dtype)


@wrong(
    "returns float32 zeros on the CPU if no position counts, whatever the dtype and the device of the weights are",
    "The scores (H,), of the dtype of the weights.",
    "zeros in float32 if no position counts",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = same.any(dim=-1)
    if not counts.any():
        return torch.zeros(weights.shape[1])
    s = (same * place).amax(dim=-1)
    index = (s + counts)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index)[..., 0].transpose(1, 2)[counts]
    return picked.double().mean(dim=0).to(weights.dtype)


@wrong(
    "leaves out a token that follows itself, because its key s + 1 is the query's own position",
    "In the tokens 5 7 5 5, position 2 counts with s = 0, and position 3 counts with s = 2.",
    "repetitions without a token between them left out",
)
def induction_score(tokens, weights):
    found = []
    for row, looks in zip(tokens.tolist(), weights):
        last = {}
        for t, token in enumerate(row):
            if token in last and last[token] + 1 < t:
                found.append(looks[:, t, last[token] + 1])
            last[token] = t
    if not found:
        return weights.new_zeros(weights.shape[1])
    return torch.stack(found).double().mean(dim=0).to(weights.dtype)
