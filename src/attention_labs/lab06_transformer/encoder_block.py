"""encoder_block: a sequence asks itself, then every position thinks for itself."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask, padding_mask
from attention_labs.lab06_transformer.blocks import (
    ALL_DROPPED,
    BLOCK,
    DROPPED,
    ELSEWHERE,
    NORM_PLACE,
    POST_NORM,
    PRE_NORM,
    STATES,
    WAY_AROUND,
    B,
    D,
    EncoderBlock,
    T,
    flattened,
    has_mask,
    other_memory,
    with_switches,
)
from attention_labs.pages import MASK
from attention_labs.pieces import with_methods
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    comparable,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)


class _EncoderBlock(EncoderBlock):
    """The course's block in pieces that a mistake can replace."""

    def forward(
        self, x: Tensor, mask: Tensor | None = None, past: KeyValue | None = None
    ) -> Any:
        query = self.read(x)
        seen = self.self_attention.remember(*self.keep(x, query))
        context, _ = self.self_attention.ask(
            query, seen, self.allow(mask), need_weights=False
        )
        return self.think(x, self.add(x, query, context)), seen

    def read(self, x: Tensor) -> Tensor:
        return self.around_self.before(x)

    def keep(self, x: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        return query, query

    def allow(self, mask: Tensor | None) -> Tensor | None:
        return mask

    def add(self, x: Tensor, query: Tensor, context: Tensor) -> Tensor:
        return self.around_self.after(x, context)

    def think(self, x: Tensor, y: Tensor) -> Tensor:
        return self.around_feed_forward.after(
            y, self.feed_forward(self.around_feed_forward.before(y))
        )


def _use_encoder(block: Any, x: Tensor, mask: Tensor | None) -> Any:
    return flattened(block(x) if mask is None else block(x, mask))


def _reading(
    g: torch.Generator,
    mask: Tensor | None = None,
    init: tuple[int, ...] = PRE_NORM,
    gradients: bool = False,
) -> Request:
    weights = parameters(g, lambda: with_switches(EncoderBlock, *init))
    return Request((normal(g, B, T, D), mask), init, weights, gradients)


def _unmasked_blocks(g: torch.Generator) -> Iterator[Request]:
    yield _reading(g)


def _masked_blocks(g: torch.Generator) -> Iterator[Request]:
    yield _reading(g, some_allowed(g, B, T, T), gradients=True)
    yield _reading(g, padding_mask(torch.tensor([T, T - 2]), T), gradients=True)
    yield _reading(g, causal_mask(T))


def _post_norm_blocks(g: torch.Generator) -> Iterator[Request]:
    yield _reading(g, some_allowed(g, B, T, T), POST_NORM, gradients=True)
    yield _reading(g, None, ALL_DROPPED)


def _block_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_reading(g, some_allowed(g, B, 1, T)))


THINKING = (
    "The feed-forward network is the second sub-layer: it reads the states after the"
    " first, in the same manner."
)

ENCODER_BLOCK = Question(
    name="encoder_block",
    reference=EncoderBlock,
    use=_use_encoder,
    make=with_switches,
    properties=(
        Property(
            "the states, without a mask",
            2,
            _unmasked_blocks,
            of_output(STATES, same_numbers),
        ),
        Property(
            "what is remembered, all gradients, padding and causal masks",
            1,
            _masked_blocks,
            same_gradients,
        ),
        Property(
            "post-norm blocks; dropout on what a sub-layer adds",
            1,
            _post_norm_blocks,
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _block_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "dropout at another place",
            DROPPED,
            BLOCK,
            with_methods(
                _EncoderBlock,
                add=lambda self, x, query, context: self.around_self.after(context, x),
            ),
        ),
        Mistake(
            "no way around the attention",
            WAY_AROUND,
            BLOCK,
            with_methods(_EncoderBlock, add=lambda self, x, query, context: context),
        ),
        Mistake(
            "the way around begins behind the norm",
            WAY_AROUND + " In a pre-norm block that is x, not the normalised x.",
            BLOCK,
            with_methods(
                _EncoderBlock,
                add=lambda self, x, query, context: self.around_self.after(
                    query, context
                ),
            ),
        ),
        Mistake(
            "the attention reads what is not normalised",
            NORM_PLACE,
            BLOCK,
            with_methods(_EncoderBlock, read=lambda self, x: x),
        ),
        Mistake(
            "keys and values of what is not normalised",
            "Queries, keys and values are maps of the same sequence: what `before`"
            " returned.",
            BLOCK,
            with_methods(_EncoderBlock, keep=lambda self, x, query: (x, x)),
        ),
        Mistake(
            "the feed-forward network reads what is not normalised",
            NORM_PLACE,
            BLOCK,
            with_methods(
                _EncoderBlock,
                think=lambda self, x, y: self.around_feed_forward.after(
                    y, self.feed_forward(y)
                ),
            ),
        ),
        Mistake(
            "no way around the feed-forward network",
            WAY_AROUND,
            BLOCK,
            with_methods(
                _EncoderBlock,
                think=lambda self, x, y: self.feed_forward(
                    self.around_feed_forward.before(y)
                ),
            ),
        ),
        Mistake(
            "the feed-forward network left out",
            THINKING,
            BLOCK,
            with_methods(_EncoderBlock, think=lambda self, x, y: y),
        ),
        Mistake(
            "both sub-layers read what came in",
            THINKING,
            BLOCK,
            with_methods(
                _EncoderBlock,
                think=lambda self, x, y: self.around_feed_forward.after(
                    y, self.feed_forward(self.around_feed_forward.before(x))
                ),
            ),
        ),
        Mistake(
            "one norm for both sub-layers",
            "Each sub-layer has a `Residual` of its own: around_self and"
            " around_feed_forward.",
            BLOCK,
            with_methods(
                _EncoderBlock,
                think=lambda self, x, y: self.around_self.after(
                    y, self.feed_forward(self.around_self.before(y))
                ),
            ),
        ),
        Mistake(
            "the mask reaches nothing",
            "Hand it to `ask`.",
            MASK,
            with_methods(_EncoderBlock, allow=lambda self, mask: None),
        ),
        Mistake(
            "the mask inside out",
            "In this course True means: may attend, and `ask` takes it as it is.",
            MASK,
            with_methods(
                _EncoderBlock, allow=lambda self, mask: None if mask is None else ~mask
            ),
        ),
        Mistake(
            "something else is remembered",
            "The states are right. What comes second is what `self_attention.remember`"
            " returned.",
            BLOCK,
            sign=other_memory,
        ),
        *ANYWHERE,
        *ELSEWHERE,
        Mistake(
            "another mask",
            "Without a mask the block is right: the mask goes into `ask`, unchanged.",
            MASK,
            sign=comparable(has_mask),
        ),
        Mistake(
            "the sub-layers are joined in another way",
            "Twice: read what `before` returns, and give `after` the states and what"
            " the sub-layer says.",
            BLOCK,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
