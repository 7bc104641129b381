"""Blocks, sizes, nested tensors and typical mistakes, shared by questions of lab 6."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import DecoderBlock as CourseDecoderBlock
from attention_course.transformer import EncoderBlock as CourseEncoderBlock
from attention_course.transformer import FeedForward, Residual
from nbjudge import (
    Axis,
    Draw,
    Finding,
    Mistake,
    Reply,
    Request,
    close,
    comparable,
    error_like,
    same_gradients,
)

BLOCK = "13_transformer.html#transformer-stream"
CACHE = "14_decoding.html#decoding-cache"

STATES = 0  # where they stand among the outputs
# What blocks are constructed with: D is H times the width of a head.
SIZES = {
    "H": Axis("heads", most=4, fixed=True),
    "DH": Axis("width of a head", most=6, fixed=True),
    "HIDDEN": Axis("width inside the feed-forward network", fixed=True),
}
SENTENCES, SOURCE = Axis("sentences"), Axis("source positions", long=300)
TARGET = Axis("target positions", long=300)
NO_NOTHING = {"zero": "the lab says that no length is 0"}
LENGTHS = (
    "P may be 0, and so may the T of a causal mask; every other length is at least 1."
)


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


def with_an_empty_row(mask: Tensor) -> Tensor:
    """Let the first position attend to nothing, whatever a mask says of it."""
    return mask & (torch.arange(len(mask)) > 0)[:, None]


def init(d: Draw, dropout: float = 0.0, pre_norm: bool = True) -> tuple[Any, ...]:
    """Make what a block is constructed with."""
    return d.H * d.DH, d.H, d.HIDDEN, dropout, pre_norm


def with_dropout(d: Draw, request: Request) -> Iterator[Request]:
    """Drop all that sub-layers say, nothing in eval mode, and a share of each alone.

    A sub-layer that is alone says 1 everywhere: its norm does, and so does the source,
    and each of its maps takes the mean. It says something else if anything is dropped
    on the way.
    """
    for pre_norm in (True, False):
        yield replace(request, init=init(d, 1.0, pre_norm))
        half = replace(request, init=init(d, 0.5, pre_norm), training=False)
        yield replace(half, gradients=True)
    states, *rest = request.inputs
    inputs = (states, *(torch.ones_like(x) if _is_float(x) else x for x in rest))
    weights = request.parameters
    said = "output_proj.weight", "output_proj.bias", "outer.weight", "outer.bias"
    silent = {name: x * (not name.endswith(said)) for name, x in weights.items()}
    for name in filter(lambda name: name.endswith("norm.bias"), weights):
        layer = name.removeprefix("around_").split(".")[0]
        own = {x: _mean(x, weights[x]) for x in weights if layer in x.split(".")[0]}
        share = d.number(2, 6) / 8
        alone = replace(request, inputs=inputs, parameters={**silent, **own})
        yield replace(alone, init=init(d, share))


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _mean(name: str, x: Tensor) -> Tensor:
    """Make a norm say 1, and a map take the mean."""
    if "norm" in name:
        return torch.full_like(x, float(name.endswith("bias")))
    return torch.full_like(x, name.endswith("weight") / x.size(-1))


def same_but_for_chance(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Compare states to which ones were added, of which training drops a share."""
    share, x = request.init[3] if request.init else 0.0, request.inputs[0]
    chance = 0 < share < 1 and request.training
    if chance and [y.shape for y in reply.outputs[:1]] == [x.shape]:
        kept = (reply.outputs[STATES] - x).abs() > 1e-6
        wanted = (x + kept / (1 - share), *reference.outputs[1:])
        reference = reference._replace(outputs=wanted)
    return same_gradients(request, reply, reference)


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


def in_parts(out: Any, things: int, tensors: int) -> Any:
    """List the tensors of so many things, of which the last is a `KeyValue`.

    Raises:
        TypeError: there are as many tensors as there should be, but in other things.
    """
    found = flattened(out)
    is_one = isinstance(out, Tensor) or not isinstance(out, tuple | list)
    given = [out] if is_one else out
    packed = len(given) == things and hasattr(given[-1], "key")
    if not packed and found is not None and len(found) == tensors:
        kinds = ", ".join(type(x).__name__ for x in given)
        raise TypeError(f"returned {kinds}: wanted {things} things, last a KeyValue")
    return found


def has_mask(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether any input is a mask."""
    return any(getattr(x, "dtype", None) == torch.bool for x in request.inputs)


def is_ordinary(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether nothing about a request is rare, and no mask is in it."""
    usual = (request.init or ())[3:] == (0.0, True)
    ordinary = usual and min(request.inputs[0].shape) > 1
    masked = has_mask(request, reply, reference)
    return ordinary and not masked and not request.before


def other_memory(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the states are right, and the keys and values after them are not."""
    if request.device == "meta" or len(reply.outputs) != len(reference.outputs):
        return False
    right = list(map(close, reply.outputs, reference.outputs))
    return right[STATES] and not all(right[-2:])


WAY_AROUND = (
    "Add the output of a sub-layer to its input: call `after(x, ...)` with the input"
    " of the sub-layer as x."
)
NORM_PLACE = (
    "`before` and `after` put the norm in the right place. Call `before` on the input"
    " of the sub-layer, and call `after` on its input and its output."
)
DROPPED = (
    "`after` applies dropout to its second argument. Pass the sub-layer's output there."
)
PACKED = Mistake(
    "the results are packed in another way",
    "Look at Returns in the docstring. Return exactly these things, and as the last of"
    " them the `KeyValue` itself, not its key and its value.",
    CACHE,
    sign=error_like("wanted . things, last a KeyValue"),
)
# Signs for the end of a list: the replies differ in blocks of one kind alone.
ELSEWHERE = (
    Mistake(
        "dropout in the wrong place",
        DROPPED,
        BLOCK,
        sign=comparable(
            lambda request, reply, reference: (
                (request.init or ())[3] > 0 and request.training
            )
        ),
    ),
    Mistake(
        "the norm in the wrong place",
        NORM_PLACE + " This block is a post-norm block.",
        BLOCK,
        sign=comparable(lambda *asked: not asked[0].init[4] and not has_mask(*asked)),
    ),
)
