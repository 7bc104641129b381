"""What answers of this lab share: lengths, sizes and parameters, drawn at random."""

import torch
from answers.core import draw
from answers.lab04_alignment.shared import sizes

from nbjudge.question import Request

LAST_COLUMN = "the last column is taken for the final state"


def some_lengths(g, batch, size):
    return torch.randint(1, size + 1, (batch,), generator=g).index_fill(
        0, torch.tensor(batch - 1), size
    )


def gru(g, name, layer, reads, hidden):
    shapes = {"ih": (3 * hidden, reads), "hh": (3 * hidden, hidden)}
    weights = {
        f"{name}.weight_{which}_{layer}": draw(g, *shape) / 2
        for which, shape in shapes.items()
    }
    return weights | {
        f"{name}.bias_{which}_{layer}": draw(g, 3 * hidden) / 2 for which in shapes
    }


def shared(g, v, m, d, e):
    linear = {"bridge": (d, e), "head": (v, d)}
    weights = {f"{name}.weight": draw(g, *shape) / 2 for name, shape in linear.items()}
    return (
        weights
        | {f"{name}.bias": draw(g, shape[0]) for name, shape in linear.items()}
        | {"embedding.weight": draw(g, v, m)}
    )


def any_step(g, told):
    for b, t, v, m, d, e, _ in sizes(g):
        inputs = (
            torch.randint(v, (b, t), generator=g),
            draw(g, b, d),
            draw(g, b, 1, e),
            draw(g, b, d),
        )
        weights = shared(g, v, m, d, e) | gru(g, "rnn", "l0", m + e * told, d)
        yield Request(inputs, (v, m, d, e), weights, gradients=True)
