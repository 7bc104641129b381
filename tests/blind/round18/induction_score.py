import torch
import torch.nn.functional as F

from blind import right, wrong


@right('compares all pairs, takes the latest position by amax, and gathers by take_along_dim in float64')
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    twins = (tokens[:, :, None] == tokens[:, None, :]) & (place[:, None] > place)
    last = torch.where(twins, place, -1).amax(dim=-1)  # (B, T)
    counts = last >= 0
    picked = torch.take_along_dim(weights, (last + 1)[:, None, :, None], dim=-1)
    total = (picked[..., 0].double() * counts[:, None]).sum(dim=(0, 2))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@right('a dictionary of last positions for each row, one indexing at the end')
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    rows, queries, keys = [], [], []
    for b, row in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                rows.append(b)
                queries.append(t)
                keys.append(last[token] + 1)
            last[token] = t
    if not rows:
        return weights.new_zeros(weights.shape[1])
    heads = weights.transpose(0, 1)  # (H, B, T, T)
    picked = heads[:, rows, queries, keys]
    return (picked.to(torch.float64).sum(dim=1) / len(rows)).to(weights.dtype)


@right('a (B, T, T) table of ones at the right keys (cumsum from the right), and one einsum')
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    same = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).tril(-1)
    later = same.flip(-1).cumsum(dim=-1).flip(-1)  # earlier occurrences from s on
    latest = same & (later == 1)
    target = F.pad(latest, (1, 0))[..., :-1].double()
    total = torch.einsum("bts,bhts->h", target, weights.double())
    return total.div(max(1, int(latest.sum()))).to(weights.dtype)


@right('a stable sort puts equal tokens side by side: the neighbour on the left is the latest earlier one')
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    ordered, order = tokens.sort(dim=1, stable=True)
    row, column = (ordered[:, 1:] == ordered[:, :-1]).nonzero(as_tuple=True)
    s, t = order[row, column], order[row, column + 1]
    picked = weights.permute(0, 2, 3, 1)[row, t, s + 1]  # (number, H)
    exact = torch.promote_types(weights.dtype, torch.float32)
    return (picked.to(exact).sum(dim=0) / max(len(row), 1)).to(weights.dtype)


@wrong(
    'takes the first occurrence instead of the latest one (argmax finds the first)',
    breaks='Let s be the latest earlier position with this token.',
    name='first instead of latest occurrence',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last, counts = earlier.int().argmax(dim=-1), earlier.any(dim=-1)
    index = (last + 1).clamp(max=length - 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    'takes a mean for each row first, and then the mean of these',
    breaks='Take one mean over all positions that count, in all rows together.',
    name='mean of means',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(earlier, place, -1).amax(dim=-1)
    counts = last >= 0
    index = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    rows = counts.any(dim=1).sum().clamp(min=1)
    means = picked.sum(dim=2) / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return (means.sum(dim=0) / rows).to(weights.dtype)


@wrong(
    'keeps one dictionary of last positions for all rows, so a token of an earlier row counts',
    breaks='Count a position t only if its token has occurred earlier in the same row.',
    name='rows are not separate',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    last, picked = {}, []
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            if token in last and last[token] + 1 < len(row):
                picked.append(weights[b, :, t, last[token] + 1].double())
            last[token] = t
    if not picked:
        return weights.new_zeros(weights.shape[1])
    return torch.stack(picked).mean(dim=0).to(weights.dtype)


@wrong(
    'adds up the weights after all earlier occurrences, not only after the latest',
    breaks='The score of a head is the mean of the weights that the queries t give to the keys s + 1.',
    name='all occurrences',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    counts = earlier.any(dim=-1).sum().clamp(min=1)
    after = F.pad(earlier, (1, 0))[..., :-1].double()
    total = torch.einsum("bts,bhts->h", after, weights.double())
    return (total / counts).to(weights.dtype)


@wrong(
    'counts how often the key s + 1 has the largest weight, instead of averaging the weights',
    breaks='The score of a head is the mean of the weights that the queries t give to the keys s + 1.',
    name='hits instead of weights',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(earlier, place, -1).amax(dim=-1)
    counts = last >= 0
    index = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = (weights.argmax(dim=-1) == index.squeeze(-1)).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    'a position counts only if s is more than 0, so an occurrence at the very beginning is missed',
    breaks='Count a position t only if its token has occurred earlier in the same row.',
    name='the first position is forgotten',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = (earlier * place).amax(dim=-1)
    counts = last > 0
    index = (last + 1).clamp(max=length - 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "leaves out a token that directly follows itself, whose key s + 1 is the query's own position",
    breaks='Count a position t only if its token has occurred earlier in the same row.',
    name='neighbours do not count',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(earlier, place, -1).amax(dim=-1)
    counts = (last >= 0) & (last + 1 < place)
    index = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    'takes the id 0 for padding and does not count it',
    breaks='Count a position t only if its token has occurred earlier in the same row.',
    name='token 0 is taken for padding',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(earlier, place, -1).amax(dim=-1)
    counts = (last >= 0) & (tokens != 0)
    index = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    'makes the positions in the dtype of the weights; bfloat16 rounds those above 256',
    breaks='Positions and counts must be exact in every dtype.',
    name='positions in bfloat16',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device, dtype=weights.dtype)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(earlier, place, -1).amax(dim=-1).long().clamp(max=length - 2)
    counts = last >= 0
    index = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    'if no position counts, the zeros are always float32, whatever the dtype of the weights',
    breaks='The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.',
    name='zeros of the default dtype',
)
def induction_score(tokens, weights):
    """Measure how much each head attends to the token after the last occurrence."""
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    last = torch.where(earlier, place, -1).amax(dim=-1)
    counts = last >= 0
    if not counts.any():
        return torch.zeros(weights.shape[1])
    index = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double() * counts[:, None]
    return (picked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)).to(weights.dtype)
