import torch
from blind import right, wrong

COUNT = "Count a position t only if its token has occurred earlier in the same row."
LATEST = "Let s be the latest earlier position with this token."
MEAN = "The score of a head is the mean of the weights that the queries t give to the keys s + 1."
ALL = "Take one mean over all positions that count, in all rows together."
NONE = "If no position counts, return a score of 0 for each head."
EXACT = "Positions and counts must be exact in every dtype."
AXES = "weights: (B, H, T, T), queries by keys, of one layer."


@right('pairs below the diagonal, the largest place, gather')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@right('a dict for each row, in plain Python')
def induction_score(tokens, weights):
    picked = []
    for ids, looked in zip(tokens.tolist(), weights):  # looked: (H, T, T)
        last = {}
        for t, token in enumerate(ids):
            if token in last:
                picked.append(looked[:, t, last[token] + 1])
            last[token] = t
    if not picked:
        return weights.new_zeros(weights.size(1))
    return torch.stack(picked).double().mean(dim=0).to(weights.dtype)


@right('a target matrix with a single True in each row that counts, einsum')
def induction_score(tokens, weights):
    earlier = torch.eq(tokens.unsqueeze(2), tokens.unsqueeze(1)).tril(diagonal=-1)
    later_ones = earlier.flip(-1).cumsum(-1).flip(-1)  # matches from here on
    target = (earlier & (later_ones == 1)).roll(1, dims=-1)  # one key to the right
    total = torch.einsum("bts,bhts->h", target.double(), weights.double())
    number = int(target.sum())
    return (total / max(number, 1)).to(weights.dtype)


@right('a loop over the keys, where later ones overwrite earlier ones, and indexing')
def induction_score(tokens, weights):
    B, T = tokens.shape
    latest = torch.full((B, T), -1, device=tokens.device)
    for s in range(T - 1):
        match = tokens[:, s + 1 :] == tokens[:, s : s + 1]
        latest[:, s + 1 :][match] = s
    row, query = torch.where(latest > -1)
    picked = weights.movedim(1, -1)[row, query, latest[row, query] + 1]  # (n, H)
    total = picked.to(torch.float64).sum(dim=0)
    return (total / max(1, row.numel())).to(weights.dtype)


@wrong('takes the first position with the token', breaks=LATEST, name='earliest instead of latest')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, T).amin(dim=-1)  # (B, T)
    counts = latest < T
    latest = latest.masked_fill(~counts, 0).clamp(max=max(T - 2, -1))
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong('averages within each row first, and then over the rows that have a position', breaks=ALL, name="mean of the rows' means")
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=2)  # (B, H)
    means = total / counts.sum(dim=1, keepdim=True).clamp(min=1)
    rows = counts.any(dim=1).sum().clamp(min=1)
    return (means.sum(dim=0) / rows).to(weights.dtype)


@wrong('0 / 0 if no position counts', breaks=NONE, name='nan without a repetition')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum()).to(weights.dtype)


@wrong("takes the place 0 for 'not found', so an occurrence at the beginning of the row is lost", breaks=COUNT, name='position 0 taken for none')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = (same * places).amax(dim=-1)  # (B, T)
    counts = latest > 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong('looks for the latest position among numbers in the dtype of the weights: wrong after 256', breaks=EXACT, name='positions in bfloat16')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device).to(weights.dtype)
    latest = torch.where(same, places, -1.0).amax(dim=-1).long().clamp(max=max(T - 2, -1))  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong('does not empty its memory between rows, so it finds tokens of earlier rows', breaks=COUNT, name='occurrences in other rows')
def induction_score(tokens, weights):
    picked, last, T = [], {}, tokens.size(1)
    for b, ids in enumerate(tokens.tolist()):
        for t, token in enumerate(ids):
            if token in last and last[token] + 1 < T:
                picked.append(weights[b, :, t, last[token] + 1])
            last[token] = t
    if not picked:
        return weights.new_zeros(weights.size(1))
    return torch.stack(picked).double().mean(dim=0).to(weights.dtype)


@wrong('leaves out the position right before t, as if the key s + 1 could not be t itself', breaks=LATEST, name='a token right after itself not found')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-2)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong('reads the weights as keys by queries', breaks=AXES, name='queries and keys exchanged')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.mT.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong('leaves weights of exactly 0 out of the mean', breaks=MEAN, name='zeros not counted')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = latest >= 0
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    picked = picked.double().masked_fill(~counts[:, None], 0)
    number = (picked != 0).sum(dim=(0, 2)).clamp(min=1)
    return (picked.sum(dim=(0, 2)) / number).to(weights.dtype)


@wrong('takes the id 0 for padding and does not count it', breaks=COUNT, name='id 0 taken for padding')
def induction_score(tokens, weights):
    B, T = tokens.shape
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)  # (B, T, T)
    places = torch.arange(T, device=tokens.device)
    latest = torch.where(same, places, -1).amax(dim=-1)  # (B, T)
    counts = (latest >= 0) & (tokens != 0)
    index = (latest + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    picked = weights.gather(-1, index).squeeze(-1)  # (B, H, T)
    total = picked.double().masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)
