import torch

from blind import right, wrong

_distances_seen = {}


@right("slices of one long row of distances, one for each query, in float64")
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    away = torch.arange(1 - size, size, device=scores.device).abs()
    rows = []
    for position in range(size - length, size):
        start = size - 1 - position
        rows.append(away[start : start + size])
    lost = torch.stack(rows).double() * slope
    return (scores.double() - lost).to(scores.dtype)


@right("nested Python lists of distances, made into a tensor")
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    first = size - length
    table = [[abs(first + t - s) for s in range(size)] for t in range(length)]
    distances = torch.tensor(table, dtype=scores.dtype, device=scores.device)
    return torch.sub(scores, distances, alpha=slope)


@right("distances as differences of two cumulative sums of ones, then torch.where")
def distance_bias(scores, slope):
    ones = torch.ones(scores.shape[-2:], dtype=torch.int64, device=scores.device)
    length, size = ones.shape
    query = ones.cumsum(dim=0) + (size - length)
    key = ones.cumsum(dim=1)
    distances = torch.where(query > key, query - key, key - query)
    return scores - (distances.double() * slope).to(scores.dtype)


@right("one query at a time, in any batch: its position is counted from the end")
def distance_bias(scores, slope):
    keys = torch.arange(scores.size(-1), device=scores.device)
    rows = []
    for before_last, row in enumerate(reversed(scores.unbind(dim=-2))):
        gap = (keys - (keys[-1] - before_last)).abs()
        rows.insert(0, row - slope * gap.to(scores.dtype))
    return torch.stack(rows, dim=-2)


@wrong(
    "numbers the queries from 0: right for T = S only",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of these"
    " positions.",
    "queries numbered from 0",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    positions = torch.arange(size, device=scores.device)
    distances = (positions[:length, None] - positions).abs()
    return scores - slope * distances.to(scores.dtype)


@wrong(
    "forbids the keys after the query by minus infinity, as a language model does",
    "A key two positions after the query loses as much as a key two positions before it.",
    "adds a causal mask",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    positions = torch.arange(size, device=scores.device)
    distances = positions[size - length :, None] - positions
    lowered = scores - slope * distances.to(scores.dtype)
    return lowered.masked_fill(distances < 0, float("-inf"))


@wrong(
    "subtracts in place from the caller's scores",
    "Do not change the inputs.",
    "-= changes the scores",
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    positions = torch.arange(size, device=scores.device)
    distances = (positions[size - length :, None] - positions).abs()
    scores -= slope * distances.to(scores.dtype)
    return scores


@wrong(
    "makes the positions in the dtype of the scores: in bfloat16 there is no 257, so at"
    " S = 300 the distance of neighbours is 0 or 2",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in bfloat16",
    subtle=True,
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    positions = torch.arange(size, device=scores.device).to(scores.dtype)
    distances = (positions[size - length :, None] - positions).abs()
    return scores - slope * distances


@wrong(
    "makes the distances on the CPU: scores on a GPU raise an error",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "positions stay on the CPU",
    subtle=True,
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    positions = torch.arange(size)
    distances = (positions[size - length :, None] - positions).abs()
    return scores - slope * distances.to(scores.dtype)


@wrong(
    "multiplies the whole-number distances by a slope like 0.5, which gives float32:"
    " bfloat16 scores become float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "whole numbers times slope are float32",
    subtle=True,
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    positions = torch.arange(size, device=scores.device)
    distances = (positions[size - length :, None] - positions).abs()
    return scores - slope * distances


@wrong(
    "puts every query at the last position: right for T = 1, as at each step of"
    " generation, wrong for T = 2",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of these"
    " positions.",
    "all queries at the last position",
    subtle=True,
)
def distance_bias(scores, slope):
    size = scores.size(-1)
    distances = size - 1 - torch.arange(size, device=scores.device)
    return scores - slope * distances.to(scores.dtype)


@wrong(
    "keeps the distances of the first call for each S and forgets that they depend on T"
    " as well: T = 1 and then T = 3 gives all three queries the last position",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "distances kept by S alone",
    subtle=True,
)
def distance_bias(scores, slope):
    length, size = scores.shape[-2:]
    if size not in _distances_seen:
        positions = torch.arange(size)
        _distances_seen[size] = (positions[size - length :, None] - positions).abs()
    distances = _distances_seen[size].to(scores.device, scores.dtype)
    return scores - slope * distances


@wrong(
    "adds slope times the position of the key instead, because the rest is the same in"
    " the whole row: the weights of the keys up to the query are in the right"
    " proportion, but the scores differ, and keys after the query gain",
    "The distance counts in both directions.",
    "counts the key's position, not the distance",
    subtle=True,
)
def distance_bias(scores, slope):
    positions = torch.arange(scores.size(-1), device=scores.device)
    return scores + slope * positions.to(scores.dtype)


@wrong(
    "unpacks the shape into B, T, S: an error for scores (T, S) and (B, H, T, S)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases.",
    "only one batch axis",
    subtle=True,
)
def distance_bias(scores, slope):
    _, length, size = scores.shape
    positions = torch.arange(size, device=scores.device)
    distances = (positions[size - length :, None] - positions).abs()
    return scores - slope * distances.to(scores.dtype)
