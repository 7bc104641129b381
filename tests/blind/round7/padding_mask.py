import torch

from blind import right, wrong


@right("a loop over the sentences that writes True over the beginning of each")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for row, length in zip(mask, lengths.tolist()):
        row[:, :length] = True
    return mask


@right("counts down: the tokens left at each position, by a cumulative sum")
def padding_mask(lengths, size):
    ones = torch.ones(
        lengths.size(0), 1, size, dtype=torch.long, device=lengths.device
    )
    return torch.cumsum(ones, dim=-1).le(lengths.view(-1, 1, 1))


@right("looks the rows up in a triangle with a row for every possible length")
def padding_mask(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device)
    table = table.tril(diagonal=-1)
    return table[lengths.long()].unsqueeze(1)


@right("expands both sides to the full shape first and compares with torch.gt")
def padding_mask(lengths, size, first=0):
    positions = torch.arange(first, first + size, device=lengths.device)
    grid = positions.expand(lengths.shape[0], 1, size)
    return torch.gt(lengths.reshape(-1, 1, 1).expand_as(grid), grid)


@wrong(
    "returns (B, S), the axis of the queries is missing",
    "Here this axis has length one, because all queries may use the same positions: (B, 1, S).",
    "axis of the queries is missing",
)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    "the mask is the wrong way round: True on padding",
    "That is what a mask says: `True` on the tokens of a sentence, `False` on its padding.",
    "mask inverted: True on padding",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions >= lengths[:, None])[:, None]


@wrong(
    "<= in place of <: the first padding of each sentence counts as a token",
    "That is what a mask says: `True` on the tokens of a sentence, `False` on its padding.",
    "off by one: one padding counts as token",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


@wrong(
    "takes the longest sentence for the size: if the batch was padded further, columns are missing",
    "size: S, the length to which the batch was padded; it may be more than the",
    "size ignored, longest sentence used",
)
def padding_mask(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    "gives a sentence without tokens one token, to avoid dividing by zero later",
    "lengths: (B,), tokens in each sentence; a sentence may have none.",
    "an empty sentence gets one token",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.clamp(min=1)[:, None])[:, None]


@wrong(
    "switches the last size - length places off by a negative slice: a sentence as long as the batch loses all its tokens",
    "That is what a mask says: `True` on the tokens of a sentence, `False` on its padding.",
    "a full-length sentence has no tokens",
)
def padding_mask(lengths, size):
    mask = torch.ones(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, 0, length - size :] = False
    return mask


@wrong(
    "squeezes everything: with one sentence, or with size 1, an axis too many is lost",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "squeeze drops further axes of length one",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)[None, :, None]
    mask = positions < lengths[:, None, None]
    return mask.squeeze().unsqueeze(-2)


@wrong(
    "unsqueeze_ in place: afterwards the caller's lengths are (B, 1)",
    "The lengths stay as they are.",
    "gives the caller's lengths a new axis",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.unsqueeze_(1)).unsqueeze(1)


@wrong(
    "positions in half precision to save memory: from 2048 on they are rounded, 2049 counts as 2048",
    "That is what a mask says: `True` on the tokens of a sentence, `False` on its padding.",
    "long inputs: positions rounded in float16",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).to(torch.float16)
    return (positions < lengths[:, None].to(torch.float64))[:, None]


@wrong(
    "remembers masks by batch size and size: a second batch of the same shape gets the mask of the first",
    "inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "mask of an earlier batch is reused",
)
def padding_mask(lengths, size, cache={}):
    key = (lengths.numel(), size, lengths.device)
    if key not in cache:
        positions = torch.arange(size, device=lengths.device)
        cache[key] = (positions < lengths[:, None])[:, None]
    return cache[key]
