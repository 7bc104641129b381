import torch
from blind import right, wrong


@right("loops over the queries and builds one row of distances after the other")
def distance_bias(scores, slope):
    T, S = scores.size(-2), scores.size(-1)
    rows = []
    for t in range(T):
        place = S - T + t
        away = [abs(place - s) for s in range(S)]
        away = torch.tensor(away, dtype=torch.long, device=scores.device)
        rows.append(scores[..., t, :] - slope * away.to(scores.dtype))
    return torch.stack(rows, dim=-2) if rows else scores.clone()


@right("a table from indices: the diagonal of the last key is distance zero")
def distance_bias(scores, slope):
    grid = torch.ones(scores.shape[-2:], dtype=torch.long, device=scores.device)
    down, across = grid.cumsum(0), grid.cumsum(1)
    away = across - down - (scores.shape[-1] - scores.shape[-2])
    return torch.sub(scores, away.abs().to(scores.dtype) * slope)


@right("larger minus smaller of the two positions, last rows of (S, S)")
def distance_bias(scores, slope):
    S = scores.size(-1)
    key = torch.arange(S, device=scores.device)
    square = torch.maximum(key[:, None], key) - torch.minimum(key[:, None], key)
    last = square[S - scores.size(-2) :]
    return scores - last.to(scores.dtype).mul(slope)


@right("windows of one long row |-(S-1)|, ..., 0, ..., S-1, taken with unfold")
def distance_bias(scores, slope, *, offset=0):
    T, S = scores.shape[-2:]
    if T == 0:
        return scores.clone()
    line = torch.arange(-(S - 1), S, device=scores.device).abs()  # 2S - 1 distances
    windows = line.unfold(0, S, 1).flip(0)  # row t: the distances from position t
    bias = windows[S - T + offset :].to(scores.dtype) * slope
    return scores + bias.neg()


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "the queries stand at 0 to T - 1: right for T = S, wrong when there are fewer"
    " queries than keys",
    "The last query stands at the position of the last key, the query before it one"
    " position earlier, and so on.",
    "queries start at position 0",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    query = torch.arange(T, device=scores.device)
    key = torch.arange(S, device=scores.device)
    away = (query[:, None] - key).abs()
    return scores - slope * away.to(scores.dtype)


@wrong(
    "no absolute value: keys after the query gain what they should lose",
    "The distance counts in both directions: a key two positions after the query loses"
    " as much as a key two positions before it.",
    "absolute value forgotten",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device)
    away = key[S - T :, None] - key
    return scores - slope * away.to(scores.dtype)


@wrong(
    "returns weights: the softmax is already applied",
    "Return scores.",
    "softmax applied too early",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device)
    away = (key[S - T :, None] - key).abs()
    return (scores - slope * away.to(scores.dtype)).softmax(dim=-1)


# --- corners -----------------------------------------------------------------------


@wrong(
    "positions in the dtype of the scores: in bfloat16 whole numbers above 256 are"
    " rounded (in float16 above 2048), so neighbours have the same position",
    "Subtract first, and give the distances the dtype of the scores with"
    " `.to(scores.dtype)`.",
    "positions rounded in half precision",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, dtype=scores.dtype, device=scores.device)
    away = (key[S - T :].unsqueeze(-1) - key).abs()
    return scores - slope * away


@wrong(
    "multiplies whole distances by the slope and does not convert: float16 scores come"
    " back as float32",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "half-precision scores become float32",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device)
    away = (key[S - T :, None] - key).abs()
    return scores - float(slope) * away


@wrong(
    "`-=` lowers the caller's scores; a second call lowers them again",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "lowers the given scores in place",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device)
    away = (key[S - T :, None] - key).abs().to(scores.dtype)
    with torch.no_grad():
        scores -= slope * away
    return scores


@wrong(
    "distances as 8-bit numbers to save memory: from 129 keys on they run over and are"
    " wrong or negative",
    "which a score loses for each position that its query and its key are apart.",
    "8-bit positions overflow with many keys",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device).to(torch.int8)
    away = (key[S - T :, None] - key).abs()
    return scores - slope * away.to(scores.dtype)


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "one case for all queries (T = S) and one for a single one (T = 1, at the end): two"
    " or more queries at the end of a longer row of keys stand at the wrong place",
    "The last query stands at the position of the last key, the query before it one"
    " position earlier, and so on.",
    "right for T = S and T = 1 only",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device)
    query = key[-1:] if T == 1 else torch.arange(T, device=scores.device)
    away = (query[:, None] - key).abs()
    return scores - slope * away.to(scores.dtype)


@wrong(
    "raises each score by slope times the position of its key: under a causal mask the"
    " softmax of it is the same, but the scores are others, and keys after the query gain",
    "Lower each score by the distance between its query and its key.",
    "bias by the key's position alone",
)
def distance_bias(scores, slope):
    S = scores.size(-1)
    key = torch.arange(S, device=scores.device)
    return scores - slope * (S - 1 - key).to(scores.dtype)


@wrong(
    "the last query comes first: position S - 1 - t; right for one query, and for rows"
    " that nobody looks at one by one",
    "The last query stands at the position of the last key, the query before it one"
    " position earlier, and so on.",
    "order of the queries reversed",
)
def distance_bias(scores, slope):
    T, S = scores.shape[-2:]
    key = torch.arange(S, device=scores.device)
    query = S - 1 - torch.arange(T, device=scores.device)
    away = (query[:, None] - key).abs()
    return scores - slope * away.to(scores.dtype)
