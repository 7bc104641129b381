import functools
import math

import torch
from torch import nn
from blind import right, wrong


@right('positions compared with positions')
def causal_mask(size, device=None):
    t = torch.arange(size, device=device)
    return t.unsqueeze(1) >= t


@right('row after row is filled in a loop')
def causal_mask(size, device=None):
    mask = torch.zeros((size, size), dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right('not what stands above the diagonal')
def causal_mask(size, device=None):
    later = torch.ones(size, size, dtype=torch.bool, device=device).triu(diagonal=1)
    return torch.logical_not(later)


@right('the ids of the lower triangle are set to True')
def causal_mask(size, device=None):
    rows, columns = torch.tril_indices(size, size, device=device)
    mask = torch.full((size, size), False, device=device)
    mask[rows, columns] = True
    return mask


@wrong(
    'rows and columns exchanged: position t sees itself and what comes after',
    'A row of the mask belongs to a position that asks, a column to a position that is asked, and True means: may attend.',
    'upper instead of lower triangle',
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    'the diagonal is missing: no position sees itself, the first one sees nothing',
    'So position t may look at itself and at what came before it,',
    'diagonal forbidden',
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong(
    'True where looking is forbidden',
    'A row of the mask belongs to a position that asks, a column to a position that is asked, and True means: may attend.',
    'mask is the wrong way round',
)
def causal_mask(size, device=None):
    return torch.triu(torch.ones(size, size, device=device), diagonal=1).bool()


@wrong(
    'ones and zeros in float32 instead of booleans',
    'A new mask (T, T), of dtype bool.',
    'mask of numbers instead of booleans',
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size, device=device))


@wrong(
    'device is not used: the mask is always made on the CPU',
    'device: where the mask is made.',
    'device ignored',
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong(
    'made from a list of lists: with size 0 the list is empty and the mask has the shape (0,) instead of (0, 0)',
    'size: T, in tokens; it may be 0.',
    'wrong shape for size 0',
)
def causal_mask(size, device=None):
    rows = [[s <= t for s in range(size)] for t in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


@wrong(
    'positions are counted in eight bits: from 257 positions on they begin anew at 0',
    'So position t may look at itself and at what came before it,',
    'positions overflow in eight bits',
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device).to(torch.uint8)
    return t[:, None] >= t


@wrong(
    'the same tensor is returned for the same arguments: who changes one mask changes all later ones',
    'A new mask (T, T), of dtype bool.',
    'cached mask is shared between calls',
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


STORED = {}


@wrong(
    'copies of a stored mask by size: a second call for the same size on another device gets the first device',
    'device: where the mask is made.',
    'stored mask forgets the device',
)
def causal_mask(size, device=None):
    if size not in STORED:
        STORED[size] = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return STORED[size].clone()


LARGEST = torch.ones(1024, 1024, dtype=torch.bool).tril()


@wrong(
    'cut out of a matrix with 1024 rows: larger sizes get a mask (1024, 1024), and writing into a mask writes into the matrix',
    'A new mask (T, T), of dtype bool.',
    'slice of one fixed matrix',
)
def causal_mask(size, device=None):
    return LARGEST[:size, :size].to(device)
