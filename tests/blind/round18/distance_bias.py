import torch
from torch import nn
from blind import right, wrong

FORMULA = r"$$e'_{ts} = e_{ts} - m\, \lvert p_t - s \rvert$$"
POSITIONS = (
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions."
)
BOTH = (
    "The distance counts in both directions. A key two positions after the query loses"
    " as much as a key two positions before it."
)
SLOPE = (
    "slope: a number, 0 or more: what a score loses for each position of distance."
)
EXACT = "Positions and counts must be exact in every dtype."
DEVICE = (
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU."
)
EARLIER = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("positions and differences in float64 on the scores' device")
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, dtype=torch.float64, device=scores.device)
    query = key[size - length :]
    lost = slope * (query[:, None] - key[None, :]).abs()
    return (scores.double() - lost).to(scores.dtype)


@right("a table of Python numbers from two loops")
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    table = [
        [float(slope) * abs(p - s) for s in range(size)]
        for p in range(size - length, size)
    ]
    lost = torch.tensor(table, dtype=torch.float64, device=scores.device)
    return torch.sub(scores.to(torch.float64), lost).to(scores.dtype)


@right("windows that slide over the numbers S-1, ..., 1, 0, 1, ..., S-1")
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    line = torch.arange(1 - size, size, device=scores.device).abs()
    windows = line.unfold(0, size, 1).flip(0)  # row p: |s - p|
    wide = torch.promote_types(scores.dtype, torch.float32)
    lost = windows.narrow(0, size - length, length).to(wide) * slope
    return (scores.to(wide) - lost).to(scores.dtype)


@right("key by key, from the last to the first")
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    wide = torch.promote_types(scores.dtype, torch.float32)
    back = torch.arange(length - 1, -1, -1, device=scores.device)  # from the end
    columns = []
    for s in reversed(range(size)):
        distance = (back - (size - 1 - s)).abs().to(wide)
        columns.insert(0, scores[..., s].to(wide) - distance * slope)
    return torch.stack(columns, dim=-1).to(scores.dtype)


@wrong(
    "gives the queries the first T positions: right for T = S only",
    breaks=POSITIONS,
    name="queries at the first positions",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    query = torch.arange(length, device=scores.device)[:, None]
    key = torch.arange(size, device=scores.device)
    return scores - slope * (query - key).abs().to(scores.dtype)


@wrong(
    "forgets the absolute value: keys after the query gain",
    breaks=BOTH,
    name="distance with a sign",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    query = key[size - length :, None]
    return scores - slope * (query - key).to(scores.dtype)


@wrong(
    "counts the distance to earlier keys only",
    breaks=BOTH,
    name="keys after the query lose nothing",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    query = key[size - length :, None]
    return scores - slope * (query - key).clamp(min=0).to(scores.dtype)


@wrong(
    "shifts the queries by one: the last query stands behind the last key",
    breaks=POSITIONS,
    name="off by one",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    query = torch.arange(size - length + 1, size + 1, device=scores.device)
    return scores - slope * (query[:, None] - key).abs().to(scores.dtype)


@wrong(
    "multiplies the score by 1 - slope * distance instead of subtracting",
    breaks=FORMULA,
    name="a share of the score is lost instead of a fixed number",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    query = key[size - length :, None]
    return scores * (1 - slope * (query - key).abs().to(scores.dtype))


@wrong(
    "holds the positions in the scores' dtype: in bfloat16, positions above 256 are"
    " rounded before they are subtracted",
    breaks=EXACT,
    name="rounded positions",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device).to(scores.dtype)
    query = key[size - length :, None]
    return scores - slope * (query - key).abs()


@wrong(
    "takes the slope 0 for a missing one and replaces it by 1",
    breaks=SLOPE,
    name="slope 0 taken for no slope",
)
def distance_bias(scores, slope):
    slope = slope or 1.0
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    query = key[size - length :, None]
    return scores - slope * (query - key).abs().to(scores.dtype)


@wrong(
    "writes the slope into a tensor of whole numbers, which cuts its fraction off",
    breaks=SLOPE,
    name="slope rounded to a whole number",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    distance = (key[size - length :, None] - key).abs()
    lost = distance * torch.full_like(distance, slope)
    return scores - lost.to(scores.dtype)


_TABLES = {}


@wrong(
    "keeps the product of slope and distance for each pair (T, S), whatever the slope"
    " of the next call is",
    breaks=EARLIER,
    name="slope of an earlier call",
)
def distance_bias(scores, slope):
    shape = scores.shape[-2:]
    if shape not in _TABLES:
        key = torch.arange(shape[1])
        _TABLES[shape] = slope * (key[shape[1] - shape[0] :, None] - key).abs().double()
    return scores - _TABLES[shape].to(scores.device, scores.dtype)


@wrong(
    "leaves the positions on the CPU, so it fails for scores on a GPU",
    breaks=DEVICE,
    name="device forgotten",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    key = torch.arange(size)
    query = key[size - length :, None]
    return scores - slope * (query - key).abs().to(scores.dtype)
