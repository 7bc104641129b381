import math
import torch
from torch import nn
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "gives the queries the first T positions: right if T equals S, wrong if there are fewer queries than keys",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of these positions.",
    "queries counted from position 0",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    q = torch.arange(steps, device=scores.device)[:, None]
    k = torch.arange(size, device=scores.device)
    return scores - slope * (q - k).abs().to(scores.dtype)


@wrong(
    "leaves out the absolute value: keys after the query gain instead of losing",
    "A key two positions after the query loses as much as a key two positions before it.",
    "no absolute value",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device)
    q = k[size - steps :, None]
    return scores - slope * (q - k).to(scores.dtype)


@wrong(
    "applies the softmax after the bias and returns weights",
    "Return scores. The softmax comes later.",
    "returns weights instead of scores",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device)
    distance = (k[size - steps :, None] - k).abs().to(scores.dtype)
    return torch.softmax(scores - slope * distance, dim=-1)


# ------------------------------------------------------------------------- corners


@wrong(
    "makes the positions in the dtype of the scores: in bfloat16, positions above 256 are rounded before the subtraction, so near the end of a long text a neighbour gets the distance 0 or 2",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "positions rounded before the subtraction",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device).to(scores.dtype)
    q = k[size - steps :].unsqueeze(-1)
    return scores - slope * (q - k).abs()


@wrong(
    "subtracts in place: the caller's scores are changed, and a second call lowers them again",
    "Do not change the inputs.",
    "changes the scores in place",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device)
    distance = (k[size - steps :, None] - k).abs().to(scores.dtype)
    with torch.no_grad():
        scores -= slope * distance
    return scores


@wrong(
    "for T = 1 it puts the query at position 0 instead of the last one, so the only query of a generating model stands at the wrong end",
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of these positions.",
    "a single query is put at position 0",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device)
    if steps == 1:
        distance = k.unsqueeze(0)
    else:
        distance = (k[-steps:].unsqueeze(1) - k).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "multiplies the distances by the slope in float32 before they get the scores' dtype, and never converts: bfloat16 scores become float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "float32 distances promote bfloat16 scores",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device).float()
    distance = (k[size - steps :, None] - k).abs()
    return scores - slope * distance


# ------------------------------------------------------------------- hard to notice


_distances = {}


@wrong(
    "keeps the finished bias in a dictionary by the sizes T and S only: a second call with the same sizes gets the slope and dtype of the first",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "bias remembered without its slope",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    if (steps, size) not in _distances:
        k = torch.arange(size, device=scores.device)
        distance = (k[size - steps :, None] - k).abs()
        _distances[steps, size] = slope * distance.to(scores.dtype)
    return scores - _distances[steps, size]


@wrong(
    "counts the distance only to earlier keys with clamp(min=0): right under a causal mask, but a later key loses nothing",
    "The distance counts in both directions.",
    "later keys lose nothing",
)
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    k = torch.arange(size, device=scores.device)
    distance = (k[size - steps :, None] - k).clamp(min=0)
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "adds slope times s instead of subtracting slope times the distance: under a causal mask the softmax gives the same weights, but scores are shifted in each row, and later keys gain",
    r"$$e'_{ts} = e_{ts} - m\, \lvert p_t - s \rvert$$",
    "relies on shifts that the softmax ignores",
)
def distance_bias(scores, slope):
    size = scores.shape[-1]
    k = torch.arange(size, device=scores.device).to(scores.dtype)
    return scores + slope * (k - (size - 1))


# --------------------------------------------------------------------------- right


@right("meshgrid of the two kinds of positions, torch.where in place of abs")
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    positions = torch.arange(size, device=scores.device)
    p, s = torch.meshgrid(positions[-steps:], positions, indexing="ij")
    distance = torch.where(p > s, p - s, s - p)
    return scores - slope * distance.type_as(scores)


@right("one query after the other: the distances of a row are two counted ranges joined together")
def distance_bias(scores, slope):
    steps, size = scores.shape[-2], scores.shape[-1]
    rows = []
    for t in range(steps):
        p = size - steps + t
        before = torch.arange(p, 0, -1, device=scores.device)
        after = torch.arange(0, size - p, device=scores.device)
        distance = torch.cat((before, after)).to(scores.dtype)
        rows.append(scores[..., t, :] - slope * distance)
    return torch.stack(rows, dim=-2)


@right("the larger minus the smaller position, with an offset in place of a slice, and torch.sub with alpha")
def distance_bias(scores, slope):
    steps, size = scores.shape[-2:]
    s = torch.arange(size, device=scores.device).view(1, size)
    p = torch.arange(steps, device=scores.device).view(steps, 1) + (size - steps)
    distance = torch.maximum(p, s) - torch.minimum(p, s)
    return torch.sub(scores, distance.to(scores.dtype), alpha=slope)


@right("a window that slides over one line of distances, by unfold")
def distance_bias(scores, slope, *, both=True):
    steps, size = scores.shape[-2:]
    line = torch.arange(-(size - 1), size, device=scores.device).abs()
    windows = line.unfold(0, size, 1).flip(0)
    distance = windows[-steps:] if both else windows[-steps:].tril(size - steps)
    return scores + distance.to(scores.dtype).mul(-slope)
