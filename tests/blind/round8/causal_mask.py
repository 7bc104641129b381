import functools

import torch

from blind import right, wrong


@right("a loop that fills the beginning of each row")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right("compares the positions of queries and keys")
def causal_mask(size, device=None):
    t = torch.arange(size, device=device)
    return t[None, :] <= t[:, None]


@right("complement of the upper triangle")
def causal_mask(size, device=None):
    later = torch.full((size, size), True, device=device).triu(diagonal=1)
    return later.logical_not()


@right("running count of the identity matrix: a column is open from its own row on")
def causal_mask(size, device=None):
    return torch.eye(size, device=device, dtype=torch.int64).cumsum(dim=0) > 0


@wrong(
    "upper triangle: rows and columns exchanged; wrong for T > 1",
    "Each row of the mask belongs to a query's position, and each column to a key's position.",
    "mask is transposed",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    "without the diagonal: a position may not look at itself; the first row is empty",
    "Allow position t to attend to the positions up to and including t.",
    "diagonal is missing",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong(
    "True where looking is forbidden, the convention of nn.Transformer",
    "True means that the query may attend to the key.",
    "True and False exchanged",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong(
    "stacks rows from a list: for T = 0 the list is empty and stack raises",
    "size: T, in tokens; it may be 0.",
    "fails for size zero",
)
def causal_mask(size, device=None):
    rows = [torch.arange(size, device=device) <= t for t in range(size)]
    return torch.stack(rows)


@wrong(
    "the mask is always made on the default device; wrong for every other device, such as a GPU or meta",
    "device: where the mask is made.",
    "device ignored",
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size, dtype=torch.bool))


@wrong(
    "cut from a table of 1024 positions: larger sizes return a mask that is too small",
    "A new mask (T, T), of dtype bool.",
    "fixed largest size",
)
def causal_mask(size, device=None):
    table = torch.ones(1024, 1024, dtype=torch.bool, device=device).tril()
    return table[:size, :size].clone()


@wrong(
    "positions in bytes (uint8): from size 257 on they start again at 0, so late queries lose keys and early ones see the future",
    "Allow position t to attend to the positions up to and including t.",
    "positions overflow a small dtype",
)
def causal_mask(size, device=None):
    t = (torch.arange(size, device=device) % 256).to(torch.uint8)
    return t[:, None] >= t


@functools.lru_cache
def _made(size, device):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "returns the same tensor for the same size each time: if a caller writes into it, later masks are wrong",
    "A new mask (T, T), of dtype bool.",
    "cached mask is shared",
)
def causal_mask(size, device=None):
    return _made(size, device)


_big = {}


@wrong(
    "returns views of one growing mask: right numbers, but masks of different sizes share memory, a write into one changes the others",
    "A new mask (T, T), of dtype bool.",
    "masks share memory",
)
def causal_mask(size, device=None):
    big = _big.get(str(device))
    if big is None or len(big) < size:
        big = torch.ones(2 * size, 2 * size, dtype=torch.bool, device=device).tril()
        _big[str(device)] = big
    return big[:size, :size]


@wrong(
    "compares positions in half precision: from position 2048 on, neighbours round to the same number and the next key is open",
    "Allow position t to attend to the positions up to and including t.",
    "comparison in a narrow float dtype",
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device).to(torch.float16)
    return t[:, None] - t[None, :] > -0.5
