"""split_heads: every vector is cut into a piece per head."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attention_labs.lab05_self_attention.hints import (
    DH,
    HEADS,
    MIXED,
    B,
    H,
    T,
    same_numbers_elsewhere,
)
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    as_length,
    good_manners,
    manners,
    normal,
    same_gradients,
    wrong_output,
)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _use_split(
    split: Callable[[Tensor, int], Tensor], x: Tensor, heads: Tensor
) -> Tensor:
    return split(x, heads.size(0))


def _whole(g: torch.Generator, heads: int = H, gradients: bool = False) -> Request:
    return Request((normal(g, B, T, heads * DH), as_length(heads)), gradients=gradients)


def _to_split(g: torch.Generator) -> Iterator[Request]:
    yield _whole(g, gradients=True)
    yield _whole(g, heads=1)
    yield _whole(g, heads=DH)


def _split_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_whole(g))


SPLIT_HEADS = Question(
    name="split_heads",
    reference=split_heads,
    use=_use_split,
    properties=(
        Property(
            "each head gets its piece of every vector", 2, _to_split, same_gradients
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _split_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "heads split by view, without transpose",
            MIXED + " First cut the last axis in two, then exchange axes.",
            HEADS + "split",
            lambda x, num_heads: x.reshape(x.size(0), num_heads, x.size(1), -1),
        ),
        Mistake(
            "pieces interleaved",
            "Of the two new axes the first counts heads and the second the entries of a"
            " piece.",
            HEADS + "split",
            lambda x, num_heads: x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2),
        ),
        Mistake(
            "transpose missing",
            "After the cut the axes are (B, T, H, Dh); attention wants heads before"
            " positions.",
            HEADS + "split",
            lambda x, num_heads: x.unflatten(-1, (num_heads, -1)),
        ),
        *ANYWHERE,
        Mistake(
            "numbers at the wrong places",
            MIXED,
            HEADS + "split",
            sign=wrong_output(same_numbers_elsewhere),
        ),
    ),
)
