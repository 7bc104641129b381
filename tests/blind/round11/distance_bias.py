import numpy as np
import torch

from blind import right, wrong


@right("row by row, with a loop over the queries")
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, device=scores.device)
    rows = []
    for t, row in enumerate(scores.unbind(dim=-2)):
        distance = (keys - (s_len - t_len + t)).abs()
        rows.append(row - slope * distance.to(scores.dtype))
    return torch.stack(rows, dim=-2)


@right("distances from numpy")
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    positions = np.arange(s_len)
    distance = np.abs(np.subtract.outer(positions[s_len - t_len :], positions))
    penalty = torch.as_tensor(
        distance * float(slope), dtype=torch.float64, device=scores.device
    )
    return (scores.double() - penalty).to(scores.dtype)


@right("all windows of one row of distances")
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    line = torch.arange(1 - s_len, s_len, device=scores.device).abs()
    table = line.unfold(0, s_len, 1).flip(0)[s_len - t_len :]
    return torch.sub(scores, table.to(scores.dtype), alpha=slope)


@right("the distances to the left and to the right, each counted by a cumsum")
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    ones = torch.ones(s_len, s_len, dtype=torch.long, device=scores.device)
    after = ones.triu(1).cumsum(dim=1)  # how far a key lies after the query
    table = (after + after.mT)[-t_len:]
    return scores + table.to(scores.dtype) * -slope


@wrong(
    "counts the queries from position 0, also if there are fewer queries than keys",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions.",
    "queries at the first positions",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    queries = torch.arange(t_len, device=scores.device)
    keys = torch.arange(s_len, device=scores.device)
    return scores - slope * (queries[:, None] - keys).abs().to(scores.dtype)


@wrong(
    "keys after the query lose nothing",
    "The distance counts in both directions.",
    "only earlier keys count",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, device=scores.device)
    distance = (keys[s_len - t_len :, None] - keys).clamp(min=0)
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "no absolute value: keys after the query gain",
    "A key two positions after the query loses as much as a key two positions before"
    " it.",
    "absolute value forgotten",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, device=scores.device)
    distance = keys[s_len - t_len :, None] - keys
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "positions in the dtype of the scores: not exact in bfloat16 above 256",
    "Positions and counts, however, must be exact in every dtype.",
    "positions rounded",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, dtype=scores.dtype, device=scores.device)
    queries = keys[s_len - t_len :, None]
    return scores - slope * (queries - keys).abs()


@wrong(
    "subtracts in place",
    "Do not change the inputs.",
    "scores changed in place",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, device=scores.device)
    distance = (keys[s_len - t_len :, None] - keys).abs()
    scores -= slope * distance.to(scores.dtype)
    return scores


@wrong(
    "the distances lie on the CPU: an error for scores on a GPU",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "distances on the wrong device",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len)
    distance = (keys[s_len - t_len :, None] - keys).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "takes a slope of 0 for a missing one and uses 1",
    "slope: a number, 0 or more: what a score loses for each position of distance.",
    "slope 0 replaced",
)
def distance_bias(scores, slope):
    slope = slope or 1.0
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, device=scores.device)
    distance = (keys[s_len - t_len :, None] - keys).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "right for T = S and for a single query, but several new queries start at 0",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions.",
    "queries at the first positions",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    first = s_len - 1 if t_len == 1 else 0
    queries = torch.arange(first, first + t_len, device=scores.device)
    keys = torch.arange(s_len, device=scores.device)
    distance = (queries[:, None] - keys).abs()
    return scores - slope * distance.to(scores.dtype)


_TABLES = {}


@wrong(
    "keeps the finished table for each shape, with the slope of the first call",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "table of an earlier call",
)
def distance_bias(scores, slope):
    shape = tuple(scores.shape[-2:])
    if shape not in _TABLES:
        keys = torch.arange(shape[1], device=scores.device)
        distance = (keys[shape[1] - shape[0] :, None] - keys).abs()
        _TABLES[shape] = slope * distance.double()
    return scores - _TABLES[shape].to(device=scores.device, dtype=scores.dtype)


@wrong(
    "with heads, gives each head a slope of its own, as in a paper: slope to the power"
    " of 1, 2, 3 ...",
    "slope: a number, 0 or more: what a score loses for each position of distance.",
    "another slope for each head",
)
def distance_bias(scores, slope):
    t_len, s_len = scores.shape[-2:]
    keys = torch.arange(s_len, device=scores.device)
    distance = (keys[s_len - t_len :, None] - keys).abs().to(scores.dtype)
    if scores.dim() < 4:
        return scores - slope * distance
    slopes = [slope ** (head + 1) for head in range(scores.shape[-3])]
    return scores - torch.stack([m * distance for m in slopes])
