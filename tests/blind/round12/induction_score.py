import torch
import torch.nn.functional as F

from blind import right, wrong


@right("loops over rows and positions with a dict of the last occurrences")
def induction_score(tokens, weights):
    total, count = (0 * weights).sum(dim=(0, 2, 3)), 0
    for b, row in enumerate(tokens.tolist()):
        latest = {}
        for t, token in enumerate(row):
            if token in latest:
                total = total + weights[b, :, t, latest[token] + 1]
                count += 1
            latest[token] = t
    return total / max(count, 1)


@right("a stable sort by tokens puts each position behind its latest earlier occurrence")
def induction_score(tokens, weights):
    ordered, places = tokens.sort(dim=-1, stable=True)
    row, at = (ordered[:, 1:] == ordered[:, :-1]).nonzero(as_tuple=True)
    asking, found = places[row, at + 1], places[row, at]
    picked = weights.transpose(1, 2)[row, asking, :, found + 1]  # (N, H)
    return picked.sum(dim=0) / max(len(row), 1)


@right("a mask of all pairs t, s + 1, and einsum in float64")
def induction_score(tokens, weights):
    same = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).tril(diagonal=-1)
    # how many occurrences there are from s on: 1 at the latest one
    following = same.flip(-1).long().cumsum(dim=-1).flip(-1)
    latest = same & (following == 1)
    shifted = F.pad(latest, (1, 0))[..., :-1].double()
    total = torch.einsum("bts,bhts->h", shifted, weights.double())
    return (total / latest.sum().clamp(min=1)).to(weights.dtype)


@right("one query position after the other, backwards with argmax")
def induction_score(tokens, weights):
    wide = weights.double()
    total = wide.new_zeros(weights.size(1)) + 0 * wide[:, :, 0, 0].sum(dim=0)
    count = torch.zeros((), dtype=torch.long, device=tokens.device)
    rows = torch.arange(tokens.size(0), device=tokens.device)
    for t in range(1, tokens.size(1)):
        back = tokens[:, :t].flip(1) == tokens[:, t : t + 1]  # nearest first
        there = back.any(dim=1)
        key = t - back.long().argmax(dim=1)  # s + 1
        asked = wide[rows, :, t, key]  # (B, H)
        total = total + torch.where(there[:, None], asked, 0).sum(dim=0)
        count = count + there.sum()
    return (total / count.clamp(min=1)).to(weights.dtype)


@wrong(
    "takes the weight of the earlier occurrence itself, key s",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "key s instead of s + 1",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    found = same.any(dim=-1)
    key = (same * place).amax(dim=-1)
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)


@wrong(
    "takes the first occurrence instead of the latest earlier one",
    "Let s be the latest earlier position with this token.",
    "the first occurrence instead of the latest",
)
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    found = same.any(dim=-1)
    first = same.long().argmax(dim=-1)
    key = (first + 1) * found
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)


@wrong(
    "divides by the number of all positions, also of those that do not count",
    "Count a position t only if its token has occurred earlier in the same row.",
    "the mean is over all positions",
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same * place).amax(dim=-1)
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * (after > 0)[:, None]
    return asked.mean(dim=(0, 2))


@wrong(
    "takes the mean of each row and then the mean of the rows",
    "Take one mean over all positions that count, in all rows together.",
    "a mean of means",
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same * place).amax(dim=-1)
    found = after > 0
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return (asked.sum(dim=2) / found.sum(dim=1, keepdim=True).clamp(min=1)).mean(dim=0)


@wrong(
    "divides 0 by 0 if no token occurs twice",
    "If no position counts, return a score of 0 for each head.",
    "NaN if no position counts",
    subtle=True,
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same * place).amax(dim=-1)
    found = after > 0
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum()


@wrong(
    "takes the maximum 0 for 'not found', and so misses an earlier occurrence at position 0: in 5 7 5, position 2 does not count",
    "Let s be the latest earlier position with this token.",
    "an occurrence at position 0 is taken for none",
    subtle=True,
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = (same * place).amax(dim=-1)
    found = latest > 0
    key = (latest + 1) * found
    index = key[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)


@wrong(
    "does not empty the dict of the last occurrences between the rows: a token that occurred only in an earlier row counts",
    "Count a position t only if its token has occurred earlier in the same row.",
    "occurrences of other rows are counted",
    subtle=True,
)
def induction_score(tokens, weights):
    total, count, latest = (0 * weights).sum(dim=(0, 2, 3)), 0, {}
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            if latest.get(token, t) + 1 < len(row) and token in latest:
                total = total + weights[b, :, t, latest[token] + 1]
                count += 1
            latest[token] = t
    return total / max(count, 1)


@wrong(
    "finds the latest position in the dtype of the weights: in bfloat16, position 257 becomes 256",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in bfloat16",
    subtle=True,
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same.to(weights.dtype) * place.to(weights.dtype)).amax(dim=-1)
    found = after > 0
    index = after.long().clamp(max=tokens.size(1) - 1)
    index = index[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)


@wrong(
    "squeeze() without an axis: with one head and several rows, (B, 1, T, 1) becomes (B, T), and each row is counted with the positions of all rows",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes the axis of a single head",
    subtle=True,
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same * place).amax(dim=-1)
    found = after > 0
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index).squeeze() * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)


@wrong(
    "leaves out positions whose token has the id 0, as if this were padding",
    "Take one mean over all positions that count, in all rows together.",
    "token 0 is taken for padding",
    subtle=True,
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = (same * place).amax(dim=-1)
    found = (after > 0) & (tokens != 0)
    index = after[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    asked = weights.gather(-1, index)[..., 0] * found[:, None]
    return asked.sum(dim=(0, 2)) / found.sum().clamp(min=1)
