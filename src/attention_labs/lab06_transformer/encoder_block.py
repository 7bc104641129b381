"""Question `encoder_block`: self-attention, then a feed-forward network."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from attention_course.masks import causal_mask
from attention_labs.lab06_transformer.shared import (
    BLOCK,
    DROPPED,
    ELSEWHERE,
    LENGTHS,
    NO_NOTHING,
    NORM_PLACE,
    PACKED,
    SENTENCES,
    SIZES,
    STATES,
    TARGET,
    WAY_AROUND,
    EncoderBlock,
    has_mask,
    in_parts,
    init,
    is_ordinary,
    other_memory,
    same_but_for_chance,
    with_an_empty_row,
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
    return in_parts(block(x) if mask is None else block(x, mask), 2, 3)


def _reading(d: Draw, mask: Tensor | None = None, pre_norm: bool = True) -> Request:
    how = init(d, pre_norm=pre_norm)
    weights = parameters(d, lambda: EncoderBlock(*how))
    return Request((normal(d, d.B, d.T, how[0]), mask), how, weights)


def _masked(d: Draw) -> list[Request]:
    masks = (d.B, d.T, d.T), (d.B, 1, d.T), (1, d.T), (d.T,)
    given = None, causal_mask(d.T), *(some_allowed(d, *shape) for shape in masks)
    return [replace(_reading(d, mask), gradients=True) for mask in given]


def _rare(d: Draw) -> list[Request]:
    """Ask also for positions that may look at nothing: they still think."""
    post_norm = replace(_reading(d, None, pre_norm=False), gradients=True)
    masks = [(x, some_allowed(x, x.T, x.T)) for x in (d, BATTERY.sized(d, T=1))]
    nothing = [_reading(x, with_an_empty_row(mask)) for x, mask in masks]
    return [post_norm, *nothing, *with_dropout(d, _reading(d))]


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
BY_HAND = edit(FORWARD, "self.around_self.after(x, context)", "x + context")
BEHIND = edit(FORWARD, "after(x, context)", "after(query, context)")
READ = "self.around_feed_forward.before(x)"
THINKING = (
    "The feed-forward network is the second sub-layer. Apply it to the states after"
    " the first sub-layer, between `before` and `after`."
)

QUESTION = Question(
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
        "around": "Each sub-layer f has a skip connection around it and a layer norm,"
        " LN.",
        "reads": "With `around = Residual(...)`, compute a sub-layer as"
        " `around.after(x, f(around.before(x)))`.",
        "remembered": "Return the states, and the `KeyValue` that"
        " `self_attention.remember` returned.",
        "dropout": "dropout: the share of a sub-layer's output that is dropped in"
        " training.",
        "pre_norm": "pre_norm: True for a pre-norm block, False for a post-norm block.",
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
            "the `KeyValue`, all gradients, padding masks and causal masks",
            1,
            _masked,
            same_gradients,
            checks=("remembered", "mask", "returns"),
        ),
        BATTERY.edges(
            1,
            same_but_for_chance,
            claim="post-norm blocks; dropout on a sub-layer's output; edge cases",
            also=_rare,
            checks=("lengths", "reads", "dropout", "pre_norm", "returns"),
        ),
        BATTERY.manners(1),
    ),
    mistakes=(
        Mistake(
            "dropout in the wrong place",
            DROPPED,
            BLOCK,
            edit(FORWARD, "after(x, context)", "after(context, x)"),
        ),
        Mistake(
            "no skip connection around the attention",
            WAY_AROUND,
            BLOCK,
            edit(FORWARD, "self.around_self.after(x, context)", "context"),
        ),
        Mistake(
            "the skip connection begins after the norm",
            WAY_AROUND + " In a pre-norm block, this is x before the norm.",
            BLOCK,
            (
                BEHIND,
                edit(FORWARD, THINK, THINK.replace("(x", f"({READ}")),
                BEHIND & edit(FORWARD, THINK, THINK.replace("(x", f"({READ}")),
            ),
        ),
        Mistake(
            "the attention reads states without the norm",
            NORM_PLACE,
            BLOCK,
            edit(FORWARD, "self.around_self.before(x)", "x"),
        ),
        Mistake(
            "keys and values made from states without the norm",
            "Make queries, keys and values from the same sequence, the result of"
            " `before`.",
            BLOCK,
            edit(FORWARD, LOOK, LOOK_AT_X),
        ),
        Mistake(
            "queries made from states without the norm",
            "Make queries, keys and values from the same sequence, the result of"
            " `before`.",
            BLOCK,
            edit(FORWARD, LOOK, LOOK_FOR_X),
        ),
        Mistake(
            "the feed-forward network reads states without the norm",
            NORM_PLACE,
            BLOCK,
            edit(FORWARD, "self.around_feed_forward.before(x)", "x"),
        ),
        Mistake(
            "no skip connection around the feed-forward network",
            WAY_AROUND,
            BLOCK,
            edit(FORWARD, THINK, "thought"),
        ),
        Mistake(
            "feed-forward network missing",
            THINKING,
            BLOCK,
            edit(FORWARD, THINK, "x"),
        ),
        Mistake(
            "both sub-layers read the block's input",
            THINKING,
            BLOCK,
            edit(FORWARD, "x = self.around_self", "y = self.around_self")
            & edit(FORWARD, "after(x, thought)", "after(y, thought)"),
        ),
        Mistake(
            "one norm shared by both sub-layers",
            "Each sub-layer has its own `Residual`: around_self or"
            " around_feed_forward.",
            BLOCK,
            edit(FORWARD, "around_feed_forward.before", "around_self.before")
            & edit(FORWARD, "around_feed_forward.after", "around_self.after"),
        ),
        Mistake(
            "`ask` is called on the sequence, not on a `KeyValue`",
            "`ask` attends to a `KeyValue`. Make one with `remember` first.",
            BLOCK,
            edit(
                FORWARD,
                LOOK,
                "context, seen = self.self_attention.ask(query, query, mask)",
            ),
        ),
        Mistake(
            "the mask is not used",
            "Pass the mask to `ask`.",
            MASK,
            edit(FORWARD, "query, mask, past", "query, None, past"),
        ),
        Mistake(
            "True and False swapped in the mask",
            "In this course, True means that a query may attend to a key. Pass the"
            " mask to `ask` as it is.",
            MASK,
            edit(
                FORWARD,
                "query, mask, past",
                "query, None if mask is None else ~mask, past",
            ),
        ),
        Mistake(
            "added by hand, without `after`",
            "`after` adds, applies dropout, and in a post-norm block also the norm."
            " Call it for both sub-layers.",
            BLOCK,
            (
                BY_HAND & edit(FORWARD, THINK, "x + thought"),
                BY_HAND,
                edit(FORWARD, THINK, "x + thought"),
            ),
        ),
        Mistake(
            "the two `Residual` swapped",
            "around_self belongs to the attention, and around_feed_forward to the"
            " feed-forward network.",
            BLOCK,
            edit(FORWARD, READ, "self.around_self .before(x)")
            & edit(FORWARD, THINK, "self.around_self .after(x, thought)")
            & edit(FORWARD, "around_self.before", "around_feed_forward.before")
            & edit(FORWARD, "around_self.after", "around_feed_forward.after"),
        ),
        Mistake(
            "the first row of the mask for all positions",
            "Each position has its own row of the mask. Only a padding mask has the"
            " same row for all.",
            MASK,
            edit(
                FORWARD,
                "query, mask, past",
                "query, mask if mask is None or mask.dim() < 2 else mask[..., :1, :],"
                " past",
            ),
        ),
        Mistake(
            "a wrong `KeyValue` is returned",
            "The states are right. As the second result, return what"
            " `self_attention.remember` returned.",
            BLOCK,
            edit(
                FORWARD,
                f"return {THINK}, seen",
                f"x = {THINK}; return x, self.self_attention.remember(x, x)",
            ),
            sign=other_memory,
        ),
        PACKED,
        *ANYWHERE,
        *ELSEWHERE,
        Mistake(
            "a wrong mask",
            "Without a mask, the block is right. Pass the mask to `ask` as it is.",
            MASK,
            sign=comparable(has_mask),
        ),
        Mistake(
            "the sub-layers are put together in a wrong way",
            "Do this twice: call `before` on the states, apply the sub-layer to the"
            " result, and call `after` on the states and the sub-layer's output.",
            BLOCK,
            sign=comparable(is_ordinary),
        ),
    ),
)
