import math

import torch
from torch import nn
from torch.nn import functional as F
from blind import right, wrong


@right("two loops fill a table of distances")
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    table = torch.empty(steps, keys, dtype=scores.dtype, device=scores.device)
    for t in range(steps):
        for s in range(keys):
            table[t, s] = abs(keys - steps + t - s)
    return scores - table * slope


@right("the square table for all keys, of which the last rows are taken")
def distance_bias(scores, slope):
    size = scores.size(-1)
    everything = torch.ones(size, size, device=scores.device, dtype=scores.dtype)
    upper = everything.triu(1).cumsum(dim=1).triu(1)
    distance = upper + upper.mT
    return torch.sub(scores, distance[size - scores.size(-2) :], alpha=slope)


@right("positions counted back from the end, larger minus smaller")
def distance_bias(scores, slope):
    def back(length):
        return torch.arange(length - 1, -1, -1, device=scores.device)

    asks, keys = back(scores.shape[-2]).view(-1, 1), back(scores.shape[-1]).view(1, -1)
    apart = torch.maximum(asks, keys) - torch.minimum(asks, keys)
    return torch.add(scores, apart.to(dtype=scores.dtype), alpha=-slope)


@right("one query at a time, each with its own row of distances")
def distance_bias(scores, slope):
    size = scores.size(-1)
    rows = []
    for place, row in enumerate(scores.unbind(-2), start=size - scores.size(-2)):
        before = list(range(place, 0, -1))
        after = list(range(size - place))
        lost = torch.tensor(before + after, dtype=row.dtype, device=row.device)
        rows.append(row - lost.mul(slope))
    return torch.stack(rows, dim=-2) if rows else scores.clone()


@wrong(
    "counts the queries from 0: right for T = S, wrong where there are fewer queries than keys",
    "The last query stands at the position of the last key, the query before it one position earlier, and so on.",
    "queries stand at the first positions",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    asks = torch.arange(steps, device=scores.device)[:, None]
    apart = (asks - torch.arange(keys, device=scores.device)).abs()
    return scores - slope * apart.to(scores.dtype)


@wrong(
    "no absolute value: a key after the query gains what it should lose",
    "The distance counts in both directions: a key two positions after the query loses as much as a key two positions before it.",
    "absolute value is missing",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    places = torch.arange(keys, device=scores.device)
    apart = places[keys - steps :, None] - places
    return scores - slope * apart.to(scores.dtype)


@wrong(
    "-= writes into the caller's scores, so that a second call lowers them twice",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "changes the scores in place",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    places = torch.arange(keys, device=scores.device)
    apart = (places[keys - steps :, None] - places).abs()
    scores -= slope * apart.to(scores.dtype)
    return scores


@wrong(
    "unpacks exactly three axes: raises for (T, S) and (B, H, T, S)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    "works for exactly three axes",
)
def distance_bias(scores, slope):
    _, steps, keys = scores.shape
    places = torch.arange(keys, device=scores.device)
    apart = (places[keys - steps :, None] - places).abs()
    return scores - slope * apart.to(scores.dtype)


@wrong(
    "distances in float32: half-precision scores come back as float32",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "result has another dtype",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    places = torch.arange(keys, device=scores.device, dtype=torch.float32)
    return scores - slope * (places[keys - steps :, None] - places).abs()


@wrong(
    "keys more than 127 positions away all lose the same: wrong for more than 128 keys",
    "slope: a number, 0 or more, which a score loses for each position that its query\n            and its key are apart.",
    "distance is cut off at 127",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    places = torch.arange(keys, device=scores.device)
    apart = (places[keys - steps :, None] - places).abs().clamp(max=127)
    return scores - slope * apart.to(scores.dtype)


@wrong(
    "writes the products with the slope into a table of whole numbers: right for slopes 0, 1, 2, but 0.5 becomes 0 at the first position, 1.5 becomes 1",
    "slope: a number, 0 or more, which a score loses for each position that its query\n            and its key are apart.",
    "rounds slope times distance to whole numbers",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    lost = torch.zeros(steps, keys, dtype=torch.long, device=scores.device)
    for t in range(steps):
        for s in range(keys):
            lost[t, s] = int(slope * abs(keys - steps + t - s))
    return scores - lost.to(scores.dtype)


_tables = {}


@wrong(
    "keeps the finished table by the numbers of queries and keys, without the slope: a second call with another slope loses as much as the first",
    "Here $m$ is `slope`, $s$ is the position of the key, and $p_t$ is the position of query $t$.",
    "slope remembered from an earlier call",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    if (steps, keys) not in _tables:
        places = torch.arange(keys)
        _tables[steps, keys] = slope * (places[keys - steps :, None] - places).abs()
    return scores - _tables[steps, keys].to(scores)


@wrong(
    "adds slope times s: for keys up to the query this differs from the formula by a number per row, which a softmax does not see; the scores are wrong, and keys after the query gain",
    "What you return are scores.",
    "right only after a causal softmax",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.size(-1), device=scores.device)
    return scores + slope * places.to(scores.dtype)


@wrong(
    "counts the queries from the last position backwards: right for one query, and for the middle of three, but the first query stands where the last one should",
    "The last query stands at the position of the last key, the query before it one position earlier, and so on.",
    "order of the queries is reversed",
)
def distance_bias(scores, slope):
    steps, keys = scores.shape[-2:]
    asks = keys - 1 - torch.arange(steps, device=scores.device)[:, None]
    apart = (asks - torch.arange(keys, device=scores.device)).abs()
    return scores - slope * apart.to(scores.dtype)
