import functools

import numpy as np
import torch

from blind import right, wrong


@right("running sum down the columns of the identity matrix")
def causal_mask(size, device=None):
    diagonal = torch.eye(size, dtype=torch.long, device=device)
    return diagonal.cumsum(dim=0) == 1


@right("numpy.tri, copied into a tensor")
def causal_mask(size, device=None):
    return torch.tensor(np.tri(size, dtype=bool), dtype=torch.bool, device=device)


@right("fills row by row in a loop, from an empty mask")
def causal_mask(size, device=None):
    mask = torch.zeros((size, size), dtype=torch.bool, device=device)
    for query in range(size):
        mask[query].narrow(0, 0, query + 1).fill_(True)
    return mask


@right("minus infinity above the diagonal, then asks what is finite")
def causal_mask(size, device=None):
    scores = torch.full((size, size), float("-inf"), device=device)
    return torch.triu(scores, diagonal=1).isfinite()


@wrong(
    "leaves out the diagonal: a position may not attend to itself",
    "Let position t attend to itself and to all earlier positions, but not to any later position.",
    "the diagonal is missing",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong(
    "rows are keys and columns are queries",
    "Each row of the mask belongs to a query, and each column belongs to a key.",
    "the mask is transposed",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return position[:, None] <= position


@wrong(
    "True means that the key is hidden, as in torch's nn.MultiheadAttention",
    "True means that the query may attend to the key.",
    "the mask is inverted",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).triu(diagonal=1).bool()


@wrong(
    "remembers its masks with lru_cache and hands out the same tensor again",
    "A mask (T, T), of dtype bool, a new one in each call.",
    "the same tensor in two calls",
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "ignores device and always makes the mask on the default device",
    "device: the device to make the mask on.",
    "device ignored",
)
def causal_mask(size, device=None):
    position = torch.arange(size)
    return position.unsqueeze(1) >= position.unsqueeze(0)


@wrong(
    "compares positions in bfloat16, in which 257 is 256",
    "Positions and counts, however, must be exact in every dtype.",
    "positions rounded in a short dtype",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device).to(torch.bfloat16)
    return position[:, None] >= position[None, :]


@wrong(
    "makes the mask from nested lists, which for size 0 gives shape (0,)",
    "size: T, the number of positions; it may be 0.",
    "wrong shape for size 0",
)
def causal_mask(size, device=None):
    rows = [[key <= query for key in range(size)] for query in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


_LARGEST = torch.ones(512, 512, dtype=torch.bool).tril()


@wrong(
    "cuts the mask out of a fixed one with 512 positions; longer masks come out too small",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "a largest length built in",
)
def causal_mask(size, device=None):
    mask = _LARGEST[:size, :size].clone()
    return mask if device is None else mask.to(device)


_grown = {}


@wrong(
    "hands out views of one growing mask per device: whoever writes into one mask writes into all others",
    "A mask (T, T), of dtype bool, a new one in each call.",
    "masks of different calls share memory",
)
def causal_mask(size, device=None):
    kept = _grown.get(str(device))
    if kept is None or kept.shape[0] < size:
        kept = torch.ones(size, size, dtype=torch.bool, device=device).tril()
        _grown[str(device)] = kept
    return kept[:size, :size]


_by_size = {}


@wrong(
    "keeps a mask per size, but not per device: a later call gets a copy on the first call's device",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "remembers a mask of another device",
)
def causal_mask(size, device=None):
    if size not in _by_size:
        ones = torch.ones(size, size, dtype=torch.bool, device=device)
        _by_size[size] = torch.tril(ones)
    return _by_size[size].clone()
