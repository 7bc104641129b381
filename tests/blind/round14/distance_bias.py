import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
AXES = "Your code must work in all three cases."
FORMULA = r"$$e'_{ts} = e_{ts} - m\, \lvert p_t - s \rvert$$"
LAST = (
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions."
)
BOTH = "The distance counts in both directions."


@right("computes in float64 and converts the final scores")
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    query = torch.arange(size - count, size, device=scores.device)
    gap = torch.maximum(query[:, None] - key, key - query[:, None])
    return (scores.double() - slope * gap.double()).to(scores.dtype)


@right("windows of one vector of 2 S - 1 distances, cut out with unfold")
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    line = torch.arange(1 - size, size, device=scores.device).abs()
    gap = line.unfold(0, size, 1)[:count].flip(0).to(torch.float64)
    return torch.sub(scores.to(torch.float64), gap, alpha=slope).to(scores.dtype)


@right("row by row; whole distances up to p and down again, joined with cat")
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    rows = []
    for t, row in enumerate(scores.unbind(dim=-2)):
        p = size - count + t
        before = torch.arange(p, -1, -1, device=scores.device)
        after = torch.arange(1, size - p, device=scores.device)
        gap = torch.cat((before, after)).to(torch.float64)
        rows.append((row.to(torch.float64) - gap * slope).to(scores.dtype))
    return torch.stack(rows, dim=-2)


@right("cdist of positions in float64, for the last T rows of an S x S table")
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device, dtype=torch.float64)[:, None]
    gap = torch.cdist(
        key[size - count :], key, compute_mode="donot_use_mm_for_euclid_dist"
    ).round()
    return torch.add(scores.double(), gap, alpha=-float(slope)).to(scores.dtype)


@wrong(
    "gives the queries the first T positions: right only for T = S",
    LAST,
    "queries start at position zero",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    gap = (key[:count, None] - key).abs()
    return scores - slope * gap.to(scores.dtype)


@wrong(
    "forgets the absolute value, so later keys gain",
    BOTH,
    "distance without absolute value",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    gap = key[size - count :, None] - key
    return scores - slope * gap.to(scores.dtype)


@wrong(
    "lowers only the scores of earlier keys; later ones lose nothing",
    BOTH,
    "counts only earlier keys",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    gap = (key[size - count :, None] - key).clamp(min=0)
    return scores - slope * gap.to(scores.dtype)


@wrong(
    "subtracts in place from the caller's scores",
    INPUTS,
    "changes the scores in place",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    gap = (key[size - count :, None] - key).abs()
    scores -= slope * gap.to(scores.dtype)
    return scores


@wrong(
    "makes the positions in the dtype of the scores: in bfloat16, positions above 256"
    " are rounded before they are subtracted",
    EXACT,
    "positions rounded in bfloat16",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device).to(scores.dtype)
    gap = (key[size - count :, None] - key).abs()
    return scores - slope * gap


@wrong(
    "a number times whole distances is float32: bfloat16 scores come back as float32,"
    " and float64 scores lose precision",
    DTYPE,
    "float32 from whole distances",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    return scores - float(slope) * (key[size - count :, None] - key).abs()


_BIASES = {}


@wrong(
    "keeps the finished table for each shape, and forgets that the slope may differ in"
    " the next call",
    CALLS,
    "cached table ignores the slope",
)
def distance_bias(scores, slope):
    tag = (*scores.shape[-2:], scores.dtype, scores.device)
    if tag not in _BIASES:
        count, size = scores.shape[-2:]
        key = torch.arange(size, device=scores.device)
        gap = (key[size - count :, None] - key).abs()
        _BIASES[tag] = slope * gap.to(scores.dtype)
    return scores - _BIASES[tag]


@wrong(
    "gives each head its own slope (m, m/2, m/4, ...) if there is an axis of heads",
    FORMULA,
    "different slope for each head",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    bias = slope * (key[size - count :, None] - key).abs().to(scores.dtype)
    if scores.dim() == 4:
        head = torch.arange(scores.shape[1], device=scores.device)
        bias = bias * 0.5 ** head.to(scores.dtype)[:, None, None]
    return scores - bias


@wrong(
    "counts no distance beyond 128, as relative positions often do: wrong for long"
    " inputs",
    FORMULA,
    "clips long distances",
)
def distance_bias(scores, slope, longest=128):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    gap = (key[size - count :, None] - key).abs().clamp(max=longest)
    return scores - slope * gap.to(scores.dtype)


@wrong(
    "stores the distances in eight bits without a sign to save memory: they start"
    " again at 0 after 255",
    EXACT,
    "distances overflow eight bits",
)
def distance_bias(scores, slope):
    count, size = scores.shape[-2:]
    key = torch.arange(size, device=scores.device)
    gap = (key[size - count :, None] - key).abs().to(torch.uint8)
    return scores - slope * gap.to(scores.dtype)
