import functools

import torch
from blind import right, wrong


def _distance(scores):
    times, size = scores.shape[-2:]
    keys = torch.arange(size, device=scores.device)
    return (keys[size - times :, None] - keys).abs().to(scores.dtype)


# Right
@right("both axes counted from their ends, and flipped")
def r1(scores, slope):
    back = torch.arange(scores.size(-1), device=scores.device)
    gap = (back[: scores.size(-2), None] - back).abs().flip(0, 1)
    return scores - gap.to(scores.dtype) * slope


@right("diagonal after diagonal of a copy")
def r2(scores, slope):
    out = scores.clone()
    times, size = scores.shape[-2:]
    for ahead in range(-(size - 1), times):
        steps = ahead if ahead > 0 else -ahead
        place = size - times + ahead
        if -times < place < size:
            out.diagonal(place, -2, -1).sub_(slope * steps)
    return out


@right("distances counted by sums of triangles, last T rows")
def r3(scores, slope):
    times, size = scores.size(-2), scores.size(-1)
    full = torch.ones(size, size, dtype=torch.long, device=scores.device)
    before = full.tril(-1).flip(1).cumsum(1).flip(1)
    gap = (before + before.t())[size - times :]
    return torch.add(scores, gap.to(scores), alpha=-slope)


@right("one query after the other, the last one first")
def r4(scores, slope):
    out = scores.clone()
    size = scores.shape[-1]
    for back in range(scores.shape[-2]):
        here = size - 1 - back
        steps = [abs(here - s) for s in range(size)]
        row = torch.tensor(steps, dtype=scores.dtype, device=scores.device)
        out[..., -1 - back, :] = scores[..., -1 - back, :] - row * slope
    return out


# Wrong
@wrong(
    "the first query stands at the position 0: right for T = S",
    breaks="The last query stands at the position of the last key, the query before it"
    " one position earlier",
    name="queries at the first positions",
    subtle=True,
)
def w1(scores, slope):
    times, size = scores.shape[-2:]
    keys = torch.arange(size, device=scores.device)
    return scores - slope * (keys[:times, None] - keys).abs().to(scores.dtype)


@wrong(
    "keys after the query lose nothing",
    breaks="a key two positions after the query loses as much as a key two positions"
    " before it",
    name="only keys before the query lose",
    subtle=True,
)
def w2(scores, slope):
    times, size = scores.shape[-2:]
    keys = torch.arange(size, device=scores.device)
    gap = (keys[size - times :, None] - keys).clamp(min=0)
    return scores - slope * gap.to(scores.dtype)


@wrong(
    "lowers the scores that came in",
    breaks="what it was handed is unchanged",
    name="scores changed in place",
    subtle=True,
)
def w3(scores, slope):
    with torch.no_grad():
        scores -= slope * _distance(scores)
    return scores


@wrong(
    "all queries at the last position: right for one query",
    breaks="the query before it one position earlier, and so on",
    name="all queries at the last position",
    subtle=True,
)
def w4(scores, slope):
    size = scores.size(-1)
    keys = torch.arange(size, device=scores.device)
    return scores - slope * (size - 1 - keys).to(scores.dtype)


@wrong(
    "distances in float32: half precision is not kept",
    breaks="the dtype and the device are kept",
    name="float32 distances",
    subtle=True,
)
def w5(scores, slope):
    return scores - slope * _distance(scores).float()


@wrong(
    "positions on the CPU",
    breaks="the dtype and the device are kept",
    name="positions on the CPU",
    subtle=True,
)
def w6(scores, slope):
    times, size = scores.shape[-2:]
    keys = torch.arange(size)
    gap = (keys[size - times :, None] - keys).abs().to(scores.dtype)
    return scores - slope * gap


@wrong(
    "every head has a slope of its own, half of the one before",
    breaks="slope: a number, 0 or more, which a score loses for each position between"
    " query and key.",
    name="a slope for each head",
    subtle=True,
)
def w7(scores, slope):
    if scores.dim() < 4:
        return scores - slope * _distance(scores)
    head = torch.arange(scores.size(-3), device=scores.device)
    slopes = slope * (0.5 ** head.to(scores.dtype))
    return scores - slopes[:, None, None] * _distance(scores)


@wrong(
    "distances above 128 count as 128",
    breaks="lower every score by a multiple of the distance between query and key",
    name="distance cut off",
    subtle=True,
)
def w8(scores, slope):
    return scores - slope * _distance(scores).clamp(max=128)


@functools.lru_cache
def _table(size, device, dtype):
    return {}


@wrong(
    "keeps the product with the slope for the next scores of this shape",
    breaks="Lower each score by the distance between its query and its key.",
    name="the slope of an earlier call",
    subtle=True,
)
def w9(scores, slope):
    table = _table(scores.size(-1), scores.device, scores.dtype)
    if scores.size(-2) not in table:
        table[scores.size(-2)] = slope * _distance(scores)
    return scores - table[scores.size(-2)]


@wrong(
    "B, T, S = scores.shape",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="three axes only",
    subtle=True,
)
def w10(scores, slope):
    _, times, size = scores.shape
    keys = torch.arange(size, device=scores.device)
    gap = (keys[size - times :, None] - keys).abs().to(scores.dtype)
    return scores - slope * gap
