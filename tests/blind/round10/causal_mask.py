import functools

import torch
from blind import right, wrong


@right("compares each query's number with each key's number")
def causal_mask(size, device=None):
    key = torch.arange(size, device=device)
    query = key.unsqueeze(1)
    return query >= key


@right("fills a matrix of False row by row in a Python loop")
def causal_mask(size, device=None):
    mask = torch.zeros((size, size), dtype=torch.bool, device=device)
    for query in range(size):
        mask[query, : query + 1] = True
    return mask


@right("running sum down the columns of the identity: a key stays on once it was on")
def causal_mask(size, device=None):
    on = torch.eye(size, dtype=torch.long, device=device).cumsum(dim=0)
    return on > 0


@right("starts with everything allowed and forbids the index pairs above the diagonal")
def causal_mask(size, device=None, allowed=True):
    mask = torch.full((size, size), allowed, dtype=torch.bool, device=device)
    row, column = torch.triu_indices(size, size, offset=1, device=device)
    mask[row, column] = not allowed
    return mask


@wrong(
    "the upper triangle instead of the lower one: from size 2 on, later positions are"
    " allowed and earlier ones are not",
    "Let position t attend to itself and to all earlier positions, but not to any later"
    " position.",
    "Triangle on the wrong side",
)
def causal_mask(size, device=None):
    return torch.triu(torch.ones(size, size, dtype=torch.bool, device=device))


@wrong(
    "the diagonal is left out: no position attends to itself, for every size from 1",
    "Let position t attend to itself and to all earlier positions, but not to any later"
    " position.",
    "A position may not attend to itself",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return position.unsqueeze(1) > position


@wrong(
    "ones and zeros of dtype float32 instead of True and False",
    "A mask (T, T), of dtype bool, made anew in each call.",
    "Mask of floats instead of bool",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).tril()


@wrong(
    "the mask is always made on the default device; wrong for any other `device`",
    "device: the device to make the mask on.",
    "Ignores the argument device",
)
def causal_mask(size, device=None):
    return torch.ones(size, size).tril().bool()


@wrong(
    "stacks a list of rows, which raises for size 0 because the list is empty",
    "size: T, the number of positions; it may be 0.",
    "Fails for zero positions",
)
def causal_mask(size, device=None):
    rows = [torch.arange(size, device=device) <= t for t in range(size)]
    return torch.stack(rows)


@wrong(
    "the positions are float16 numbers, which cannot tell 2048 from 2049: a size above"
    " 2049 lets some positions look one or more positions ahead",
    "Let position t attend to itself and to all earlier positions, but not to any later"
    " position.",
    "Positions in half precision, wrong for long masks",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device).half()
    return position[:, None] >= position[None, :]


@wrong(
    "memoised: the second call with the same arguments returns the same tensor, so a"
    " change to the first result is seen in the second",
    "A mask (T, T), of dtype bool, made anew in each call.",
    "Returns a cached tensor",
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "compares float32 fractions that were rounded in two different ways: for most small"
    " sizes it is right, for others (26 is the first) entries on the diagonal are False",
    "Let position t attend to itself and to all earlier positions, but not to any later"
    " position.",
    "Compares rounded fractions on the diagonal",
)
def causal_mask(size, device=None):
    key = torch.linspace(0, 1, size, device=device)
    query = torch.arange(size, device=device) * (1 / max(size - 1, 1))
    return query.unsqueeze(1) >= key


@wrong(
    "sets the default device of the whole process: a call with device='meta' (or a GPU)"
    " makes later calls without a device return masks there, and not on the default"
    " device as before",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "Changes the global default device",
)
def causal_mask(size, device=None):
    if device is not None:
        torch.set_default_device(device)
    return torch.ones(size, size, dtype=torch.bool).tril()


_LARGEST = {}


@wrong(
    "cuts a piece out of a mask that it keeps per device: a new tensor object each time,"
    " but all of them share memory, so writing into one changes the next",
    "A mask (T, T), of dtype bool, made anew in each call.",
    "Returns a view of a kept mask",
)
def causal_mask(size, device=None):
    kept = _LARGEST.get(str(device))
    if kept is None or len(kept) < size:
        length = max(2 * size, 64)
        kept = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        _LARGEST[str(device)] = kept
    return kept[:size, :size]
