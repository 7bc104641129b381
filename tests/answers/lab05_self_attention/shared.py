"""What answers of this lab share: shapes, masks and maps, drawn at random."""

import torch
from answers.core import draw

PLACES = "right numbers in the wrong places"


def sizes(g):
    for b in (1, 2, 3, 4):
        for t in (1, 2, 6):
            yield b, t, *torch.randint(1, 6, (3,), generator=g).tolist()


def maps(g, dim, *names):
    weights = {f"{name}_proj.weight": draw(g, dim, dim) / dim**0.5 for name in names}
    return weights | {f"{name}_proj.bias": draw(g, dim) for name in names}


def masks(g, b, t, s):
    yield None
    for shape in ((t, s), (b, t, s), (b, 1, s)):
        yield torch.rand(*shape, generator=g) < 0.6
