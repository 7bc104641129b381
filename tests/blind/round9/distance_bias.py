import torch
import torch.nn.functional as F
from blind import right, wrong


@right("a loop over the queries, each with its own position")
def distance_bias(scores, slope):
    queries, keys = scores.shape[-2:]
    wide = torch.promote_types(scores.dtype, torch.float32)
    places, rows = torch.arange(keys, device=scores.device), []
    for t in range(queries):
        far = (places - (keys - queries + t)).abs().to(wide)
        rows.append(scores[..., t, :].to(wide) - slope * far)
    return torch.stack(rows, dim=-2).to(scores.dtype)


@right("windows of one row of distances, from S - 1 over 0 to S - 1")
def distance_bias(scores, slope):
    queries, keys = scores.shape[-2:]
    wide = torch.promote_types(scores.dtype, torch.float32)
    line = torch.arange(1 - keys, keys, device=scores.device).abs()
    windows = line.unfold(0, keys, 1).flip(0)[keys - queries :]
    return (scores.to(wide) - windows.to(wide) * slope).to(scores.dtype)


@right("torch.cdist of the positions in float64, the bias subtracted with torch.sub")
def distance_bias(scores, slope, p=1.0):
    where = torch.arange(scores.shape[-1], device=scores.device, dtype=torch.float64)
    far = torch.cdist(where[-scores.shape[-2] :, None], where[:, None], p=p)
    wide = torch.promote_types(scores.dtype, torch.float32)
    return torch.sub(scores.to(wide), far.to(wide), alpha=float(slope)).to(scores.dtype)


@right("the larger minus the smaller position, positions counted by a cumulative sum")
def distance_bias(scores, slope):
    ones = torch.ones(scores.shape[-1], dtype=torch.long, device=scores.device)
    column = ones.cumsum(dim=0)
    row = column[scores.shape[-1] - scores.shape[-2] :].unsqueeze(1)
    lost = (torch.maximum(row, column) - torch.minimum(row, column)).double() * slope
    return (scores.double() - lost).to(scores.dtype)


@wrong(
    "forgets the absolute value: keys after the query gain score instead of losing it",
    "The distance counts in both directions.",
    "no absolute value",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device)
    far = places[-scores.shape[-2] :, None] - places
    return scores - slope * far.to(scores.dtype)


@wrong(
    "gives the queries the positions 0 to T - 1: wrong whenever there are fewer queries"
    " than keys",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions.",
    "queries counted from the first position",
)
def distance_bias(scores, slope):
    queries = torch.arange(scores.shape[-2], device=scores.device)
    keys = torch.arange(scores.shape[-1], device=scores.device)
    far = (queries[:, None] - keys).abs()
    return scores - slope * far.to(scores.dtype)


@wrong(
    "applies the softmax at the end, so it returns weights",
    "Return scores. The softmax comes later.",
    "returns weights",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device)
    far = (places[-scores.shape[-2] :, None] - places).abs()
    return (scores - slope * far.to(scores.dtype)).softmax(dim=-1)


@wrong(
    "counts the positions in the dtype of the scores: bfloat16 rounds positions above"
    " 256, so of 600 keys many neighbours get the distance 0 or 4",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "positions rounded before the subtraction",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device).to(scores.dtype)
    return scores - slope * (places[-scores.shape[-2] :, None] - places).abs()


@wrong(
    "subtracts in place: the caller's scores are changed",
    "Do not change the inputs.",
    "sub_ changes the scores",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device)
    far = (places[-scores.shape[-2] :, None] - places).abs()
    if scores.requires_grad:
        return scores - slope * far.to(scores.dtype)
    return scores.sub_(slope * far.to(scores.dtype))


@wrong(
    "takes a slope of 0 for a missing one and uses 1 instead",
    "slope: a number, 0 or more: what a score loses for each position of distance.",
    "slope 0 replaced by a default",
)
def distance_bias(scores, slope=None):
    slope = slope or 1.0
    places = torch.arange(scores.shape[-1], device=scores.device)
    far = (places[-scores.shape[-2] :, None] - places).abs()
    return scores - slope * far.to(scores.dtype)


@wrong(
    "keeps the distances in float32: bfloat16 and float16 scores come back as float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "float32 distances make float32 scores",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device, dtype=torch.float32)
    return scores - slope * (places[-scores.shape[-2] :, None] - places).abs()


@wrong(
    "counts only keys before the query, as in a text that is generated: keys after the"
    " query lose nothing; not seen for T = 1, where the query is the last position",
    "A key two positions after the query loses as much as a key two positions before"
    " it.",
    "later keys lose nothing",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device)
    far = (places[-scores.shape[-2] :, None] - places).clamp(min=0)
    return scores - slope * far.to(scores.dtype)


@wrong(
    "adds m * s and lowers later keys by twice their distance: each row is higher by"
    " m * p_t, so the weights are right and the scores wrong",
    "slope: a number, 0 or more: what a score loses for each position of distance.",
    "right weights, wrong scores",
)
def distance_bias(scores, slope):
    places = torch.arange(scores.shape[-1], device=scores.device)
    later = (places - places[-scores.shape[-2] :, None]).clamp(min=0)
    return scores + slope * (places - 2 * later).to(scores.dtype)


KEPT = {}


@wrong(
    "keeps the finished bias for each shape, dtype and device, but not for each slope:"
    " a second call with another slope gets the first one's bias",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers the bias without its slope",
)
def distance_bias(scores, slope):
    name = (*scores.shape[-2:], scores.dtype, scores.device)
    if name not in KEPT:
        places = torch.arange(scores.shape[-1], device=scores.device)
        far = (places[-scores.shape[-2] :, None] - places).abs()
        KEPT[name] = slope * far.to(scores.dtype)
    return scores - KEPT[name]
