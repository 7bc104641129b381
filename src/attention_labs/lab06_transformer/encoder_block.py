"""encoder_block: a sequence asks itself, then every position thinks for itself."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course.masks import causal_mask
from attention_labs.lab06_transformer.shared import (
    BLOCK,
    DROPPED,
    ELSEWHERE,
    LENGTHS,
    NO_NOTHING,
    NORM_PLACE,
    SENTENCES,
    SIZES,
    STATES,
    TARGET,
    WAY_AROUND,
    EncoderBlock,
    flattened,
    has_mask,
    init,
    is_ordinary,
    other_memory,
    same_but_for_chance,
    with_dropout,
)
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    MODULE,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    comparable,
    edit,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)


def _use_encoder(block: Any, x: Tensor, mask: Tensor | None) -> Any:
    return flattened(block(x) if mask is None else block(x, mask))


def _reading(d: Draw, mask: Tensor | None = None, pre_norm: bool = True) -> Request:
    how = init(d, pre_norm=pre_norm)
    weights = parameters(d, lambda: EncoderBlock(*how))
    return Request((normal(d, d.B, d.T, how[0]), mask), how, weights)


def _masked(d: Draw) -> list[Request]:
    masks = (d.B, d.T, d.T), (d.B, 1, d.T), (1, d.T)
    given = None, causal_mask(d.T), *(some_allowed(d, *shape) for shape in masks)
    return [replace(_reading(d, mask), gradients=True) for mask in given]


def _rare(d: Draw) -> list[Request]:
    """Ask also for positions that may look at nothing: they still think."""
    post_norm = replace(_reading(d, None, pre_norm=False), gradients=True)
    nothing = _reading(d, torch.zeros(d.T, d.T, dtype=torch.bool))
    return [post_norm, nothing, *with_dropout(d, _reading(d))]


BATTERY = Battery(
    MODULE,
    lambda d: [
        _reading(d, some_allowed(d, d.B, d.T, d.T)),
        _reading(d, None, pre_norm=False),
    ],
    {"B": SENTENCES, "T": TARGET, **SIZES},
    leaves_out={"in front": "the text says (B, T, D)", **NO_NOTHING},
)

FORWARD = EncoderBlock.forward
THINK = "self.around_feed_forward.after(x, thought)"
LOOK = "context, seen = look_around(self.self_attention, query, mask, past)"
LOOK_AT_X = """seen = self.self_attention.remember(x, x)
    context, _ = self.self_attention.ask(query, seen, mask)"""
LOOK_FOR_X = """seen = self.self_attention.remember(query, query)
    context, _ = self.self_attention.ask(x, seen, mask)"""
BEHIND = edit(FORWARD, "after(x, context)", "after(query, context)")
READ = "self.around_feed_forward.before(x)"
THINKING = (
    "The feed-forward network is the second sub-layer. It reads the states after the"
    " first one, also through `before` and `after`."
)

ENCODER_BLOCK = Question(
    name="encoder_block",
    reference=EncoderBlock,
    use=_use_encoder,
    forbidden=(
        *ATTENTION,
        "attention_course.transformer.EncoderBlock",
        "attention_course.models.encoder_block",
    ),
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "around": "Around each sub-layer f there is a skip connection, and each"
        " sub-layer has a norm.",
        "reads": "With `around = Residual(...)`, a sub-layer reads `around.before(x)`,"
        " and `around.after(x, added)` adds the sub-layer's output to the skip"
        " connection: `after(x, f(before(x)))`.",
        "remembered": "Return the states, and what the self-attention remembered.",
        "dropout": "dropout: share of what a sub-layer adds that training drops.",
        "pre_norm": "pre_norm: where the norm stands, see `Residual`.",
        "x": "x: (B, T, D), the states of the layer below.",
        "mask": "mask: True = may attend, broadcastable to (B, T, T); None allows"
        " everything.",
        "returns": "The states (B, T, D), and the `KeyValue` of the self-attention.",
    },
    properties=(
        BATTERY.numbers(
            "the states, without a mask",
            2,
            of_output(STATES, same_numbers),
            checks=("around", "reads", "x"),
            gradients=False,
            requests=_reading,
        ),
        BATTERY.line(
            "what is remembered, all gradients, padding and causal masks",
            1,
            _masked,
            same_gradients,
            checks=("remembered", "mask", "returns"),
        ),
        BATTERY.edges(
            1,
            same_but_for_chance,
            claim="post-norm blocks; dropout on what a sub-layer adds; edges",
            also=_rare,
            checks=("lengths", "reads", "dropout", "pre_norm", "returns"),
        ),
        BATTERY.manners(1),
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
            (
                BEHIND,
                edit(FORWARD, THINK, THINK.replace("(x", f"({READ}")),
                BEHIND & edit(FORWARD, THINK, THINK.replace("(x", f"({READ}")),
            ),
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
            "queries of what is not normalised",
            "Queries, keys and values are maps of the same sequence: what `before`"
            " returned.",
            BLOCK,
            edit(FORWARD, LOOK, LOOK_FOR_X),
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
            "the sequence is asked, not what is remembered of it",
            "`ask` looks queries up in a `KeyValue`: `remember` makes one first.",
            BLOCK,
            edit(
                FORWARD,
                LOOK,
                "context, seen = self.self_attention.ask(query, query, mask)",
            ),
        ),
        Mistake(
            "the mask reaches nothing",
            "Pass the mask to `ask`.",
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
            "Do this twice: the sub-layer reads what `before` returns, and `after`"
            " gets the states and the output of the sub-layer.",
            BLOCK,
            sign=comparable(is_ordinary),
        ),
    ),
)
