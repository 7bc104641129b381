import torch
import torch.nn.functional as F

from blind import right, wrong


@right("a dictionary per row, and sums of Python floats")
def induction_score(tokens, weights):
    heads = weights.size(1)
    totals, number = [0.0] * heads, 0
    for ids, looked in zip(tokens.tolist(), weights.tolist()):
        last = {}
        for t, token in enumerate(ids):
            if token in last:
                number += 1
                for h in range(heads):
                    totals[h] += looked[h][t][last[token] + 1]
            last[token] = t
    return weights.new_tensor([total / max(number, 1) for total in totals])


@right("sorts the tokens stably: equal neighbours of the sorted row are successive occurrences")
def induction_score(tokens, weights):
    ordered, place = tokens.sort(dim=1, stable=True)
    again = ordered[:, 1:] == ordered[:, :-1]
    row = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(again)[again]
    picked = weights[row, :, place[:, 1:][again], place[:, :-1][again] + 1]  # (N, H)
    return (picked.double().sum(dim=0) / max(len(row), 1)).to(weights.dtype)


@right("goes back through the distances and settles each position at its first match")
def induction_score(tokens, weights):
    rows, length = tokens.shape
    settled = torch.zeros_like(tokens, dtype=torch.bool)
    total = weights.new_zeros(weights.size(1), dtype=torch.float64)
    for distance in range(1, length):
        match = torch.zeros_like(settled)
        match[:, distance:] = tokens[:, distance:] == tokens[:, :-distance]
        match &= ~settled
        settled |= match
        for row, t in match.nonzero().tolist():
            total = total + weights[row, :, t, t - distance + 1].double()
    return (total / settled.sum().clamp(min=1)).to(weights.dtype)


@right("a pattern of ones and zeros (B, T, T) for the keys that are meant, as in an image to compare with")
def induction_score(tokens, weights):
    length = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    later = same.long().flip(-1).cumsum(dim=-1).flip(-1)  # matches from s on
    latest = same & (later == 1)
    meant = torch.zeros_like(latest)
    meant[:, :, 1:] = latest[:, :, : length - 1]
    picked = torch.where(meant[:, None], weights.double(), 0.0).sum(dim=(0, 2, 3))
    return (picked / meant.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "gathers the key s itself, not the one after it",
    "The score of a head is the mean of the weights that the queries t give to the keys s + 1.",
    "looks at the occurrence, not at what followed",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    latest = torch.where(same, place, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = latest.clamp(min=0)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "argmax of the comparison gives the first occurrence; wrong as soon as a token occurs three times",
    "Then s is the latest earlier position with this token.",
    "earliest instead of latest occurrence",
)
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts, first = same.any(dim=-1), same.int().argmax(dim=-1)
    index = (first + 1).clamp(max=tokens.size(1) - 1)
    index = index[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)


@wrong(
    "takes a mean in each row and then the mean of these: the same if all rows have equally many positions that count, else not",
    "The mean is taken over the positions that count, in all rows together.",
    "mean of the rows' means",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    nxt = torch.where(same, place + 1, 0).amax(dim=-1)
    counts = nxt > 0
    index = nxt[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    per_row = picked.sum(dim=2) / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return per_row.mean(dim=0)


@wrong(
    "divides by the number that counts without a guard: rows without repetition give nan",
    "If no position counts, all scores are 0.",
    "nothing counts: divides by zero",
)
def induction_score(tokens, weights):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    place = torch.arange(tokens.size(1), device=tokens.device)
    nxt = torch.where(same, place + 1, 0).amax(dim=-1)
    row, t = nxt.nonzero(as_tuple=True)
    return weights[row, :, t, nxt[row, t]].mean(dim=0)


@wrong(
    "the earlier position 0 is falsy, so repetitions of the first token of a row (their latest occurrence at 0) are not counted",
    "A position t counts if its token has occurred before it in the same row.",
    "position 0 is taken for 'not found'",
)
def induction_score(tokens, weights):
    total, number = weights.new_zeros(weights.size(1)), 0
    for row, ids in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(ids):
            s = last.get(token)
            if s:
                total = total + weights[row, :, t, s + 1]
                number += 1
            last[token] = t
    return total / max(number, 1)


@wrong(
    "computes the positions in the dtype of the weights: in bfloat16 257 and 256 are the same number, so long rows look at the wrong keys",
    "Then s is the latest earlier position with this token.",
    "positions as low-precision floats",
)
def induction_score(tokens, weights):
    place = torch.arange(1, tokens.size(1) + 1, device=weights.device, dtype=weights.dtype)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    nxt = (same * place).amax(dim=-1).long().clamp(max=tokens.size(1) - 1)
    counts = nxt > 0
    index = nxt[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index)[..., 0] * counts[:, None]
    return (picked.double().sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "forgets to empty the dictionary between the rows: in the second row, tokens of the first count as earlier occurrences",
    "A position t counts if its token has occurred before it in the same row.",
    "finds occurrences in other rows",
)
def induction_score(tokens, weights):
    total, number = weights.new_zeros(weights.size(1)), 0
    last = {}
    for row, ids in enumerate(tokens.tolist()):
        for t, token in enumerate(ids):
            if token in last and last[token] < t:
                total = total + weights[row, :, t, last[token] + 1]
                number += 1
            last[token] = t
    return total / max(number, 1)


@wrong(
    "takes the distance between the first two equal tokens of a row as its period and reads the scores off one diagonal: right for strings that are repeated and have no token twice in them, wrong for other rows",
    "Then s is the latest earlier position with this token.",
    "assumes that every row has a fixed period",
)
def induction_score(tokens, weights):
    total, number = weights.new_zeros(weights.size(1)), 0
    for ids, looked in zip(tokens.tolist(), weights):
        repeat = next((t for t, x in enumerate(ids) if x in ids[:t]), None)
        if repeat is None:
            continue
        period = repeat - ids.index(ids[repeat])
        for t in range(repeat, len(ids)):
            total = total + looked[:, t, t - period + 1]
            number += 1
    return total / max(number, 1)


@wrong(
    "writes zeros into the weights of the positions that do not count, before it picks",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "overwrites the weights",
)
def induction_score(tokens, weights):
    place = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    nxt = torch.where(same, place + 1, 0).amax(dim=-1)
    counts = nxt > 0
    looked = weights.detach().transpose(1, 2)
    looked[~counts] = 0
    index = nxt[:, :, None, None].expand(-1, -1, weights.size(1), -1)
    picked = looked.gather(-1, index)[..., 0]
    return picked.sum(dim=(0, 1)) / counts.sum().clamp(min=1)


@wrong(
    "leaves out pairs of equal neighbours, because there the key s + 1 is the query's own position; rows such as 5 5 are scored wrongly",
    "A position t counts if its token has occurred before it in the same row.",
    "skips a token right after itself",
)
def induction_score(tokens, weights):
    length = tokens.size(1)
    place = torch.arange(length, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    nxt = torch.where(same, place + 1, 0).amax(dim=-1)
    counts = (nxt > 0) & (nxt < place)  # there has to be a token in between
    hot = F.one_hot(nxt.clamp(max=length - 1), length).to(weights.dtype) * counts[..., None]
    return (weights * hot[:, None]).sum(dim=(0, 2, 3)) / counts.sum().clamp(min=1)
