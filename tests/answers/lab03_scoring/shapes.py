"""What answers of this lab share: shapes, numbers and masks, drawn at random."""

import torch


def shapes(g):
    """Batches of 1 to 3 axes, then queries, sources and a width."""
    for leading in ((), (3,), (1,), (4, 2), (2, 1, 3)):
        t, s, d = torch.randint(1, 9, (3,), generator=g).tolist()
        yield leading, t, s, d


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64) * 4 ** torch.rand(
        (), generator=g
    ).sub(0.5)


def masks(g, *shape):
    yield None
    for share in (0.0, 0.3, 0.9, 1.0):
        yield torch.rand(*shape, generator=g) < share
