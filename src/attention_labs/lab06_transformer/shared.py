"""What several questions of this lab share: blocks, sizes, mistakes that all invite."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import DecoderBlock as CourseDecoderBlock
from attention_course.transformer import EncoderBlock as CourseEncoderBlock
from attention_course.transformer import FeedForward, Residual
from nbjudge import Mistake, Reply, Request, close, comparable

B, H, T, S, P, DH, HIDDEN, V = 2, 3, 5, 7, 4, 4, 10, 11
D = H * DH
BLOCK = "13_transformer.html#transformer-stream"
CACHE = "14_decoding.html#decoding-cache"

STATES = 0  # where they stand among the outputs
PRE_NORM, POST_NORM = (D, H, HIDDEN, 0, 1), (D, H, HIDDEN, 0, 0)
ALL_DROPPED = (D, H, HIDDEN, 1, 1)  # nothing that a sub-layer says gets through


class EncoderBlock(CourseEncoderBlock):
    """The course's block, constructed from numbers as the lab's is."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        pre_norm: bool = True,
    ):
        super().__init__(
            self_attention=MultiHeadAttention(dim, num_heads),
            feed_forward=FeedForward(dim, hidden_dim),
            around_self=Residual(nn.LayerNorm(dim), dropout, pre_norm),
            around_feed_forward=Residual(nn.LayerNorm(dim), dropout, pre_norm),
        )


class DecoderBlock(CourseDecoderBlock):
    """The course's block, constructed from numbers as the lab's is."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        pre_norm: bool = True,
    ):
        super().__init__(
            self_attention=MultiHeadAttention(dim, num_heads),
            cross_attention=MultiHeadAttention(dim, num_heads),
            feed_forward=FeedForward(dim, hidden_dim),
            around_self=Residual(nn.LayerNorm(dim), dropout, pre_norm),
            around_cross=Residual(nn.LayerNorm(dim), dropout, pre_norm),
            around_feed_forward=Residual(nn.LayerNorm(dim), dropout, pre_norm),
        )


def with_switches(
    block: Any, dim: int, num_heads: int, hidden_dim: int, dropout: int, pre_norm: int
) -> Any:
    """Construct a block, whose switches travel as numbers."""
    return block(dim, num_heads, hidden_dim, float(dropout), bool(pre_norm))


def tensors_of(tree: Any) -> Iterator[Tensor]:
    """Go through the tensors of nested tuples."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from tensors_of(part)


def flattened(tree: Any) -> Any:
    """List the tensors of nested tuples; None stays None."""
    return None if tree is None else tuple(tensors_of(tree))


def has_mask(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether any input is a mask."""
    return any(getattr(x, "dtype", None) == torch.bool for x in request.inputs)


def other_memory(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the states are right, and the keys and values after them are not."""
    if request.device == "meta" or len(reply.outputs) != len(reference.outputs):
        return False
    right = list(map(close, reply.outputs, reference.outputs))
    return right[STATES] and not all(right[-2:])


WAY_AROUND = (
    "What a sub-layer says is added to what went in: `after(x, ...)` with the states as"
    " they came in."
)
NORM_PLACE = (
    "`before` and `after` know where the norm stands: one is called on what the"
    " sub-layer reads, one on the sum."
)
DROPPED = (
    "Training drops from what a sub-layer adds: it is the second thing that `after`"
    " takes."
)
# Signs for the end of a list: the replies differ in blocks of one kind alone.
ELSEWHERE = (
    Mistake(
        "dropout at another place",
        DROPPED,
        BLOCK,
        sign=comparable(lambda request, reply, reference: request.init == ALL_DROPPED),
    ),
    Mistake(
        "the norm at another place",
        NORM_PLACE + " This block is a post-norm block.",
        BLOCK,
        sign=comparable(lambda request, reply, reference: request.init == POST_NORM),
    ),
)
