import functools

import torch

from blind import right, wrong

RULE = "Let position t attend to itself and to all earlier positions, but not to any later position."


@right("running sum of the identity")
def causal_mask(size, device=None):
    return torch.eye(size, device=device).cumsum(dim=0).bool()


@right("nested lists")
def causal_mask(size, device=None):
    cells = [key <= query for query in range(size) for key in range(size)]
    return torch.tensor(cells, dtype=torch.bool, device=device).reshape(size, size)


@right("negated comparison of positions")
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return torch.logical_not(position > position.unsqueeze(1))


@right("writes True at the indices of the lower triangle")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    rows, columns = torch.tril_indices(size, size, device=device)
    mask[rows, columns] = True
    return mask


@wrong(
    "only earlier positions",
    breaks=RULE,
    name="diagonal missing",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong(
    "upper triangle: rows belong to keys",
    breaks="Each row of the mask belongs to a query, and each column belongs to a key.",
    name="rows and columns swapped",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    "True where it is forbidden",
    breaks="True means that the query may attend to the key.",
    name="mask negated",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong(
    "one position too far",
    breaks=RULE,
    name="sees the next position",
)
def causal_mask(size, device=None):
    return ~torch.ones(size, size, dtype=torch.bool, device=device).triu(2)


@wrong(
    "ones and zeros instead of booleans",
    breaks="A mask (T, T), of dtype bool, a new one in each call.",
    name="wrong dtype",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).tril()


@wrong(
    "ignores device",
    breaks="device: the device to make the mask on.",
    name="mask on the wrong device",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong(
    "keeps its masks and returns them again",
    breaks="A mask (T, T), of dtype bool, a new one in each call.",
    name="the same tensor in each call",
)
@functools.lru_cache
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "a list of rows: for T = 0 the shape is (0,)",
    breaks="size: T, the number of positions; it may be 0.",
    name="wrong shape for size 0",
)
def causal_mask(size, device=None):
    rows = [[key <= query for key in range(size)] for query in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


@wrong(
    "cuts the mask out of one with 512 positions",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="longest length built in",
)
def causal_mask(size, device=None):
    full = torch.ones(512, 512, dtype=torch.bool, device=device).tril()
    return full[:size, :size].clone()


@wrong(
    "compares positions in bfloat16, which cannot tell 256 from 257",
    breaks="Positions and counts must be exact in every dtype.",
    name="positions rounded",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device).to(torch.bfloat16)
    return position <= position[:, None]
