import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("the distances as lists of numbers, made into a tensor at the end")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    loss = [[slope * abs(S - T + t - s) for s in range(S)] for t in range(T)]
    return scores - torch.tensor(loss, dtype=scores.dtype, device=scores.device)


@right("float64 inside, the positions made by a cumulative sum")
def distance_bias(scores, slope):
    ones = torch.ones(scores.size(-1), dtype=torch.float64, device=scores.device)
    keys = ones.cumsum(0) - 1
    queries = keys[scores.size(-1) - scores.size(-2) :]
    distance = torch.maximum(queries[:, None] - keys, keys - queries[:, None])
    return (scores.double() - slope * distance).to(scores.dtype)


@right("the whole S x S table of distances, its last T rows, subtracted with alpha")
def distance_bias(scores, slope):
    positions = torch.arange(scores.size(-1), device=scores.device)
    table = torch.cat([(positions - p).abs()[None] for p in range(len(positions))])
    rows = table.narrow(0, scores.size(-1) - scores.size(-2), scores.size(-2))
    return torch.sub(scores, rows.to(scores.dtype), alpha=slope)


@right("one row after the other, from the last query back, with a helper inside")
def distance_bias(scores, slope):
    S = scores.size(-1)

    def row(place):
        before = torch.arange(place, 0, -1, device=scores.device)
        after = torch.arange(0, S - place, device=scores.device)
        return torch.cat([before, after]).to(scores.dtype) * slope

    rows = []
    for back in range(scores.size(-2)):
        rows.insert(0, scores[..., -1 - back, :] - row(S - 1 - back))
    return torch.stack(rows, dim=-2)


@wrong(
    "adds instead of subtracting",
    "Lower each score by the distance between its query and its key.",
    "sign",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs().to(scores.dtype)
    return scores + slope * distance


@wrong(
    "does not take the absolute value: keys after the query gain",
    "The distance counts in both directions.",
    "no absolute value",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).to(scores.dtype)
    return scores - slope * distance


@wrong(
    "returns weights",
    "Return scores.",
    "softmax too early",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs().to(scores.dtype)
    return (scores - slope * distance).softmax(dim=-1)


@wrong(
    "gives the queries the positions 0 to T - 1: right for T = S only",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions.",
    "first instead of last positions",
    subtle=True,
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    queries = torch.arange(T, device=scores.device)
    keys = torch.arange(S, device=scores.device)
    return scores - slope * (queries[:, None] - keys).abs().to(scores.dtype)


@wrong(
    "makes the positions in the dtype of the scores: in bfloat16, 257 is 256",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in bfloat16",
    subtle=True,
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, dtype=scores.dtype, device=scores.device)
    queries = keys[S - T :]
    return scores - slope * (queries[:, None] - keys).abs()


@wrong(
    "subtracts in place from the scores of the caller",
    "Do not change the inputs.",
    "changes the scores",
    subtle=True,
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    scores -= slope * (keys[S - T :, None] - keys).abs().to(scores.dtype)
    return scores


@wrong(
    "makes the positions on the CPU: scores on a GPU fail",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "positions on the CPU",
    subtle=True,
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S)
    distance = (keys[S - T :, None] - keys).abs().to(scores.dtype)
    return scores - slope * distance


@wrong(
    "does not convert the distances: times a slope of 0.5 they are float32, and"
    " bfloat16 scores give a float32 result",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "float32 from whole numbers",
    subtle=True,
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    return scores - slope * (keys[S - T :, None] - keys).abs()


@wrong(
    "keeps the slope times the distances by T and S: a second call with another slope"
    " gets those of the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "cache without the slope",
    subtle=True,
)
def distance_bias(scores, slope, cache={}):
    T, S = scores.shape[-2:]
    if (T, S) not in cache:
        keys = torch.arange(S)
        cache[T, S] = slope * (keys[S - T :, None] - keys).abs().double()
    return scores - cache[T, S].to(scores)


@wrong(
    "halves the slope from head to head if the scores have an axis of heads, as the"
    " large language models do",
    "slope: a number, 0 or more: what a score loses for each position of distance.",
    "a slope of its own for each head",
    subtle=True,
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs().to(scores.dtype)
    if scores.dim() == 4:
        heads = torch.arange(scores.size(1), device=scores.device)
        slope = (slope * 0.5**heads).to(scores.dtype)[:, None, None]
    return scores - slope * distance
