from functools import lru_cache

import torch

from blind import right, wrong


@right("compares positions")
def causal_mask(size, device=None):
    at = torch.arange(size, device=device)
    return at.unsqueeze(1) >= at


@right("python lists, one row after the other")
def causal_mask(size, device=None):
    rows = [[column <= row for column in range(size)] for row in range(size)]
    return torch.tensor(rows, dtype=torch.bool, device=device).reshape(size, size)


@right("running sum of an identity, down the rows")
def causal_mask(size, device=None):
    return torch.eye(size, device=device).cumsum(0).bool()


@right("the opposite of the strict upper triangle")
def causal_mask(size, device=None):
    future = torch.ones(size, size, device=device, dtype=torch.uint8).triu(diagonal=1)
    return future.logical_not()


LOOK = "Allow position t to attend to the positions up to and including t."
NEW = "A new mask (T, T), of dtype bool."


@wrong("strictly before", breaks=LOOK, name="a position may not see itself", subtle=False)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong("upper triangle", breaks="So position t may look at itself and at what came before it,\nand at nothing after it.", name="the mask is upside down", subtle=False)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong("True means forbidden", breaks="Rows ask, columns are asked, and True means: may attend.", name="True and False changed places", subtle=False)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


@wrong("the device is not passed on", breaks="device: where the mask is made.", name="device ignored", subtle=True)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong("at least one position", breaks="size: T, in tokens; it may be 0.", name="size 0 gives (1, 1)", subtle=True)
def causal_mask(size, device=None):
    size = max(size, 1)
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("the same tensor is handed out again", breaks=NEW, name="shared mask", subtle=True)
@lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("positions kept in int8", breaks=LOOK, name="positions overflow from 128 on", subtle=True)
def causal_mask(size, device=None):
    at = torch.arange(size, device=device).to(torch.int8)
    return at[:, None] >= at[None]


@wrong("cut out of a mask for 100 positions", breaks=NEW, name="a largest size nobody asked for", subtle=True)
def causal_mask(size, device=None):
    longest = torch.ones(100, 100, dtype=torch.bool, device=device).tril()
    return longest[:size, :size].clone()


@wrong("axes of length one are squeezed away", breaks=NEW, name="size 1 gives a mask without axes", subtle=True)
def causal_mask(size, device=None):
    at = torch.arange(size, device=device)
    return (at.view(1, -1, 1) >= at.view(1, 1, -1)).squeeze()


@wrong("bool only if no device is named", breaks=NEW, name="float where a device is given", subtle=True)
def causal_mask(size, device=None):
    if device is None:
        return torch.ones(size, size, dtype=torch.bool).tril()
    return torch.tril(torch.ones(size, size, device=device))
