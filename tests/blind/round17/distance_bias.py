import torch
from blind import right, wrong

FORMULA = r"$$e'_{ts} = e_{ts} - m\, \lvert p_t - s \rvert$$"
LAST = "The S keys have the positions 0 to S - 1, and the T queries have the last T of these positions."
BOTH = "The distance counts in both directions."
AFTER = "A key two positions after the query loses as much as a key two positions before it."
RETURN = "Return scores."
SLOPE = "slope: a number, 0 or more: what a score loses for each position of distance."
INPUTS = "Do not change the inputs."
DTYPE = "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU."
EXACT = "Positions and counts must be exact in every dtype."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."

TABLES = {}


@right("every row is a slice of one V of distances")
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    ramp = torch.arange(1 - length, length, device=scores.device).abs()
    # row t begins at the distance of key 0 and moves one entry to the right for each key
    rows = [
        ramp[length - 1 - (length - count + t) :][:length] for t in range(count)
    ]
    return scores - (torch.stack(rows) * slope).to(scores.dtype)


@right("the larger difference of the two orders, in float64, converted at the end")
def distance_bias(scores, slope):
    count, length = scores.size(-2), scores.size(-1)
    keys = torch.arange(length, dtype=torch.float64, device=scores.device)
    queries = keys.narrow(0, length - count, count).unsqueeze(1)
    distance = torch.maximum(queries - keys, keys - queries)
    return (scores.double() - slope * distance).to(scores.dtype)


@right("each row is a cumulative sum: down to the query one by one, then up again")
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, device=scores.device)
    queries = torch.arange(length - count, length, device=scores.device)[:, None]
    steps = 1 - 2 * (keys <= queries).long()
    steps[:, :1] = queries
    distance = steps.cumsum(dim=1).to(torch.float32)
    return torch.sub(scores, distance.mul(slope).to(scores.dtype))


@right("counts the queries from the end, one row after the other")
def distance_bias(scores, slope):
    length = scores.shape[-1]
    keys = torch.arange(length, device=scores.device)
    rows = list(scores.unbind(dim=-2))
    for back in range(1, len(rows) + 1):
        distance = torch.where(
            keys > length - back, keys - (length - back), (length - back) - keys
        )
        rows[-back] = rows[-back] - slope * distance.to(scores.dtype)
    return torch.stack(rows, dim=-2)


@wrong(
    "gives the queries the positions 0 to T - 1",
    breaks=LAST,
    name="the queries are aligned with the first keys",
)
def distance_bias(scores, slope):
    queries = torch.arange(scores.size(-2), device=scores.device)
    keys = torch.arange(scores.size(-1), device=scores.device)
    distance = (queries[:, None] - keys).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "counts only keys before the query and leaves the later ones as they are",
    breaks=BOTH,
    name="a distance in one direction only",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, device=scores.device)
    distance = (keys[length - count :, None] - keys).clamp(min=0)
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "adds slope times the key's position, because only differences count in a softmax",
    breaks=FORMULA,
    name="the position of the query is left out",
)
def distance_bias(scores, slope):
    keys = torch.arange(scores.size(-1), device=scores.device)
    return scores + slope * keys.to(scores.dtype)


@wrong(
    "applies the softmax to the lowered scores",
    breaks=RETURN,
    name="weights instead of scores",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, device=scores.device)
    distance = (keys[length - count :, None] - keys).abs()
    return torch.softmax(scores - slope * distance.to(scores.dtype), dim=-1)


@wrong(
    "creates the positions in the dtype of the scores and subtracts them there",
    breaks=EXACT,
    name="positions above 256 are rounded in bfloat16",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, device=scores.device).to(scores.dtype)
    distance = (keys[length - count :, None] - keys).abs()
    return scores - slope * distance


@wrong(
    "subtracts in place from scores.contiguous()",
    breaks=INPUTS,
    name="contiguous() is no copy if the scores already are contiguous",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, device=scores.device)
    distance = (keys[length - count :, None] - keys).abs()
    result = scores.contiguous()
    result -= slope * distance.to(scores.dtype)
    return result


@wrong(
    "treats all distances above 128 as 128",
    breaks=SLOPE,
    name="the distance is cut off for long inputs",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, device=scores.device)
    distance = (keys[length - count :, None] - keys).abs().clamp(max=128)
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "moves the queries to the end only if there is a single one",
    breaks=LAST,
    name="a few new queries are taken for the first tokens",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    first = length - 1 if count == 1 else 0  # one new token, or the whole text
    queries = torch.arange(first, first + count, device=scores.device)
    keys = torch.arange(length, device=scores.device)
    distance = (queries[:, None] - keys).abs()
    return scores - slope * distance.to(scores.dtype)


@wrong(
    "keeps finished tables, found again by the shape, the dtype and the device",
    breaks=CALLS,
    name="a table with the slope of an earlier call",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    place = (count, length, scores.dtype, scores.device)
    if place not in TABLES:
        keys = torch.arange(length, device=scores.device)
        distance = (keys[length - count :, None] - keys).abs()
        TABLES[place] = slope * distance.to(scores.dtype)
    return scores - TABLES[place]


@wrong(
    "multiplies the slope with positions in float32 and does not convert the product",
    breaks=DTYPE,
    name="bfloat16 scores become float32",
)
def distance_bias(scores, slope):
    count, length = scores.shape[-2:]
    keys = torch.arange(length, dtype=torch.float32, device=scores.device)
    distance = (keys[length - count :, None] - keys).abs()
    return scores - slope * distance
