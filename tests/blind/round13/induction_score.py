import math

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("a Python loop with a dictionary of the latest positions")
def induction_score(tokens, weights):
    found = [weights[:0, :, 0, 0].double()]  # nothing yet, (0, H)
    for row, ids in zip(weights, tokens.tolist()):
        latest = {}
        for t, token in enumerate(ids):
            if token in latest:
                found.append(row[None, :, t, latest[token] + 1].double())
            latest[token] = t
    found = torch.cat(found)
    return (found.sum(dim=0) / max(len(found), 1)).to(weights.dtype)


@right("marks the wanted keys in a (B, T, T) table, and sums with einsum in float64")
def induction_score(tokens, weights):
    T = tokens.size(1)
    at = torch.arange(T, device=tokens.device)
    earlier = (tokens.unsqueeze(2) == tokens.unsqueeze(1)) & (at < at[:, None])
    after = torch.where(earlier, at, -1).amax(dim=2, keepdim=True) + 1  # 0: none
    wanted = ((at == after) & (after > 0)).to(weights.device).double()
    total = torch.einsum("bhts,bts->h", weights.double(), wanted)
    return (total / wanted.sum().clamp(min=1)).to(weights.dtype)


@right("a stable sort of each row: equal neighbours are consecutive occurrences")
def induction_score(tokens, weights):
    ids, order = torch.sort(tokens, dim=1, stable=True)
    same = ids[:, 1:] == ids[:, :-1]
    row = torch.arange(len(tokens), device=tokens.device)[:, None].expand(same.shape)
    b, t, s = row[same], order[:, 1:][same], order[:, :-1][same]
    picked = weights[b, :, t, s + 1]  # (number, H)
    return (picked.double().sum(dim=0) / max(len(b), 1)).to(weights.dtype)


@right("a loop over the distance back, which reads the diagonals of the weights")
def induction_score(tokens, weights):
    T = tokens.size(1)
    total = weights[..., :0].double().sum(dim=(0, 2, 3))
    done, number = torch.zeros_like(tokens, dtype=torch.bool), 0
    for back in range(1, T):
        hit = (tokens[:, back:] == tokens[:, :-back]) & ~done[:, back:]
        done = done | torch.cat((torch.zeros_like(done[:, :back]), hit), dim=1)
        line = weights.diagonal(1 - back, dim1=2, dim2=3)[..., 1:]  # key t - back + 1
        total = total + (line.double() * hit[:, None].double()).sum(dim=(0, 2))
        number += int(hit.sum())
    return (total / max(number, 1)).to(weights.dtype)


@wrong(
    "takes the first earlier position with the token, not the latest",
    "Let s be the latest earlier position with this token.",
    "first occurrence instead of the latest",
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device)
    first = torch.where(earlier, at, T).amin(dim=-1)
    counts = first < T
    index = (first + 1).clamp(max=T - 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "reads the weight of the earlier occurrence itself, not of the token after it",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "key s instead of s + 1",
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device)
    latest = torch.where(earlier, at, -1).amax(dim=-1)
    counts = latest >= 0
    index = latest.clamp(min=0)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "takes the mean of each row first, and then the mean of the rows; wrong as soon as"
    " the rows have different numbers of positions that count",
    "Take one mean over all positions that count, in all rows together.",
    "mean of the means of the rows",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device)
    latest = torch.where(earlier, at, -1).amax(dim=-1)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    rows = picked.sum(dim=2) / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return rows.mean(dim=0).to(weights.dtype)


@wrong(
    "takes a latest position of 0 for none: in 5 7 5, nothing counts",
    "Count a position t only if its token has occurred earlier in the same row.",
    "position 0 taken for no position",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device)
    latest = (earlier * at).amax(dim=-1)
    counts = latest > 0
    index = ((latest + 1) * counts)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "makes the positions in the dtype of the weights: in bfloat16, s = 257 becomes 256,"
    " and the query reads the wrong key",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in bfloat16",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device).to(weights.dtype)
    latest = torch.where(earlier, at, -1).amax(dim=-1).long()
    counts = latest >= 0
    index = (latest + 1).clamp(max=T - 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "counts one by one in the dtype of the weights: in bfloat16, the count stops at 256,"
    " so with 512 positions of weight 1 the score is 2",
    "Positions and counts, however, must be exact in every dtype.",
    "count in bfloat16",
    subtle=True,
)
def induction_score(tokens, weights):
    total = weights[..., :0].double().sum(dim=(0, 2, 3))
    count = torch.zeros((), dtype=weights.dtype, device=weights.device)
    for b, row in enumerate(tokens.tolist()):
        latest = {}
        for t, token in enumerate(row):
            if token in latest:
                total = total + weights[b, :, t, latest[token] + 1].double()
                count += 1
            latest[token] = t
    return (total / count.clamp(min=1)).to(weights.dtype)


@wrong(
    "leaves out the token right before, because its successor is the query itself: in"
    " 5 7 5 5, position 3 takes s = 0 instead of s = 2",
    "Let s be the latest earlier position with this token.",
    "immediate repetitions left out",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-2)
    at = torch.arange(T, device=tokens.device)
    latest = torch.where(earlier, at, -1).amax(dim=-1)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "takes token 0 for padding, and never counts it",
    "Take one mean over all positions that count, in all rows together.",
    "token 0 left out",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    earlier = earlier & (tokens != 0)[:, :, None]
    at = torch.arange(T, device=tokens.device)
    latest = torch.where(earlier, at, -1).amax(dim=-1)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "squeezes all axes of length one: with H = 1 and three rows, the result has three"
    " scores",
    "The scores (H,), of the dtype of the weights.",
    "squeeze() without an axis",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device)
    latest = torch.where(earlier, at, -1).amax(dim=-1)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index).squeeze().double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "divides by 0 and repairs only the result with torch.where: if no position counts,"
    " the score is 0, but all gradients of the weights are NaN",
    "Gradients must be right, too.",
    "NaN behind torch.where",
    subtle=True,
)
def induction_score(tokens, weights):
    B, H, T, _ = weights.shape
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    at = torch.arange(T, device=tokens.device)
    latest = torch.where(earlier, at, -1).amax(dim=-1)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(B, H, T, 1)
    picked = weights.gather(-1, index)[..., 0].double() * counts[:, None]
    total, number = picked.sum(dim=(0, 2)), counts.sum()
    score = torch.where(number > 0, total / number, torch.zeros_like(total))
    return score.to(weights.dtype)
