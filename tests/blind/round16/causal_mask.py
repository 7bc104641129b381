import functools

import torch

from blind import right, wrong

LET = "Let position t attend to itself and to all earlier positions, but not to any later position."
TRUE = "True means that the query may attend to the key."
ROWS = "Each row of the mask belongs to a query, and each column belongs to a key."
EMPTY = "size: T, the number of positions; it may be 0."
DEVICE = "device: the device to make the mask on."
NEW = "A mask (T, T), of dtype bool, a new one in each call."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
EXACT = "Positions and counts must be exact in every dtype."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


@right("sums the rows of the identity matrix from the top")
def causal_mask(size, device=None):
    return torch.eye(size, dtype=torch.long, device=device).cumsum(0).bool()


@right("writes True at the places that tril_indices lists")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    row, column = torch.tril_indices(size, size, device=device)
    mask[row, column] = True
    return mask


@right("forbids the future (triu) and turns the mask over")
def causal_mask(size, device=None):
    return torch.full((size, size), True, device=device).triu(diagonal=1).logical_not()


@right("plain Python lists, with a reshape for size 0")
def causal_mask(size, device=None):
    rows = [[key <= query for key in range(size)] for query in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device).reshape(size, size)


@wrong("upper triangle: rows are keys and columns are queries", breaks=ROWS, name="mask transposed")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong("leaves out the diagonal", breaks=LET, name="position does not see itself")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong("True where it is forbidden to attend, as in nn.Transformer", breaks=TRUE, name="True means forbidden")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong("ones and zeros of dtype float32", breaks=NEW, name="mask is not boolean")
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).tril()


@functools.lru_cache(maxsize=None)
def made_once(size, device):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("keeps the masks with lru_cache: every call returns the same tensor, which a caller may have changed",
       breaks=NEW, name="same mask object in each call")
def causal_mask(size, device=None):
    return made_once(size, device)


@wrong("makes the mask on the CPU, whatever the device", breaks=DEVICE, name="device ignored")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong("stacks one row per position, which fails for size 0", breaks=EMPTY, name="no mask of size 0")
def causal_mask(size, device=None):
    key = torch.arange(size, device=device)
    return torch.stack([key <= query for query in range(size)])


@wrong("compares positions in bfloat16: position 256 sees position 257", breaks=EXACT, name="positions in bfloat16")
def causal_mask(size, device=None):
    t = torch.arange(size, device=device).to(torch.bfloat16)
    return t <= t[:, None]


@wrong("cuts a corner out of a table of 1024 positions (and copies it): larger sizes come out as 1024",
       breaks=LENGTHS, name="largest length 1024")
def causal_mask(size, device=None):
    table = torch.ones(1024, 1024, dtype=torch.bool, device=device).tril()
    return table[:size, :size].clone()


KEPT = {}


@wrong("keeps a mask per size and returns a copy of it; a second call for another device gets the first device",
       breaks=CALLS, name="kept mask without its device")
def causal_mask(size, device=None):
    if size not in KEPT:
        KEPT[size] = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return KEPT[size].clone()
