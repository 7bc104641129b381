import math

import torch
from torch import nn
from torch.nn import functional as F

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
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."
LAST = (
    "The S keys have the positions 0 to S - 1, and the T queries have the last T of"
    " these positions."
)
BOTH = "The distance counts in both directions."
SLOPE = "a number, 0 or more: what a score loses for each position of distance."


@wrong(
    "gives the queries the first T positions",
    breaks=LAST,
    name="queries at the beginning",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    queries = torch.arange(T, device=scores.device)[:, None]
    return scores - slope * (queries - keys).abs().to(scores.dtype)


@wrong(
    "no absolute value: keys after the query gain instead of losing",
    breaks=BOTH,
    name="signed distance",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    queries = keys[S - T :, None]
    return scores - slope * (queries - keys).to(scores.dtype)


@wrong(
    "counts the distance to earlier keys only, as a causal model would",
    breaks=BOTH,
    name="keys after the query lose nothing",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    queries = keys[S - T :, None]
    return scores - slope * (queries - keys).clamp(min=0).to(scores.dtype)


@wrong(
    "counts in the dtype of the scores: bfloat16 has no 257",
    breaks=EXACT,
    name="positions in bfloat16",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device).to(scores.dtype)
    queries = keys[S - T :, None]
    return scores - slope * (queries - keys).abs()


@wrong(
    "subtracts whole-number distances times the slope, a float32 tensor",
    breaks=DTYPE,
    name="bfloat16 becomes float32",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs()
    return scores - distance.to(torch.promote_types(scores.dtype, torch.float32)) * slope


@wrong(
    "writes the new scores over the old ones",
    breaks=INPUTS,
    name="subtracts in place",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs()
    scores -= slope * distance.to(scores.dtype)
    return scores


@wrong(
    "keeps the bias for a shape and forgets that the slope may differ",
    breaks=CALLS,
    name="a cache without the slope",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    place = (T, S, scores.dtype, scores.device)
    if place not in KEPT:
        keys = torch.arange(S, device=scores.device)
        distance = (keys[S - T :, None] - keys).abs().to(scores.dtype)
        KEPT[place] = slope * distance
    return scores - KEPT[place]


KEPT = {}


@wrong(
    "takes the slope 0 for a missing one and replaces it by 1 / 8",
    breaks=SLOPE,
    name="a slope of zero counts as missing",
)
def distance_bias(scores, slope):
    slope = slope or 0.125
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "distance (int64) times slope is float32: float64 scores get a rounded bias",
    breaks=PRECISION,
    name="a float32 bias for float64 scores",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    keys = torch.arange(S, device=scores.device)
    distance = (keys[S - T :, None] - keys).abs()
    return (scores - slope * distance).to(scores.dtype)


@wrong(
    "places the first query at S - T - 1 (if there is such a position)",
    breaks=LAST,
    name="off by one in the positions of the queries",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    first = max(S - T - 1, 0)
    keys = torch.arange(S, device=scores.device)
    queries = torch.arange(first, first + T, device=scores.device)
    distance = (queries.unsqueeze(-1) - keys).abs()
    return scores - slope * distance.to(scores.dtype)


@right("a loop over the queries, each with a row of distances")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    rows = []
    for t in range(T):
        place = S - T + t
        row = [abs(place - s) for s in range(S)]
        row = torch.tensor(row, dtype=torch.float64, device=scores.device)
        rows.append((scores[..., t, :].double() - slope * row).to(scores.dtype))
    return torch.stack(rows, dim=-2)


@right("distances of all positions in float64, of which the last T rows are taken")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    places = torch.arange(S, dtype=torch.float64, device=scores.device)
    table = torch.cdist(places[:, None], places[:, None], p=1.0)[-T:]
    return torch.sub(scores.double(), table, alpha=float(slope)).to(scores.dtype)


@right("the later minus the earlier position, from meshgrid")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    here, there = torch.meshgrid(
        torch.arange(S - T, S, device=scores.device),
        torch.arange(S, device=scores.device),
        indexing="ij",
    )
    distance = torch.maximum(here, there) - torch.minimum(here, there)
    return scores - distance.to(scores.dtype) * slope


@right("a strip of distances, of which each query sees another part")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    strip = torch.arange(-(S - 1), S, device=scores.device).abs()
    distance = strip.unfold(0, S, 1).flip(0)[S - T :]
    loss = distance.to(torch.float64).mul(slope)
    return scores.to(torch.float64).sub(loss).to(scores.dtype)
