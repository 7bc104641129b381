"""merge_heads: the pieces of a vector are put side by side again."""

import torch
from torch import Tensor

from attention_labs.lab05_self_attention.shared import (
    BACK,
    DH,
    ELSEWHERE,
    HEADS,
    B,
    H,
    T,
)
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    edit,
    good_manners,
    manners,
    normal,
    same_gradients,
)


def merge_heads(x: Tensor) -> Tensor:
    """Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def _pieces(g: torch.Generator, heads: int, gradients: bool = False) -> Request:
    return Request((normal(g, B, heads, T, DH),), gradients=gradients)


MERGE_HEADS = Question(
    name="merge_heads",
    reference=merge_heads,
    use=lambda merge, x: merge(x),
    properties=(
        Property(
            "each token gets its pieces back, in a row",
            1,
            lambda g: (_pieces(g, H, gradients=True), _pieces(g, 1), _pieces(g, T)),
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_pieces(g, H)),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "heads merged by view, without transpose",
            BACK,
            HEADS + "split",
            edit(
                merge_heads,
                "x.transpose(1, 2).flatten(2)",
                "x.reshape(x.size(0), x.size(2), -1)",
            ),
        ),
        Mistake(
            "pieces interleaved",
            "In a token's vector all of the first head's piece comes first.",
            HEADS + "split",
            edit(merge_heads, "transpose(1, 2)", "permute(0, 2, 3, 1)"),
        ),
        Mistake(
            "heads added up",
            "The pieces are put side by side, not added.",
            HEADS + "split",
            edit(merge_heads, "transpose(1, 2).flatten(2)", "sum(1)"),
        ),
        *ANYWHERE,
        Mistake(
            "numbers at the wrong places",
            "All of a token's pieces go into its own vector, head after head.",
            HEADS + "split",
            sign=ELSEWHERE,
        ),
    ),
)
