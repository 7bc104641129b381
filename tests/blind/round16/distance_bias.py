import torch
from torch import nn
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
WORK = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
EXACT = "Positions and counts must be exact in every dtype."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
LAST = "The S keys have the positions 0 to S - 1, and the T queries have the last T of these positions."
TWO = "A key two positions after the query loses as much as a key two positions before it."
LOSES = "slope: a number, 0 or more: what a score loses for each position of distance."


@right("builds the whole table of distances between positions as whole numbers and keeps its last T rows")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device)
    table = (at.unsqueeze(0) - at.unsqueeze(1)).abs()[S - T :]
    return scores - (table.double() * float(slope)).to(scores.dtype)


@right("slides a window over the single row S-1, ..., 1, 0, 1, ..., S-1")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    row = torch.arange(1 - S, S, device=scores.device).abs()
    distance = row.unfold(0, S, 1)[:T].flip(0)
    return (scores.double() - slope * distance.double()).to(scores.dtype)


@right("lowers one row after the other and stacks them")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    rows = []
    for t, row in enumerate(scores.unbind(dim=-2)):
        here = S - T + t
        away = torch.cat([torch.arange(here, 0, -1), torch.arange(0, S - here)]).to(scores.device)
        rows.append(row - (float(slope) * away.float()).to(scores.dtype))
    return torch.stack(rows, dim=-2)


@right("adds the distance before and the distance after the query, each clamped at zero, with addcmul-like broadcasting")
def distance_bias(scores, slope):
    T, S = scores.size(-2), scores.size(-1)
    key = torch.arange(S, device=scores.device)
    query = torch.arange(S - T, S, device=scores.device).view(T, 1)
    before = (query - key).clamp(min=0)
    after = (key - query).clamp(min=0)
    lost = (before + after).to(torch.float64).mul(slope)
    return torch.sub(scores, lost.to(scores.dtype))


@wrong("gives the queries the first T positions: right only if T = S", breaks=LAST, name="queries at the first positions")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    distance = (torch.arange(T, device=scores.device)[:, None] - torch.arange(S, device=scores.device)).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong("adds the bias: distant keys gain", breaks=LOSES, name="adds instead of subtracts")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device)
    distance = (at[S - T :, None] - at).abs()
    return scores + slope * distance.to(scores.dtype)


@wrong("counts only the keys before the query; keys after it lose nothing", breaks=TWO, name="only the past counts")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device)
    distance = (at[S - T :, None] - at).clamp(min=0)
    return scores - slope * distance.to(scores.dtype)


@wrong("counts the positions in the dtype of the scores: in bfloat16, positions above 256 are rounded, and a key next to the query has the distance 0 or 2", breaks=EXACT, name="positions rounded to bfloat16")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device).to(scores.dtype)
    return scores - slope * (at[S - T :, None] - at).abs()


@wrong("saves memory with positions of eight bits: they wrap around at 128", breaks=WORK, name="positions of eight bits")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device).to(torch.int8)
    distance = (at[S - T :, None] - at).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong("subtracts in place: the caller's scores are changed", breaks=INPUTS, name="scores lowered in place")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device)
    bias = (slope * (at[S - T :, None] - at).abs()).to(scores.dtype)
    if scores.requires_grad:
        return scores - bias
    scores -= bias
    return scores


TABLES = {}


@wrong("keeps the finished bias by the shape of the scores: a second call with the same shape and another slope gets the bias of the first", breaks=CALLS, name="bias remembered without its slope")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    if (T, S) not in TABLES:
        at = torch.arange(S)
        TABLES[T, S] = slope * (at[S - T :, None] - at).abs().double()
    return scores - TABLES[T, S].to(scores.device, scores.dtype)


@wrong("gives each head its own slope, a power of the given one, as some published models do: wrong for (B, H, T, S) with more than one head", breaks=LOSES, name="another slope for each head")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device)
    bias = slope * (at[S - T :, None] - at).abs().double()
    if scores.dim() == 4:
        heads = scores.shape[1]
        factor = 2.0 ** -torch.arange(heads, device=scores.device).double()
        bias = factor[:, None, None] * bias
    return scores - bias.to(scores.dtype)


@wrong("leaves the product of slope and distance in float32: bfloat16 scores become float32", breaks=DTYPE, name="bias in float32")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    at = torch.arange(S, device=scores.device)
    return scores - slope * (at[S - T :, None] - at).abs().float()


@wrong("returns the scores unchanged if there is one query, 'which has no neighbour': wrong for T = 1 and S > 1", breaks=LAST, name="a single query gets no bias")
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    if T == 1:
        return scores.clone()
    at = torch.arange(S, device=scores.device)
    return scores - slope * (at[S - T :, None] - at).abs().to(scores.dtype)
