import torch
from blind import right, wrong


@right("plain Python: a dictionary of last positions for each row")
def r1(tokens, weights):
    found = []
    for b, row in enumerate(tokens.tolist()):
        last = {}
        for t, token in enumerate(row):
            if token in last:
                found.append((b, t, last[token] + 1))
            last[token] = t
    if not found:
        return weights.new_zeros(weights.shape[1])
    b, t, key = torch.tensor(found, device=weights.device).unbind(dim=1)
    return weights[b, :, t, key].double().mean(dim=0).to(weights.dtype)


@right("all pairs, the latest by a maximum, then only the positions that count")
def r2(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = tokens.unsqueeze(2).eq(tokens.unsqueeze(1)) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    index = (latest + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).transpose(0, 1)
    picked = picked[:, latest >= 0].double()
    return (picked.sum(dim=1) / max(picked.shape[1], 1)).to(weights.dtype)


@right("a stable sort puts the occurrences of a token side by side")
def r3(tokens, weights):
    order = torch.sort(tokens, dim=1, stable=True).indices
    line = tokens.gather(1, order)
    row, place = (line[:, 1:] == line[:, :-1]).nonzero(as_tuple=True)
    now, earlier = order[row, place + 1], order[row, place]
    picked = weights[row, :, now, earlier + 1].double()
    return picked.sum(dim=0).div(max(len(row), 1)).to(weights.dtype)


@right("one diagonal after the other, from the smallest distance on")
def r4(tokens, weights):
    length = tokens.shape[1]
    done = torch.zeros_like(tokens, dtype=torch.bool)
    total = weights.new_zeros(weights.shape[1], dtype=torch.float64)
    for gap in range(1, length):
        hit = (tokens[:, gap:] == tokens[:, : length - gap]) & ~done[:, gap:]
        done[:, gap:] |= hit
        looked = weights.diagonal(1 - gap, dim1=2, dim2=3)[..., 1:].double()
        looked = looked.masked_fill(~hit[:, None], 0.0)
        total = total + looked.sum(dim=(0, 2))
    return (total / done.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "takes a mean for each row and then the mean of the rows",
    breaks="It is taken over the positions that count, of all rows together.",
    name="mean of the means of rows",
    subtle=True,
)
def w1(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    index = (latest + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double()
    counts = latest >= 0
    sums = picked.masked_fill(~counts[:, None], 0.0).sum(dim=2)
    number = counts.sum(dim=1, keepdim=True)
    means = sums / number.clamp(min=1)
    return (means.sum(dim=0) / (number > 0).sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "the mean of nothing is not a number",
    breaks="If no position counts, all scores are 0.",
    name="nan if no position counts",
    subtle=True,
)
def w2(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    row, now = (latest >= 0).nonzero(as_tuple=True)
    picked = weights[row, :, now, latest[row, now] + 1]
    return picked.double().mean(dim=0).to(weights.dtype)


@wrong(
    "compares the ids as float32, which cannot tell large ids apart",
    breaks="A position t counts if its token has occurred before it in the same row.",
    name="ids become float32",
    subtle=True,
)
def w3(tokens, weights):
    ids = tokens.float()
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (ids[:, :, None] - ids[:, None, :] == 0) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    row, now = (latest >= 0).nonzero(as_tuple=True)
    picked = weights[row, :, now, latest[row, now] + 1].double()
    return (picked.sum(dim=0) / max(len(row), 1)).to(weights.dtype)


@wrong(
    "a position whose latest earlier occurrence is position 0 does not count",
    breaks="A position t counts if its token has occurred before it in the same row.",
    name="position 0 means never",
    subtle=True,
)
def w4(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    latest = (same * place).amax(dim=2)
    row, now = (latest > 0).nonzero(as_tuple=True)
    picked = weights[row, :, now, latest[row, now] + 1].double()
    return (picked.sum(dim=0) / max(len(row), 1)).to(weights.dtype)


@wrong(
    "sets all other weights to zero in place before it sums",
    breaks="What comes in stays as it is, and what goes out has its dtype and its "
    "device.",
    name="changes the weights",
    subtle=True,
)
def w5(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    counts = latest >= 0
    chosen = (latest + 1)[:, :, None] == place
    chosen = chosen & counts[:, :, None]
    weights.masked_fill_(~chosen[:, None], 0.0)
    total = weights.double().sum(dim=(0, 2, 3))
    return (total / counts.sum().clamp(min=1)).to(weights.dtype)


@wrong(
    "does not forget the tokens of the rows before",
    breaks="A position t counts if its token has occurred before it in the same row.",
    name="looks into other rows",
    subtle=True,
)
def w6(tokens, weights):
    total, number, last = weights.new_zeros(weights.shape[1]).double(), 0, {}
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            s = last.get(token, t)
            if s < t:
                total = total + weights[b, :, t, s + 1].double()
                number += 1
            last[token] = t
    return (total / max(number, 1)).to(weights.dtype)


@wrong(
    "leaves out the token directly before, as if a token could not be repeated",
    breaks="Then s is the latest earlier position with this token.",
    name="the previous token is not seen",
    subtle=True,
)
def w7(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None] - 1)
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    row, now = (latest >= 0).nonzero(as_tuple=True)
    picked = weights[row, :, now, latest[row, now] + 1].double()
    return (picked.sum(dim=0) / max(len(row), 1)).to(weights.dtype)


@wrong(
    "positions in the dtype of the weights, which half precision rounds",
    breaks="Then s is the latest earlier position with this token.",
    name="positions in half precision",
    subtle=True,
)
def w8(tokens, weights):
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    numbers = place.to(weights.dtype)
    latest = torch.where(same, numbers, torch.full_like(numbers, -1)).amax(dim=2)
    keys = (latest.long() + 1).clamp(max=length - 1)
    row, now = (latest >= 0).nonzero(as_tuple=True)
    picked = weights[row, :, now, keys[row, now]].double()
    return (picked.sum(dim=0) / max(len(row), 1)).to(weights.dtype)


@wrong(
    "positions whose weight is exactly zero are left out of the mean",
    breaks="It is taken over the positions that count, of all rows together.",
    name="zero weights do not count",
    subtle=True,
)
def w9(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    index = (latest + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    picked = weights.gather(-1, index).squeeze(-1).double()
    picked = picked.masked_fill((latest < 0)[:, None], 0.0)
    number = (picked != 0).sum(dim=(0, 2)).clamp(min=1)
    return (picked.sum(dim=(0, 2)) / number).to(weights.dtype)


@wrong(
    "takes token 0 for padding and leaves it out",
    breaks="A position t counts if its token has occurred before it in the same row.",
    name="token 0 does not count",
    subtle=True,
)
def w10(tokens, weights):
    place = torch.arange(tokens.shape[1], device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (place < place[:, None])
    latest = torch.where(same, place, torch.full_like(place, -1)).amax(dim=2)
    row, now = ((latest >= 0) & (tokens != 0)).nonzero(as_tuple=True)
    picked = weights[row, :, now, latest[row, now] + 1].double()
    return (picked.sum(dim=0) / max(len(row), 1)).to(weights.dtype)
