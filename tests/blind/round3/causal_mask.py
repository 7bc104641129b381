import functools

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("the float mask of nn.Transformer, compared with 0")
def causal_mask(size, device=None):
    return nn.Transformer.generate_square_subsequent_mask(size, device=device) == 0


@right("ones on the diagonal, carried on downwards by cumsum")
def causal_mask(size, device=None):
    return torch.eye(size, device=device, dtype=torch.uint8).cumsum(dim=0) > 0


@right("all False, and then row by row a slice of True")
def causal_mask(size, device=None):
    mask = torch.zeros((size, size), dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right("what does not come later: comparison of numbered cells, column <= row")
def causal_mask(size, device=None):
    cell = torch.arange(size * size, device=device).view(size, size)
    row = torch.div(cell, max(size, 1), rounding_mode="floor")
    return ~(cell - row * size > row)


# ---------------------------------------------------------------- wrong


@wrong(
    "keeps the upper triangle: rows are asked, columns ask",
    breaks="Rows ask, columns are asked",
    name="rows and columns exchanged",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


@wrong(
    "a position may not look at itself",
    breaks="So position t may look at itself and at what came before it, and at nothing after it.",
    name="itself left out",
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] > t


@wrong(
    "True where attention is forbidden, as nn.Transformer wants it",
    breaks="True means: may attend",
    name="True means forbidden",
)
def causal_mask(size, device=None):
    return torch.ones(size, size, device=device).triu(diagonal=1).bool()


@wrong(
    "a lower triangle of floats",
    breaks="A new mask (T, T), of dtype bool.",
    name="a mask of floats",
    subtle=True,
)
def causal_mask(size, device=None):
    return torch.tril(torch.ones(size, size, device=device))


@wrong(
    "made on the default device",
    breaks="device: where the mask is made.",
    name="device ignored",
    subtle=True,
)
def causal_mask(size, device=None):
    return torch.ones(size, size).tril().bool()


@wrong(
    "stacks rows, of which there are none if T is 0",
    breaks="size: T, in tokens; it may be 0.",
    name="no mask of size 0",
    subtle=True,
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device)
    return torch.stack([t <= row for row in range(size)])


@wrong(
    "keeps masks for the next call: who changes one changes all later ones",
    breaks="A new mask (T, T), of dtype bool.",
    name="the same mask twice",
    subtle=True,
)
@functools.lru_cache(maxsize=None)
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong(
    "counts in half precision to save memory: from 2048 on neighbours are the same",
    breaks="at nothing after it",
    name="positions in half precision",
    subtle=True,
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device).to(torch.float16)
    return t[:, None] >= t[None, :]


@wrong(
    "squeezes: a mask of one token has no axes",
    breaks="A new mask (T, T), of dtype bool.",
    name="squeeze takes axes of length one away",
    subtle=True,
)
def causal_mask(size, device=None):
    t = torch.arange(size, device=device)
    return (t.view(1, -1, 1) >= t.view(1, 1, -1)).squeeze()


_BIG = torch.ones(1024, 1024, dtype=torch.bool).tril()


@wrong(
    "cuts a corner out of one large mask made beforehand: no new mask, and an end at 1024",
    breaks="A new mask (T, T), of dtype bool.",
    name="a window on a shared mask",
    subtle=True,
)
def causal_mask(size, device=None):
    return _BIG[:size, :size].to(device)
