"""encoder_block: a sequence asks itself, then every position thinks for itself."""

from typing import Any

import torch
from torch import Tensor

from attention_course.masks import causal_mask, padding_mask
from attention_labs.lab06_transformer.shared import (
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
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    Mistake,
    Property,
    Question,
    Request,
    comparable,
    edit,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
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


FORWARD = EncoderBlock.forward
THINK = "self.around_feed_forward.after(x, thought)"
LOOK = "context, seen = look_around(self.self_attention, query, mask, past)"
LOOK_AT_X = """seen = self.self_attention.remember(x, x)
    context, _ = self.self_attention.ask(query, seen, mask)"""
THINKING = (
    "The feed-forward network is the second sub-layer: it reads the states after the"
    " first, in the same manner."
)

ENCODER_BLOCK = Question(
    name="encoder_block",
    reference=EncoderBlock,
    use=_use_encoder,
    make=with_switches,
    forbidden=(
        *ATTENTION,
        "attention_course.transformer.EncoderBlock",
        "attention_course.models.encoder_block",
    ),
    properties=(
        Property(
            "the states, without a mask",
            2,
            lambda g: [_reading(g)],
            of_output(STATES, same_numbers),
        ),
        Property(
            "what is remembered, all gradients, padding and causal masks",
            1,
            lambda g: [
                _reading(g, some_allowed(g, B, T, T), gradients=True),
                _reading(g, padding_mask(torch.tensor([T, T - 2]), T), gradients=True),
                _reading(g, causal_mask(T)),
            ],
            same_gradients,
        ),
        Property(
            "post-norm blocks; dropout on what a sub-layer adds",
            1,
            lambda g: [
                _reading(g, some_allowed(g, B, T, T), POST_NORM, gradients=True),
                _reading(g, None, ALL_DROPPED),
            ],
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_reading(g, some_allowed(g, B, 1, T))),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "dropout at another place",
            DROPPED,
            BLOCK,
            edit(FORWARD, "after(x, context)", "after(context, x)"),
        ),
        Mistake(
            "no way around the attention",
            WAY_AROUND,
            BLOCK,
            edit(FORWARD, "self.around_self.after(x, context)", "context"),
        ),
        Mistake(
            "the way around begins behind the norm",
            WAY_AROUND + " In a pre-norm block that is x, not the normalised x.",
            BLOCK,
            edit(FORWARD, "after(x, context)", "after(query, context)"),
        ),
        Mistake(
            "the attention reads what is not normalised",
            NORM_PLACE,
            BLOCK,
            edit(FORWARD, "self.around_self.before(x)", "x"),
        ),
        Mistake(
            "keys and values of what is not normalised",
            "Queries, keys and values are maps of the same sequence: what `before`"
            " returned.",
            BLOCK,
            edit(FORWARD, LOOK, LOOK_AT_X),
        ),
        Mistake(
            "the feed-forward network reads what is not normalised",
            NORM_PLACE,
            BLOCK,
            edit(FORWARD, "self.around_feed_forward.before(x)", "x"),
        ),
        Mistake(
            "no way around the feed-forward network",
            WAY_AROUND,
            BLOCK,
            edit(FORWARD, THINK, "thought"),
        ),
        Mistake(
            "the feed-forward network left out",
            THINKING,
            BLOCK,
            edit(FORWARD, THINK, "x"),
        ),
        Mistake(
            "both sub-layers read what came in",
            THINKING,
            BLOCK,
            edit(FORWARD, "x = self.around_self", "y = self.around_self")
            & edit(FORWARD, "after(x, thought)", "after(y, thought)"),
        ),
        Mistake(
            "one norm for both sub-layers",
            "Each sub-layer has a `Residual` of its own: around_self and"
            " around_feed_forward.",
            BLOCK,
            edit(FORWARD, "around_feed_forward.before", "around_self.before")
            & edit(FORWARD, "around_feed_forward.after", "around_self.after"),
        ),
        Mistake(
            "the mask reaches nothing",
            "Hand it to `ask`.",
            MASK,
            edit(FORWARD, "query, mask, past", "query, None, past"),
        ),
        Mistake(
            "the mask inside out",
            "In this course True means: may attend, and `ask` takes it as it is.",
            MASK,
            edit(
                FORWARD,
                "query, mask, past",
                "query, None if mask is None else ~mask, past",
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
