"""merge_heads: the pieces of a vector are put side by side again."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attention_labs.lab05_self_attention.hints import (
    BACK,
    DH,
    HEADS,
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
    good_manners,
    manners,
    normal,
    same_gradients,
    wrong_output,
)


def merge_heads(x: Tensor) -> Tensor:
    """Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def _use_merge(merge: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return merge(x)


def _pieces(g: torch.Generator, heads: int = H, gradients: bool = False) -> Request:
    return Request((normal(g, B, heads, T, DH),), gradients=gradients)


def _to_merge(g: torch.Generator) -> Iterator[Request]:
    yield _pieces(g, gradients=True)
    yield _pieces(g, heads=1)
    yield _pieces(g, heads=T)


def _merge_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_pieces(g))


MERGE_HEADS = Question(
    name="merge_heads",
    reference=merge_heads,
    use=_use_merge,
    properties=(
        Property(
            "each token gets its pieces back, in a row", 1, _to_merge, same_gradients
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _merge_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "heads merged by view, without transpose",
            BACK,
            HEADS + "split",
            lambda x: x.reshape(x.size(0), x.size(2), -1),
        ),
        Mistake(
            "pieces interleaved",
            "In a token's vector all of the first head's piece comes first.",
            HEADS + "split",
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
        ),
        Mistake(
            "heads added up",
            "The pieces are put side by side, not added.",
            HEADS + "split",
            lambda x: x.sum(1),
        ),
        *ANYWHERE,
        Mistake(
            "numbers at the wrong places",
            "All of a token's pieces go into its own vector, head after head.",
            HEADS + "split",
            sign=wrong_output(same_numbers_elsewhere),
        ),
    ),
)
