import functools

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong


@right("a list of Python rows, reshaped so that it works for size 0")
def causal_mask(size, device=None):
    rows = [[key <= query for key in range(size)] for query in range(size)]
    flat = [allowed for row in rows for allowed in row]
    return torch.tensor(flat, dtype=torch.bool, device=device).reshape(size, size)


@right("starts with everything allowed and forbids pairs by their indices")
def causal_mask(size, device=None):
    mask = torch.full((size, size), True, device=device)
    for query in range(size):
        mask[query, query + 1 :] = False
    return mask


@right("keeps the zeros of a matrix of -inf above the diagonal")
def causal_mask(size, device=None):
    return torch.full((size, size), float("-inf"), device=device).triu(1) == 0


@right("running or: a one on the diagonal, summed along each row from the right")
def causal_mask(size, device=None, dtype=torch.bool):
    one = torch.eye(size, dtype=torch.long, device=device)
    return one.flip(1).cumsum(1).flip(1).to(dtype)


@wrong(
    "keeps the upper triangle: rows are keys and columns are queries, wrong from size 2 on",
    "Each row of the mask belongs to a query, and each column belongs to a key.",
    "rows and columns exchanged (looks at the future)",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    "True marks the pairs that are hidden, as torch's own Transformer has it",
    "True means that the query may attend to the key.",
    "mask inverted: True means hidden",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return position > position[:, None]


@wrong(
    "returns a float matrix of ones and zeros",
    "A mask (T, T), of dtype bool, made anew in each call.",
    "mask is not boolean",
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size, device=device))


@wrong(
    "never uses device; the mask is on the default device when another one is given",
    "device: the device to make the mask on.",
    "device argument ignored",
)
def causal_mask(size, device=None):
    position = torch.arange(size)
    return position <= position.unsqueeze(1)


@wrong(
    "torch.tensor of an empty list has shape (0,), not (0, 0), for size 0",
    "size: T, the number of positions; it may be 0.",
    "wrong shape for size 0",
)
def causal_mask(size, device=None):
    rows = [[True] * (t + 1) + [False] * (size - t - 1) for t in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


@wrong(
    "calls with the same size share one tensor: writing into one result changes the next",
    "A mask (T, T), of dtype bool, made anew in each call.",
    "one cached mask is handed out again and again",
)
@functools.lru_cache
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).tril().bool()


LARGEST = torch.ones(512, 512, dtype=torch.bool).tril()


@wrong(
    "cuts the mask out of a table for 512 positions, so a longer one is too small",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "fixed largest length",
)
def causal_mask(size, device=None):
    return LARGEST[:size, :size].clone().to(device or "cpu")


@wrong(
    "compares positions in bfloat16, where 256 and 257 are equal: position 256 sees 257",
    "Let position t attend to itself and to all earlier positions, but not to any later position.",
    "positions rounded, so long masks leak",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device).to(torch.bfloat16)
    return position[:, None] >= position[None, :]


MADE = {}


@wrong(
    "remembers masks by size only (and copies them): a second call with another device gets the first one's",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "cache ignores the device",
)
def causal_mask(size, device=None):
    if size not in MADE:
        MADE[size] = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return MADE[size].clone()


@wrong(
    "sizes 0 and 1 take a short cut that forgets the device",
    "device: the device to make the mask on.",
    "device forgotten for the smallest sizes",
)
def causal_mask(size, device=None):
    if size <= 1:  # nothing to hide
        return torch.ones(size, size, dtype=torch.bool)
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    rows, columns = torch.tril_indices(size, size, device=device)
    mask[rows, columns] = True
    return mask
