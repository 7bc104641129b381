"""merge_heads: the pieces of a vector are put side by side again."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attention_course.questions.core import Misconception, Property, Question, Request
from attention_course.questions.inputs import manners, normal
from attention_course.questions.judges import good_manners, same_gradients
from attention_course.questions.lab05_self_attention.hints import (
    BACK,
    DH,
    HEADS,
    B,
    H,
    T,
    same_numbers_elsewhere,
)
from attention_course.questions.signs import ANYWHERE, wrong_output


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
    misconceptions=(
        Misconception(
            "heads merged by view, without transpose",
            BACK,
            HEADS + "split",
            lambda x: x.reshape(x.size(0), x.size(2), -1),
        ),
        Misconception(
            "pieces interleaved",
            "In a token's vector all of the first head's piece comes first.",
            HEADS + "split",
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
        ),
        Misconception(
            "heads added up",
            "The pieces are put side by side, not added.",
            HEADS + "split",
            lambda x: x.sum(1),
        ),
        *ANYWHERE,
        Misconception(
            "numbers at the wrong places",
            "All of a token's pieces go into its own vector, head after head.",
            HEADS + "split",
            sign=wrong_output(same_numbers_elsewhere),
        ),
    ),
)
