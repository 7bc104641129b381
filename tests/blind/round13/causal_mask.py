import functools

import torch

from blind import right, wrong


# Right answers


@right("a running sum over the identity matrix")
def causal_mask(size, device=None):
    return torch.eye(size, dtype=torch.long, device=device).cumsum(dim=0) > 0


@right("numbers all T * T cells in one row, and finds row and column by division")
def causal_mask(size, device=None):
    cell = torch.arange(size * size, device=device)
    width = max(size, 1)  # nothing is divided by zero
    row = torch.div(cell, width, rounding_mode="floor")
    column = cell - row * width
    return (column <= row).reshape(size, size)


@right("writes True at the indices of the lower triangle")
def causal_mask(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    row, column = torch.tril_indices(size, size, device=device)
    mask[row, column] = True
    return mask


@right("forbids the future row by row, in a Python loop")
def causal_mask(size, device=None):
    mask = torch.full((size, size), True, device=device)
    for t in range(size):
        mask[t, t + 1 :] = False
    return mask


# Wrong answers


@wrong(
    "keeps the upper triangle: position t attends to itself and to all later ones",
    "Let position t attend to itself and to all earlier positions, but not to any "
    "later position.",
    "upper triangle instead of the lower one",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    "leaves out the diagonal: position t does not attend to itself",
    "Let position t attend to itself and to all earlier positions, but not to any "
    "later position.",
    "a position does not see itself",
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return position[:, None] > position


@wrong(
    "True marks what is forbidden, as in the masks of nn.Transformer",
    "True means that the query may attend to the key.",
    "True and False exchanged",
)
def causal_mask(size, device=None):
    return torch.triu(
        torch.ones(size, size, dtype=torch.bool, device=device), diagonal=1
    )


@wrong(
    "returns ones and zeros of dtype float32",
    "A mask (T, T), of dtype bool, a new one in each call.",
    "the mask is not of dtype bool",
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size, device=device))


@wrong(
    "ignores the device, and makes the mask on the default device",
    "device: the device to make the mask on.",
    "the mask is on the wrong device",
    subtle=True,
)
def causal_mask(size, device=None):
    position = torch.arange(size)
    return position[:, None] >= position[None, :]


@wrong(
    "keeps the masks in a cache, and returns the same tensor for the same arguments, "
    "so that who changes one mask changes those of later calls",
    "A mask (T, T), of dtype bool, a new one in each call.",
    "the same tensor again, not a new one",
    subtle=True,
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "stacks a list of rows; with T = 0 the list is empty, and torch.stack raises",
    "size: T, the number of positions; it may be 0.",
    "fails for no positions at all",
    subtle=True,
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    return torch.stack([position <= t for t in range(size)])


@wrong(
    "compares positions in bfloat16, where 257 is 256: from T = 258 on, some positions "
    "see the next one",
    "Positions and counts, however, must be exact in every dtype.",
    "positions are rounded in bfloat16",
    subtle=True,
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device).to(torch.bfloat16)
    return position.unsqueeze(1) >= position.unsqueeze(0)


_masks = {}


@wrong(
    "keeps masks by their size alone, and returns a copy: a mask of a size that was "
    "asked for earlier is on the device of that earlier call",
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class.",
    "a cache that forgets the device",
    subtle=True,
)
def causal_mask(size, device=None):
    if size not in _masks:
        _masks[size] = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return _masks[size].clone()


@wrong(
    "squeezes the axes that it has added, and with T = 1 the others too: the mask then "
    "has the shape ()",
    "A mask (T, T), of dtype bool, a new one in each call.",
    "squeeze removes axes of length one that belong to the mask",
    subtle=True,
)
def causal_mask(size, device=None):
    position = torch.arange(size, device=device)
    mask = position[None, :, None] >= position[None, None, :]
    return mask.squeeze()
