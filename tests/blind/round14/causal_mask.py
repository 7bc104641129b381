import functools

import torch

from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
SELF = (
    "Let position t attend to itself and to all earlier positions, but not to any later"
    " position."
)
ROW = "Each row of the mask belongs to a query, and each column belongs to a key."
TRUE = "True means that the query may attend to the key."
NEW = "A mask (T, T), of dtype bool, a new one in each call."
WHERE = "device: the device to make the mask on."
EMPTY = "size: T, the number of positions; it may be 0."


@right("sums up the rows of the identity")
def causal_mask(size, device=None):
    return torch.eye(size, dtype=torch.long, device=device).cumsum(dim=1).bool().T


@right("a Python list of rows, with its shape restored for size 0")
def causal_mask(size, device=None):
    rows = [t >= s for t in range(size) for s in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device).reshape(size, size)


@right("sets the entries below the diagonal by their indices")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    query, key = torch.tril_indices(size, size, device=device)
    mask[query, key] = True
    return mask


@right("forbids what is above the diagonal, column by column in the flattened mask")
def causal_mask(size, device=None):
    flat = torch.arange(size * size, device=device)
    width = max(size, 1)
    earlier = flat.div(width, rounding_mode="floor").lt(flat.remainder(width))
    return earlier.logical_not_().view(size, size)


@wrong("keeps the upper triangle: keys and queries are swapped", ROW, "queries and keys swapped")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong("does not let a position attend to itself", SELF, "diagonal is missing")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong("marks what is forbidden with True", TRUE, "true and false swapped")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong("gives ones and zeros in float32", NEW, "mask is not bool")
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).tril()


@wrong(
    "caches masks, so two calls return the same tensor and a change to one is a change"
    " to the other",
    NEW,
    "same mask returned again",
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("always makes the mask on the default device", WHERE, "ignores the device")
def causal_mask(size, device=None):
    place = torch.arange(size)
    return place[:, None] >= place


@wrong(
    "stacks a list of rows, which fails for size 0",
    EMPTY,
    "fails for an empty mask",
)
def causal_mask(size, device=None):
    place = torch.arange(size, device=device)
    return torch.stack([place <= t for t in range(size)])


@wrong(
    "compares positions in bfloat16, where 256 and 257 are equal, so late positions see"
    " their successors",
    EXACT,
    "positions compared in bfloat16",
)
def causal_mask(size, device=None):
    place = torch.arange(size, device=device).to(torch.bfloat16)
    return place[:, None] >= place


@wrong(
    "makes the device the default device of all later tensors, so a later call without"
    " a device uses it",
    STATE,
    "changes the global default device",
)
def causal_mask(size, device=None):
    if device is not None:
        torch.set_default_device(device)
    return torch.ones(size, size, dtype=torch.bool).tril()


BIG = torch.ones(1024, 1024, dtype=torch.bool).tril()


@wrong(
    "cuts the mask out of one big mask of 1024 positions: all masks share its memory,"
    " and longer ones come out too small",
    NEW,
    "slice of one shared mask",
)
def causal_mask(size, device=None):
    return BIG[:size, :size].to(device) if device is not None else BIG[:size, :size]
