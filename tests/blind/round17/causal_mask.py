import torch

from blind import right, wrong

EARLIER = "Let position t attend to itself and to all earlier positions, but not to any later position."
AXES = "Each row of the mask belongs to a query, and each column belongs to a key."
TRUE = "True means that the query may attend to the key."
ZERO = "size: T, the number of positions; it may be 0."
DEVICE = "device: the device to make the mask on."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
COUNTS = "Positions and counts must be exact in every dtype."


# ---------------------------------------------------------------- right answers


@right("the running sum of the identity, row by row")
def causal_mask(size, device=None):
    return torch.eye(size, device=device).cumsum(dim=0) > 0


@right("row and column from the number of the cell")
def causal_mask(size, device=None):
    cell = torch.arange(size * size, device=device)
    width = max(size, 1)
    row = torch.div(cell, width, rounding_mode="floor")
    return (cell - row * width <= row).reshape(size, size)


@right("opens one row after the other")
def causal_mask(size, device=None):
    mask = torch.zeros((size, size), dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right("forbids the strict upper triangle of the transpose of a transpose")
def causal_mask(size, device=None):
    later = torch.ones((size, size), dtype=torch.bool, device=device).tril(-1)
    return later.mT.logical_not()


# ---------------------------------------------------------------- wrong answers


@wrong("keeps the upper triangle", breaks=AXES, name="rows and columns swapped")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong("only earlier positions", breaks=EARLIER, name="no position attends to itself")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong("True where attention is forbidden", breaks=TRUE, name="inverted mask")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong(
    "an additive mask of 0 and minus infinity",
    breaks="A mask (T, T), of dtype bool",
    name="float mask",
)
def causal_mask(size, device=None):
    return torch.full((size, size), float("-inf"), device=device).triu(1)


@wrong(
    "compares positions in float16, which stops being exact at 2048",
    breaks=COUNTS,
    name="half-precision positions",
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device).to(torch.float16)
    return t[:, None] >= t


@wrong(
    "a nested list, turned into a tensor",
    breaks=ZERO,
    name="(0,) instead of (0, 0)",
)
def causal_mask(size, device=None):
    rows = [[s <= t for s in range(size)] for t in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


_triangles = {}


@wrong(
    "cuts each mask from a triangle that is kept for later calls",
    breaks="a new one in each call.",
    name="all masks share memory",
)
def causal_mask(size, device=None):
    kept = _triangles.get(str(device))
    if kept is None or len(kept) < size:
        kept = torch.ones(size, size, dtype=torch.bool, device=device).tril()
        _triangles[str(device)] = kept
    return kept[:size, :size]


@wrong(
    "returns early for 0 positions, without the device",
    breaks=DEVICE,
    name="the empty mask is on the CPU",
)
def causal_mask(size, device=None):
    if size == 0:
        return torch.zeros(0, 0, dtype=torch.bool)
    t = torch.arange(size, device=device)
    return t.unsqueeze(1) >= t


@wrong(
    "looks back at most 1024 positions",
    breaks="Let position t attend to itself and to all earlier positions",
    name="a window",
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device)
    back = t[:, None] - t
    return (back >= 0) & (back <= 1024)


@wrong(
    "squeezes the mask at the end",
    breaks=LENGTHS,
    name="a single position has no axes left",
)
def causal_mask(size, device=None):
    mask = torch.ones(1, size, size, dtype=torch.bool, device=device).tril()
    return mask.squeeze()
