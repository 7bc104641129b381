"""What answers of this lab share: texts and ids, drawn at random."""

import torch


def rows_of_letters(texts):
    width = max((len(text) for text in texts), default=0)
    return torch.tensor(
        [[*map(ord, text), *[0] * (width - len(text))] for text in texts]
    ).reshape(len(texts), width)


def draw(g, *shape, low=4, high=11):
    return torch.randint(low, high, shape, generator=g)
