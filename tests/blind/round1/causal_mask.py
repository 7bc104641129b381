import torch

from blind import right, wrong

ALLOW = "Allow position t to attend to the positions up to and including t."
SHAPE = "(T, T), of dtype bool."


@right("lower triangle of ones")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@right("positions compared")
def causal_mask(size, device=None):
    at = torch.arange(size, device=device)
    return torch.ge(at.unsqueeze(1), at)


@right("unit matrix summed downwards")
def causal_mask(size, device=None):
    return torch.eye(size, device=device, dtype=torch.int64).cumsum(dim=0).bool()


@right("row by row")
def causal_mask(size, device=None):
    allowed = torch.zeros(size, size, device=device) > 0
    for t in range(size):
        allowed[t, : t + 1] = True
    return allowed


@wrong(
    "upper triangle",
    breaks="Rows ask, columns are asked, and True means: may attend.",
    name="rows and columns swapped",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong("a position does not see itself", breaks=ALLOW, name="diagonal left out")
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


@wrong("numbers instead of booleans", breaks=SHAPE, name="mask is not boolean")
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size, device=device))


@wrong(
    "made on the default device",
    breaks="device: where the mask is made.",
    name="device ignored",
    subtle=True,
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong(
    "cut out of a table of 256 positions",
    breaks="size: T, in tokens.",
    name="table of a fixed size",
    subtle=True,
)
def causal_mask(size, device=None):
    return torch.ones(256, 256, dtype=torch.bool, device=device).tril()[:size, :size]


@wrong(
    "looks back 100 positions at most",
    breaks="So position t may look at itself and at what came before it, and at nothing after it.",
    name="window in a long sentence",
    subtle=True,
)
def causal_mask(size, device=None):
    at = torch.arange(size, device=device)
    back = at[:, None] - at
    return (back >= 0) & (back < 100)


@wrong("squeezed: no axes for T = 1", breaks=SHAPE, name="shape lost for size 1", subtle=True)
def causal_mask(size, device=None):
    return torch.ones(1, size, size, dtype=torch.bool, device=device).tril().squeeze()


@wrong(
    "positions in half precision: 2048 and 2049 are the same",
    breaks="So position t may look at itself and at what came before it, and at nothing after it.",
    name="positions rounded",
    subtle=True,
)
def causal_mask(size, device=None):
    at = torch.arange(size, device=device).half()
    return at[:, None] >= at


KEPT = {}


@wrong(
    "hands out the same tensor again: whoever changed it changed it for all",
    breaks=ALLOW,
    name="state kept between calls",
    subtle=True,
)
def causal_mask(size, device=None):
    key = size, str(device)
    if key not in KEPT:
        KEPT[key] = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return KEPT[key]


@wrong("no positions become one", breaks=SHAPE, name="size 0", subtle=True)
def causal_mask(size, device=None):
    size = max(size, 1)
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()
