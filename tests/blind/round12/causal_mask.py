import functools
import math
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong

LOOK = "Let position t attend to itself and to all earlier positions, but not to any later position."
ROWS = "Each row of the mask belongs to a query, and each column belongs to a key."
TRUE = "True means that the query may attend to the key."
SHAPE = "A mask (T, T), of dtype bool, a new one in each call."
ZERO = "size: T, the number of positions; it may be 0."
DEVICE = "Make the mask on `device`, with the dtype `torch.bool`."
EXACT = "Positions and counts, however, must be exact in every dtype."
LENGTHS = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."


# wrong, plain


@wrong(
    "keeps the upper triangle, so a position attends to itself and to later ones",
    ROWS,
    "rows and columns exchanged",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    "leaves out the diagonal, so a position does not attend to itself",
    LOOK,
    "position itself is forbidden",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong(
    "True where attending is forbidden",
    TRUE,
    "mask inverted",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong(
    "a mask of floats to be added, 0 and -inf",
    DEVICE,
    "additive mask in place of a bool mask",
)
def causal_mask(size, device=None):
    return torch.full((size, size), float("-inf"), device=device).triu(1)


# wrong, subtle


@wrong(
    "remembers the mask of each size, and returns the same tensor in the next call",
    SHAPE,
    "the same mask in every call",
    subtle=True,
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "stacks a list of rows, which is empty for size 0, and raises an error there",
    ZERO,
    "fails for size 0",
    subtle=True,
)
def causal_mask(size, device=None):
    positions = torch.arange(size, device=device)
    return torch.stack([positions <= t for t in range(size)])


@wrong(
    "positions in float16: from 2048 up, two neighbours are the same number",
    EXACT,
    "inexact positions in long masks",
    subtle=True,
)
def causal_mask(size, device=None):
    positions = torch.arange(size, dtype=torch.float16, device=device)
    return positions[:, None] >= positions


@wrong(
    "ignores the device, so that the mask is always on the CPU",
    DEVICE,
    "mask on the wrong device",
    subtle=True,
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones((size, size), dtype=torch.bool))


@wrong(
    "cuts the mask out of one of 1024 positions: longer ones are too small",
    LENGTHS,
    "a largest length",
    subtle=True,
)
def causal_mask(size, device=None):
    longest = 1024
    whole = torch.ones(longest, longest, dtype=torch.bool, device=device).tril()
    return whole[:size, :size].clone()


@wrong(
    "squeezes at the end, so that one position gives a mask without axes",
    SHAPE,
    "loses the axes of length one",
    subtle=True,
)
def causal_mask(size, device=None):
    positions = torch.arange(size, device=device).view(1, size, 1)
    return (positions >= positions.transpose(1, 2)).squeeze()


# right


@right("writes row by row into zeros")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right("sums an identity matrix down its columns")
def causal_mask(size, device=None):
    return torch.eye(size, dtype=torch.long, device=device).cumsum(0) > 0


@right("indices of the triangle, and index_put")
def causal_mask(size, device=None):
    rows, columns = torch.tril_indices(size, size, device=device)
    mask = torch.zeros((size, size), device=device, dtype=torch.bool)
    mask[rows, columns] = True
    return mask


@right("an additive mask first, which is then compared with 0, and transposed twice")
def causal_mask(size, device=None):
    later = torch.full((size, size), -math.inf, device=device).triu(1)
    return later.T.eq(0).T.contiguous()
