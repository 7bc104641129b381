"""split_heads: every vector is cut into a piece per head."""

import torch
from torch import Tensor

from attention_labs.lab05_self_attention.shared import (
    DH,
    ELSEWHERE,
    HEADS,
    MIXED,
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


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _whole(g: torch.Generator, heads: int, gradients: bool = False) -> Request:
    return Request((normal(g, B, T, heads * DH), heads), gradients=gradients)


SPLIT_HEADS = Question(
    name="split_heads",
    reference=split_heads,
    use=lambda split, x, num_heads: split(x, num_heads),
    properties=(
        Property(
            "each head gets its piece of every vector",
            2,
            lambda g: (_whole(g, H, gradients=True), _whole(g, 1), _whole(g, DH)),
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_whole(g, H)),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "heads split by view, without transpose",
            MIXED + " First cut the last axis in two, then exchange axes.",
            HEADS + "split",
            edit(
                split_heads,
                "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
                "x.reshape(x.size(0), num_heads, x.size(1), -1)",
            ),
        ),
        Mistake(
            "pieces interleaved",
            "Of the two new axes the first counts heads and the second the entries of a"
            " piece.",
            HEADS + "split",
            edit(
                split_heads,
                "(num_heads, -1)).transpose(1, 2)",
                "(-1, num_heads)).permute(0, 3, 1, 2)",
            ),
        ),
        Mistake(
            "transpose missing",
            "After the cut the axes are (B, T, H, Dh); attention wants heads before"
            " positions.",
            HEADS + "split",
            edit(split_heads, ".transpose(1, 2)", ""),
        ),
        *ANYWHERE,
        Mistake(
            "numbers at the wrong places",
            MIXED,
            HEADS + "split",
            sign=ELSEWHERE,
        ),
    ),
)
