import functools

import torch

from blind import right, wrong


@right("compares two aranges, with the comparison written as a signed distance")
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    distance = position.unsqueeze(1) - position.unsqueeze(0)
    return distance.ge(0)


@right("fills row after row in a loop")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right("cumulative sum of the identity matrix, down the columns")
def causal_mask(size, device=None):
    return torch.eye(size, dtype=torch.long, device=device).cumsum(dim=0).bool()


@right("writes the coordinates of the lower triangle into an empty mask")
def causal_mask(size, device=None):
    query, key = torch.tril_indices(size, size, device=device)
    mask = torch.full((size, size), False, device=device)
    mask[query, key] = True
    return mask


@wrong(
    "leaves out the diagonal",
    breaks="Let position t attend to itself and to all earlier positions, but not to any"
    " later position.",
    name="a position may not attend to itself",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong(
    "keeps the upper triangle, as if the rows were keys",
    breaks="Each row of the mask belongs to a query, and each column belongs to a key.",
    name="rows and columns are swapped",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return position[:, None] <= position


@wrong(
    "True marks the forbidden positions, as in nn.MultiheadAttention",
    breaks="True means that the query may attend to the key.",
    name="the mask is inverted",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(diagonal=1)


@wrong(
    "makes an additive mask of 0 and minus infinity",
    breaks="Make the mask on `device`, with the dtype `torch.bool`.",
    name="an additive float mask instead of a boolean one",
)
def causal_mask(size, device=None):
    return torch.full((size, size), float("-inf"), device=device).triu(1)


@wrong(
    "makes the mask on the CPU and forgets `device`",
    breaks="device: the device to make the mask on.",
    name="the device is ignored",
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size)).bool()


@wrong(
    "memoizes, so that all callers share one tensor",
    breaks="A mask (T, T), of dtype bool, a new one in each call.",
    name="the same tensor is returned again",
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "stacks the rows, which fails if there are none",
    breaks="size: T, the number of positions; it may be 0.",
    name="no mask for an empty target",
)
def causal_mask(size, device=None):
    rows = [
        torch.tensor([key <= query for key in range(size)], device=device)
        for query in range(size)
    ]
    return torch.stack(rows)


@wrong(
    "counts the positions in bfloat16, so that 256 and 257 are the same position",
    breaks="Positions and counts must be exact in every dtype.",
    name="positions are rounded",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device).to(torch.bfloat16)
    return position[:, None] >= position


_kept = {}


@wrong(
    "keeps a copy for each size, but forgets that the device may differ",
    breaks="The result of a call must not depend on earlier calls or on other objects of"
    " the same class.",
    name="the mask is on the device of an earlier call",
)
def causal_mask(size, device=None):
    if size not in _kept:
        _kept[size] = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return _kept[size].clone()


@wrong(
    "squeezes the axes of a batched mask away, and with them those of length one",
    breaks="A mask (T, T), of dtype bool, a new one in each call.",
    name="axes of length one are lost",
)
def causal_mask(size, device=None):
    mask = torch.ones(1, size, size, dtype=torch.bool, device=device).tril()
    return mask.squeeze()
